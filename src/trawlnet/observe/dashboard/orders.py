"""What a viewer may do to a crawl: four things, each asked about first."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import StrEnum

from trawlnet.engine.outcome import Reason
from trawlnet.observe.dashboard.board import Board, Unreadable
from trawlnet.observe.dashboard.look import Standing
from trawlnet.observe.dashboard.place import Place
from trawlnet.observe.live import give_order

_OURS = "The dashboard asked for this, and removes the file when the crawl has ended.\n"


class Deed(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Order:
    crawler: str
    deed: Deed
    reason: Reason | None = None  # Of a retry; None for all.


def order_of(crawler: str, deed: str, reason: str) -> Order | None:
    """None for what is no order."""
    if deed not in Deed.__members__.values():
        return None
    if deed == Deed.RETRY and reason:
        known = reason in Reason.__members__.values()
        return Order(crawler, Deed.RETRY, Reason(reason)) if known else None
    return Order(crawler, Deed(deed))


def possible(standing: Standing) -> tuple[Deed, ...]:
    match standing:
        case Standing.RUNNING:
            return (Deed.PAUSE, Deed.DRAIN)
        case Standing.PAUSED:
            return (Deed.RESUME, Deed.DRAIN)
        case _:
            return ()


async def obey(board: Board, order: Order) -> str:
    """Do it, and say in a sentence what was done."""
    place = board.places[order.crawler]
    match order.deed:
        case Deed.PAUSE:
            _put(place, "pause")
            told = "Paused: what is in flight is finished, nothing new is asked for."
        case Deed.RESUME:
            _take_away(place, "pause")
            told = "Resumed."
        case Deed.DRAIN:
            _put(place, "stop")
            _take_away(place, "pause")
            told = "The crawl finishes what is in flight, saves, and ends."
        case Deed.RETRY:
            told = await _retry(place, order.reason)
    board.forget(order.crawler)
    return told


async def _retry(place: Place, reason: Reason | None) -> str:
    what = "what failed" if reason is None else f"what ended in {reason}"
    if place.holder() is not None:
        give_order(place.state, secrets.token_hex(8), reason)
        return f"The crawl tries {what} again."
    try:
        count = await place.retry(reason)
    except Unreadable as error:
        return f"Nothing was put back: {error}."
    return f"{count:,} put back; the next crawl tries them again."


def sweep(place: Place) -> None:
    """A drained crawl has ended: without its file, the next one may begin."""
    path = place.workspace / f"stop.{place.crawler}"
    if place.holder() is None and _is_ours(place, "stop"):
        path.unlink(missing_ok=True)


def _put(place: Place, word: str) -> None:
    (place.workspace / f"{word}.{place.crawler}").write_text(_OURS, "utf-8")


def _take_away(place: Place, word: str) -> None:
    """Every file that stands for it; a bound, should somebody keep making them."""
    for _ in range(8):
        if (path := place.flag(word)) is None:
            return
        path.unlink(missing_ok=True)


def _is_ours(place: Place, word: str) -> bool:
    try:
        return (place.workspace / f"{word}.{place.crawler}").read_text("utf-8") == _OURS
    except (OSError, ValueError):
        return False
