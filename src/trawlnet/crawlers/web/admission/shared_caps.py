"""Caps and budgets that hold over all shards of a fleet, counted where tasks are settled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trawlnet.crawlers.web.admission.caps import Scopes
from trawlnet.crawlers.web.admission.policy import CapKey
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task
from trawlnet.stores.redis.fleet.shards import FleetKeys
from trawlnet.stores.redis.fleet.share import PlaceAnswer, ShareKeys, Want

_LOOK_AGAIN = 0.25  # Seconds, while the last places are taken by pages that may yet fail.
_LOOKS = 40  # Attempts before the worker is freed.
_PAUSE = 1.0  # Seconds that such a page is put off,
_SPENT_PAUSE = 30.0  # and one for which there is no budget: the crawl is about to end.
_MOST_FULL = 100_000  # Counters that are known to be full.


@dataclass(frozen=True, slots=True)
class Budgets:
    """What one run of the whole fleet may fetch, and how that is counted."""

    pages: str
    bytes: str
    wants: Sequence[Want]  # Of each page.


def budgets_of(config: WebConfig, run: int) -> Budgets:
    pages, received = f"run {run} pages", f"run {run} bytes"
    caps = config.caps
    wants = []
    if caps.max_pages is not None:
        wants.append(Want(pages, caps.max_pages))
    if caps.max_bytes is not None:
        wants.append(Want(received, caps.max_bytes, places=0))
    return Budgets(pages, received, wants)


async def is_spent(keys: FleetKeys, budgets: Budgets) -> bool:
    """Whether a budget of the run is used up."""
    if not budgets.wants:
        return False
    counted = await keys.tallies([want.counter for want in budgets.wants])
    return any(n >= want.most for n, want in zip(counted, budgets.wants, strict=True))


class SharedCaps:
    """A page takes its places in Redis, under its lease: they end with that, wherever the shard
    dies. The settlement counts fetched pages."""

    def __init__(
        self,
        scopes: Scopes,
        keys: ShareKeys,
        clock: Clock,
        budgets: Budgets,
        hurry: Callable[[], None],
    ) -> None:
        """`hurry` has our own pages settled, for which others may wait."""
        self._scopes = scopes
        self._keys = keys
        self._clock = clock
        self._budgets = budgets
        self._hurry = hurry
        self._full: set[str] = set()  # Once full is always full.

    def full(self, url: str, page_type: str) -> str:
        for scope in self._scopes(url, page_type) if self._full else ():
            if _counter(scope) in self._full:
                return _why(scope)
        return ""

    async def take(self, task: Task, url: str, page_type: str) -> str:
        scopes = {_counter(scope): scope for scope in self._scopes(url, page_type)}
        wants = [Want(counter, scope.most) for counter, scope in scopes.items()]
        wants += self._budgets.wants
        for _ in range(_LOOKS if wants else 0):
            taken = await self._keys.take(task.key, wants)
            if taken.answer is PlaceAnswer.TAKEN:
                return ""
            if taken.answer is PlaceAnswer.FULL and taken.want is not None:
                return self._refused(task, scopes.get(taken.want.counter))
            self._hurry()
            await self._clock.sleep(_LOOK_AGAIN)
        if wants:
            raise LaneParked(task.lane, self._clock.now() + _PAUSE)
        return ""

    def leave(self, url: str, page_type: str, *, fetched: bool) -> None:
        """Nothing to do: settling the task ends it."""

    def counts(self, url: str, page_type: str) -> dict[str, int]:
        """The counters that a fetched page adds to."""
        counters = map(_counter, self._scopes(url, page_type))
        return dict.fromkeys([*counters, self._budgets.pages], 1)

    def _refused(self, task: Task, scope: CapKey | None) -> str:
        if scope is None:
            raise LaneParked(task.lane, self._clock.now() + _SPENT_PAUSE)
        if len(self._full) >= _MOST_FULL:
            self._full.clear()
        self._full.add(_counter(scope))
        return _why(scope)


def _counter(scope: CapKey) -> str:
    return scope.digest.hex()


def _why(scope: CapKey) -> str:
    return f"{scope.name}: {scope.most} of {scope.scope}"
