"""What a PDS means by an error: statuses, and the error names of the protocol."""

from __future__ import annotations

import orjson

from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.net.answer import Response
from trawlnet.net.trouble import clean, reason_for_status

_NAMES = {
    "RepoNotFound": Reason.NOT_FOUND,
    "RepoDeactivated": Reason.DEACTIVATED,
    "RepoTakendown": Reason.TAKENDOWN,
    "RepoSuspended": Reason.SUSPENDED,
}
# Old servers, and new ones for accounts that never had a commit, say it in words only.
_NAMELESS = ("InvalidRequest", "Could not find repo")


def error_outcome(response: Response) -> Outcome:
    """For any status but success. The name counts, wherever in the text else it may appear."""
    name, message = _error(response.body)
    reason = reason_for_status(response.status)
    if reason in (Reason.HTTP_ERROR, Reason.NOT_FOUND):
        if name in _NAMES:
            reason = _NAMES[name]
        elif name == _NAMELESS[0] and message.startswith(_NAMELESS[1]):
            reason = Reason.NOT_FOUND
    said = clean(f"{name}: {message}" if name and message else name or message)
    detail = f"HTTP {response.status}" + (f" {said}" if said else "")
    return Outcome(reason, wait=response.wait, detail=detail)


def _error(body: bytes) -> tuple[str, str]:
    """The error's name and message; empty where the server gave none."""
    try:
        fields = orjson.loads(body)
    except ValueError:
        return "", ""
    if not isinstance(fields, dict):
        return "", ""
    name, message = fields.get("error"), fields.get("message")
    return name if isinstance(name, str) else "", message if isinstance(message, str) else ""
