"""What a PDS means by an error: statuses, and the error names of the protocol."""

from __future__ import annotations

import re
from typing import NamedTuple

import orjson

from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.net.client.answer import Response
from trawlnet.net.trouble import clean

_NAMES = {
    "RepoNotFound": Reason.NOT_FOUND,
    "RepoDeactivated": Reason.DEACTIVATED,
    "RepoTakendown": Reason.TAKENDOWN,
    "RepoSuspended": Reason.SUSPENDED,
}


def error_outcome(response: Response) -> Outcome:
    """For any status but success. The name counts, wherever in the text else it may appear."""
    reason = response.reason
    error = _read(response.body)
    if reason in (Reason.HTTP_ERROR, Reason.NOT_FOUND):
        if error is not None:
            reason = _reason_of(error, reason)
        elif _claims_json(response):
            # Cut short, and with it the name that tells a lasting answer from a passing one.
            reason = Reason.TRUNCATED
    said = clean(": ".join(filter(None, [error.name, error.message]))) if error else ""
    detail = f"HTTP {response.status}" + (f" {said}" if said else "")
    return Outcome(reason, wait=response.wait, detail=detail)


def speaks_for_account(outcome: Outcome) -> bool:
    """Whether the server said by name what became of an account. Any web server says 404, such as
    the one that is there after a PDS has gone: nobody's repository is dropped for that."""
    return _NAMED.match(outcome.detail) is not None


class _Error(NamedTuple):
    name: str
    message: str


def _read(body: bytes) -> _Error | None:
    try:
        fields = orjson.loads(body)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return _Error("", "")
    name, message = fields.get("error"), fields.get("message")
    return _Error(
        name if isinstance(name, str) else "", message if isinstance(message, str) else ""
    )


def _reason_of(error: _Error, otherwise: Reason) -> Reason:
    if error.name == _NAMELESS.name and error.message.startswith(_NAMELESS.message):
        return Reason.NOT_FOUND
    return _NAMES.get(error.name, otherwise)


# Old servers, and new ones for accounts that never had a commit, say it in words only.
_NAMELESS = _Error("InvalidRequest", "Could not find repo")


# As `error_outcome` writes it.
_NAMED = re.compile(rf"HTTP \d{{3}} ({'|'.join(_NAMES)}|{_NAMELESS.name}: {_NAMELESS.message})")


def _claims_json(response: Response) -> bool:
    return "json" in response.headers.get("Content-Type", "")
