"""An API of sequential ids as data: the URL of an id, and the reader of answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.ids.model import AnswerVerdict
from trawlnet.net.client.answer import Response
from trawlnet.queues.queue import Message


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """The meaning of one answer."""

    verdict: AnswerVerdict
    word: str  # The API's own status word, from a closed set: a metric label.
    happened_at: float | None = None  # The time of the id's event.
    wait: float | None = None  # The wait that the server asked for.
    message: Message | None = None  # For the queue, if the item is wanted.
    detail: str = ""
    again: str = ""  # The query parameter that a next request for this id carries, to get past
    # what answered this one.


@dataclass(frozen=True, slots=True)
class Api:
    name: str
    path: str  # With {id}.
    read: Callable[[int, Response], AnswerReading]
    queue: str  # The queue for existing, wanted items.
    anchor: str = ""  # Path that answers with the newest id; empty if there is none.
    key_header: str = ""
    key_variable: str = ""  # The environment variable that holds the key.
    words: frozenset[str] = field(default_factory=frozenset)  # Every `word` of a reading ...
    key_words: frozenset[str] = frozenset()  # ... and those that say that our key is refused.

    def url(self, base: str, number: int, query: str = "") -> str:
        return base + self.path.format(id=number) + (f"?{query}" if query else "")


def parse_json(body: bytes) -> Any:
    """Raises ValueError. Lone surrogates are legal, and servers do send them."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            return json.loads(body)
        except RecursionError:
            raise ValueError("nested too deeply") from None


def read_anchor(response: Response) -> int | None:
    """The newest id: a bare number, as text or as JSON."""
    text = response.body.strip(b' \t\r\n"')
    if response.status != 200 or not text.isdigit() or len(text) > _ID_DIGITS:
        return None
    return int(text)


_ID_DIGITS = 18


def api_headers(api: Api, environ: Mapping[str, str], *, required: bool) -> dict[str, str]:
    """The headers, with the key if the API has one. Raises NotReady."""
    if not api.key_variable:
        return {}
    key = environ.get(api.key_variable, "").strip()
    if not key and required:
        raise NotReady(
            f"there is no API key: {api.key_variable} is not set",
            f"export {api.key_variable}=…, or say that none is needed: --key-variable none",
        )
    if not (key.isascii() and key.isprintable()):
        raise NotReady(
            f"the API key in {api.key_variable} cannot be sent", "copy it again, without quotes"
        )
    return {api.key_header: key} if key else {}
