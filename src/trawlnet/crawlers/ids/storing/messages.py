"""The messages of an ids crawl's queues: processed reports, and plain items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from trawlnet.malformed import Malformed
from trawlnet.queues.queue import encode
from trawlnet.tables.clickhouse.raw import ITEMS, REPORTS, RawTable
from trawlnet.tables.instances.instance import MAX_ID, Instance, from_message


class ParsedMessage(NamedTuple):
    """A parsed message."""

    number: int
    raw: bytes  # JSON.
    instance: Instance | None = None  # None for a plain item.


def read_report(body: Any) -> ParsedMessage:
    """A processed instance with its raw report. Raises Malformed."""
    _require_object(body)
    instance, raw = from_message(body.get("instance")), body.get("pgcr")
    if not isinstance(raw, dict):
        raise Malformed("there is no raw report under pgcr")
    return ParsedMessage(instance.instance_id, encode(raw), instance)


def read_item(body: Any) -> ParsedMessage:
    """An item of a plain API. Raises Malformed."""
    _require_object(body)
    number, item = body.get("id"), body.get("item")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_ID:
        raise Malformed("there is no id")
    if not isinstance(item, dict):
        raise Malformed("there is no object under item")
    return ParsedMessage(number, encode(item))


def _require_object(body: Any) -> None:
    if not isinstance(body, dict):
        raise Malformed(f"expected an object, found {type(body).__name__}")


@dataclass(frozen=True, slots=True)
class MessageKind:
    """The kind of a queue's messages, and the table of their raw bodies."""

    queue: str
    what: str  # The plural name of its items.
    read: Callable[[Any], ParsedMessage]
    table: RawTable


REPORT = MessageKind("instance_store", "instances", read_report, REPORTS)
ITEM = MessageKind("items", "items", read_item, ITEMS)
