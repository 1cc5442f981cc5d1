"""The preset `pgcr`: carnage reports of Destiny 2, by the platform's own codes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from trawlnet.crawlers.ids.api.api import AnswerReading, Api, parse_json
from trawlnet.crawlers.ids.model import AnswerVerdict
from trawlnet.crawlers.ids.pgcr.processor import Malformed, is_raid, store_message
from trawlnet.net.client.answer import Response

PATH = "/Platform/Destiny2/Stats/PostGameCarnageReport/{id}/"

# The platform's codes and their names. The same code comes with different statuses, so the code
# decides first.
_CODES: Mapping[int, tuple[str, AnswerVerdict]] = {
    3: ("UnhandledException", AnswerVerdict.FAILED),
    5: ("SystemDisabled", AnswerVerdict.DISABLED),
    12: ("InsufficientPrivileges", AnswerVerdict.EMBARGOED),
    31: ("ThrottleLimitExceeded", AnswerVerdict.THROTTLED),
    35: ("ThrottleLimitExceededMinutes", AnswerVerdict.THROTTLED),
    36: ("ThrottleLimitExceededMomentarily", AnswerVerdict.THROTTLED),
    37: ("ThrottleLimitExceededSeconds", AnswerVerdict.THROTTLED),
    51: ("PerEndpointRequestThrottleExceeded", AnswerVerdict.THROTTLED),
    54: ("PerApplicationThrottleExceeded", AnswerVerdict.THROTTLED),
    55: ("PerApplicationAnonymousThrottleExceeded", AnswerVerdict.THROTTLED),
    56: ("PerApplicationAuthenticatedThrottleExceeded", AnswerVerdict.THROTTLED),
    57: ("PerUserThrottleExceeded", AnswerVerdict.THROTTLED),
    1618: ("DestinyUnexpectedError", AnswerVerdict.FAILED),
    1626: ("DestinyInternalError", AnswerVerdict.FAILED),
    1643: ("DestinyServiceFailure", AnswerVerdict.FAILED),
    1653: ("DestinyPGCRNotFound", AnswerVerdict.NOT_FOUND),
    1672: ("DestinyThrottledByGameServer", AnswerVerdict.THROTTLED),
    # The key was refused: the whole API counts as off, and no id is to blame.
    2101: ("ApiInvalidOrExpiredKey", AnswerVerdict.DISABLED),
    2102: ("ApiKeyMissingFromRequest", AnswerVerdict.DISABLED),
    2103: ("ApplicationDisabled", AnswerVerdict.DISABLED),
    2107: ("OriginHeaderDoesNotMatchKey", AnswerVerdict.DISABLED),
}
_KEY_CODES = (2101, 2102, 2103, 2107)
_SUCCESS = 1
# By status, if the code is missing or unknown.
_STATUSES = {
    403: AnswerVerdict.THROTTLED,
    429: AnswerVerdict.THROTTLED,
    503: AnswerVerdict.THROTTLED,
}
_SPOILT, _PAGE, _OTHER, _RAID, _NO_RAID = "Malformed", "ProxyPage", "Other", "Success", "NonRaid"
_RETRY, _MALFORMED_RETRY = "retry", "malformed_retry"
_LONGEST_THROTTLE = 600.0  # Seconds; a longer wait is cut.


def read(number: int, response: Response) -> AnswerReading:
    body = response.body
    if body.lstrip()[:1] == b"<":
        # A page of the proxy in front of the API: another query parameter may get past it.
        verdict = _STATUSES.get(response.status, AnswerVerdict.FAILED)
        return _trouble(verdict, _PAGE, response, again=_RETRY)
    try:
        envelope = parse_json(body)
    except ValueError as error:
        return _spoilt(response, f"not JSON: {error}"[:100])
    if not isinstance(envelope, dict):
        return _spoilt(response, "no envelope")
    code = envelope.get("ErrorCode")
    if code == _SUCCESS and response.status == 200:
        return _report(number, envelope, response)
    name, verdict = _CODES.get(
        code if isinstance(code, int) else 0,
        (_OTHER, _STATUSES.get(response.status, AnswerVerdict.FAILED)),
    )
    wait = _throttle_seconds(envelope) if verdict is AnswerVerdict.THROTTLED else None
    detail = f"code {code!r}"[:40]
    return _trouble(verdict, name, response, wait=wait, detail=detail)


def _report(number: int, envelope: Mapping[str, Any], response: Response) -> AnswerReading:
    raw = envelope.get("Response")
    if not isinstance(raw, dict):
        return _spoilt(response, "a success without a report")
    try:
        ended = _ended(raw)
        if not is_raid(raw):
            return AnswerReading(AnswerVerdict.FILTERED, _NO_RAID, happened_at=ended)
        message = store_message(raw)
    except Malformed as error:
        return _spoilt(response, str(error)[:100])
    if message["instance"].get("instance_id") not in (number, str(number)):
        return _spoilt(response, "the report of another id")
    return AnswerReading(AnswerVerdict.STORED, _RAID, happened_at=ended, message=message)


def _ended(raw: Mapping[str, Any]) -> float:
    """When the activity ended. Raises Malformed."""
    try:
        began = datetime.fromisoformat(raw["period"]).timestamp()
        values = raw["entries"][0]["values"] if raw.get("entries") else {}
        duration = float(values["activityDurationSeconds"]["basic"]["value"]) if values else 0.0
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise Malformed(f"its time cannot be read: {type(error).__name__}") from error
    return began + duration


def _throttle_seconds(envelope: Mapping[str, Any]) -> float | None:
    wait = envelope.get("ThrottleSeconds")
    usable = isinstance(wait, int | float) and not isinstance(wait, bool) and wait > 0
    return min(float(wait), _LONGEST_THROTTLE) if usable and wait is not None else None


def _spoilt(response: Response, detail: str) -> AnswerReading:
    verdict = _STATUSES.get(response.status, AnswerVerdict.MALFORMED)
    if response.status >= 500 and verdict is AnswerVerdict.MALFORMED:
        verdict = AnswerVerdict.FAILED
    return _trouble(verdict, _SPOILT, response, detail=detail, again=_MALFORMED_RETRY)


def _trouble(
    verdict: AnswerVerdict,
    word: str,
    response: Response,
    *,
    wait: float | None = None,
    detail: str = "",
    again: str = "",
) -> AnswerReading:
    text = f"HTTP {response.status}" + (f", {detail}" if detail else "")
    return AnswerReading(verdict, word, wait=wait or response.wait, detail=text, again=again)


PGCR = Api(
    name="pgcr",
    path=PATH,
    read=read,
    queue="instance_store",
    key_header="X-API-Key",
    key_variable="BUNGIE_API_KEY",
    words=frozenset(
        {name for name, _ in _CODES.values()} | {_SPOILT, _PAGE, _OTHER, _RAID, _NO_RAID}
    ),
    key_words=frozenset(_CODES[code][0] for code in _KEY_CODES),
)
