"""The preset `json`: an API that answers 404, or null, or a JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.ids.api.api import AnswerReading, Api, parse_json
from trawlnet.crawlers.ids.model import AnswerVerdict
from trawlnet.net.client.answer import Response

PATH = "/v0/item/{id}.json"
ANCHOR = "/v0/maxitem.json"
TIME = "time"

_STATUSES = {
    404: AnswerVerdict.NOT_FOUND,
    410: AnswerVerdict.NOT_FOUND,
    401: AnswerVerdict.EMBARGOED,
    403: AnswerVerdict.THROTTLED,
    429: AnswerVerdict.THROTTLED,
}
_KEY_REFUSED = "key_refused"
_OUTAGE = 503  # Without a Retry-After: the whole API is off.
_LONGEST_TIME = 1e11  # Unix seconds; a larger number has another unit.


@dataclass(frozen=True, slots=True)
class PlainReader:
    time_key: str
    wanted: Sequence[tuple[str, str]]  # Keep items with one of these; empty: keep all.
    keyed: bool = False  # We send a key: a 401 is about the key, not about the id.

    def __call__(self, number: int, response: Response) -> AnswerReading:
        if response.status == 401 and self.keyed:
            return _no(AnswerVerdict.DISABLED, _KEY_REFUSED, response)
        if response.status != 200:
            return _refusal(response)
        try:
            item = parse_json(response.body)
        except ValueError as error:
            return _no(AnswerVerdict.MALFORMED, "malformed", response, str(error)[:100])
        if item is None:
            return AnswerReading(AnswerVerdict.NOT_FOUND, "not_found")
        if not isinstance(item, dict):
            return _no(AnswerVerdict.MALFORMED, "malformed", response, "not an object")
        return self._item(number, item)

    def _item(self, number: int, item: Mapping[str, Any]) -> AnswerReading:
        time = item.get(self.time_key)
        usable = isinstance(time, int | float) and 0 < time < _LONGEST_TIME
        when = float(time) if usable and time is not None else None
        if self.wanted and not any(str(item.get(key)) == value for key, value in self.wanted):
            return AnswerReading(AnswerVerdict.FILTERED, "filtered", happened_at=when)
        message = {"id": number, "item": item}
        return AnswerReading(AnswerVerdict.STORED, "stored", happened_at=when, message=message)


def _refusal(response: Response) -> AnswerReading:
    status = response.status
    if status == _OUTAGE:
        verdict = AnswerVerdict.DISABLED if response.wait is None else AnswerVerdict.THROTTLED
    else:
        verdict = _STATUSES.get(status, AnswerVerdict.FAILED)
    return _no(verdict, str(verdict), response)


def _no(verdict: AnswerVerdict, word: str, response: Response, detail: str = "") -> AnswerReading:
    text = f"HTTP {response.status}" + (f", {detail}" if detail else "")
    return AnswerReading(verdict, word, wait=response.wait, detail=text)


def plain_api(time_key: str, wanted: Sequence[str], *, keyed: bool = False) -> Api:
    """Raises NotReady."""
    pairs = [_pair(text) for text in wanted]
    return Api(
        name="json",
        path=PATH,
        read=PlainReader(time_key or TIME, pairs, keyed),
        queue="items",
        anchor=ANCHOR,
        key_header="Authorization",
        words=frozenset(map(str, AnswerVerdict)) | {_KEY_REFUSED},
        key_words=frozenset((_KEY_REFUSED,)),
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise NotReady(f"{text!r} is not KEY=VALUE", "write it like --wanted type=story")
    return key, value
