"""A fleet as the dashboard shows it; everything is read from Redis."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from trawlnet.cli.crawl.crawler import of_another
from trawlnet.cli.crawl.status import status_row
from trawlnet.crawlers.binding import other_holder
from trawlnet.engine.partition import Moves, bucket_of, owners
from trawlnet.engine.ports import Clock
from trawlnet.fleet.history import figures_of, read_fleet_history, yields_of
from trawlnet.fleet.telling import unpacked
from trawlnet.observe.dashboard.place import (
    Action,
    ActionOrder,
    CrawlCondition,
    CrawlerFacts,
    CrawlView,
    NotDone,
    Panel,
    Unreadable,
)
from trawlnet.observe.dashboard.words import UNKNOWN, lasting
from trawlnet.observe.history import TIERS, Sample, samples_of
from trawlnet.observe.lane_table import LaneRow, LaneTable
from trawlnet.observe.lanes import shown
from trawlnet.observe.terminal.render import size
from trawlnet.stores.errors import StoreError
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Heard, Word
from trawlnet.stores.redis.work.store import RedisStore

_MARKS = 60  # Samples, about one a second, over which the speed is measured.
_FEW = 20  # Lines of the manifest.
_SILENT = 0.5  # Share of a shard's ttl after which a shard that has not reported is called silent.
_COMMANDED = 20.0  # Seconds since the last sample in which the fleet's command counts as running.
_REST = 5.0  # Seconds before a server that did not answer is asked again.
_LANES_EVERY = 2.0  # Seconds; shards report no more often.


async def fleet_at(url: str) -> str:
    """The crawler of the fleet in this Redis; empty if there is no fleet."""
    keys = await FleetKeys.open(url)
    try:
        plan = await keys.plan()
    finally:
        await keys.close()
    return (plan.crawler or "repos") if plan.version else ""


class FleetPlace:
    """Connects on first use, and waits for a server that goes away."""

    def __init__(self, url: str, crawler: str, clock: Clock, workspace: Path) -> None:
        self.crawler = crawler
        self._workspace = workspace  # Whose dashboard this is; it need not exist.
        self.can = frozenset(Action)
        self._clock = clock
        self._trouble = ""
        self._silent_until = 0.0
        self._url = url
        self._keys: FleetKeys | None = None
        self._store: RedisStore | None = None
        self._past: deque[tuple[float, int, int]] = deque(maxlen=_MARKS)  # When, done, open.
        self._lanes = LaneTable()
        self._lanes_until = 0.0

    async def look(self, now: float) -> CrawlView:
        async with self._connected() as (keys, store):
            await keys.window.watch()
            plan, heard, counts = await keys.plan(), await keys.heard(), await store.counts()
            sampled = await _last_sample(keys)
            at_work = [one.row for one in heard.values() if one.stands > 0.0]
            if now >= self._lanes_until:
                self._lanes = await _lanes(keys, plan, heard)
                self._lanes_until = now + _LANES_EVERY
            paused = (await keys.window.wishes()).paused
        # The fleet's command takes samples even before the first shard runs.
        commanded = sampled is not None and now - sampled < _COMMANDED
        standing = standing_of(plan, bool(at_work), commanded, paused)
        figures = figures_of(counts, at_work)
        self._past.append((now, int(figures["done"]), counts.open - counts.blocked))
        rate, eta = speed_and_eta(self._past)
        return CrawlView(
            crawler=self.crawler,
            now=now,
            standing=standing,
            who=f"{len(at_work)} of {plan.shards} shards running",
            as_of=now if standing.at_work else sampled,
            counts=status_row(self.crawler, counts),
            figures=figures | {"rate": rate},
            lanes=self._lanes,
            yields=yields_of(at_work),
            eta=eta,
            actions=_ACTIONS.get(standing, ()),
        )

    async def facts(self) -> CrawlerFacts:
        async with self._connected() as (keys, _):
            plan, heard = await keys.plan(), await keys.heard()
            lines = await keys.window.newest_lines(_FEW)
            waiting = await keys.window.parts()
        facts = {"word": str(plan.word), "shards": plan.shards, "run": plan.run}
        facts["parts to be composed"] = waiting
        panels = [_shards(plan, heard)]
        if lines:
            panels.append(_composed(self.crawler, lines))
        return CrawlerFacts(facts, panels, keeps=1.0, leads=True)

    async def history(self, since: float, most: int) -> Sequence[Sample]:
        async with self._connected() as (keys, _):
            return await read_fleet_history(keys.window, since, most)

    async def obey(self, order: ActionOrder) -> str:
        try:
            async with self._connected() as (keys, store):
                await self._refuse_if_foreign(keys, order)
                return await _obey(keys, store, order)
        except Unreadable as error:
            raise NotDone(f"Nothing was done: {error}.") from error

    async def _refuse_if_foreign(self, keys: FleetKeys, order: ActionOrder) -> None:
        """`retry` asks whose keys these are, wherever it is typed; a fleet obeys everybody."""
        if order.action is not Action.RETRY and (await keys.plan()).version:
            return
        if held := await other_holder(self._url, self._workspace, self.crawler):
            raise NotDone(f"Nothing was done: {of_another(held)}.")

    def sweep(self) -> None:
        """Do nothing: commands to a fleet leave no files."""

    async def close(self) -> None:
        for one in (self._keys, self._store):
            if one is not None:
                await one.close()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[FleetKeys, RedisStore]]:
        """Raises Unreadable with the reason."""
        if self._clock.now() < self._silent_until:
            raise Unreadable(self._trouble)
        try:
            if self._keys is None:
                self._keys = await FleetKeys.open(self._url)
            if self._store is None:
                self._store = await RedisStore.open(self._url)
            yield self._keys, self._store
        except StoreError as error:
            # Otherwise each of a page's questions would wait for the dead server again.
            self._trouble, self._silent_until = error.message, self._clock.now() + _REST
            raise Unreadable(error.message) from error


_ACTIONS = {
    CrawlCondition.RUNNING: (Action.PAUSE, Action.DRAIN, Action.STOP),
    CrawlCondition.PAUSED: (Action.RESUME, Action.DRAIN, Action.STOP),
    CrawlCondition.DRAINING: (Action.STOP,),
}


def standing_of(plan: FleetPlan, at_work: bool, commanded: bool, paused: bool) -> CrawlCondition:
    if plan.version == 0:
        return CrawlCondition.NEVER
    if plan.word in (Word.DONE, Word.LIMIT):
        return CrawlCondition.ENDED
    if plan.word is not Word.RUN:
        return CrawlCondition.DRAINING if at_work else CrawlCondition.ENDED
    if not at_work and not commanded:
        return CrawlCondition.CUT_SHORT
    return CrawlCondition.PAUSED if paused else CrawlCondition.RUNNING


def speed_and_eta(past: Sequence[tuple[float, int, int]]) -> tuple[float, float | None]:
    """Keys a second, and seconds until none is open: None if it cannot be estimated."""
    (begun, done_then, open_then), (now, done, left) = past[0], past[-1]
    seconds = now - begun
    if seconds <= 0.0:
        return 0.0, None
    drain = (open_then - left) / seconds
    eta = 0.0 if left <= 0 else left / drain if drain > 0.0 else None
    return round(max(0, done - done_then) / seconds, 2), eta


async def _last_sample(keys: FleetKeys) -> float | None:
    found = list(samples_of(await keys.window.remembered(TIERS[0].name, 1)))
    return found[-1].at if found else None


async def _lanes(keys: FleetKeys, plan: FleetPlan, heard: Mapping[int, Heard]) -> LaneTable:
    """The lanes of all live shards: those of a dead shard belong to another one now."""
    packed = await keys.window.lanes()
    standing = [n for n in packed if n in heard and heard[n].stands > 0.0]
    tables = {shard: unpacked(packed[shard]) for shard in standing}
    return LaneTable(
        merged({shard: table.rows for shard, table in tables.items()}, plan.shards, plan.moved),
        sum(table.left_out for table in tables.values()),
        max((table.at for table in tables.values()), default=0.0),
    )


def merged(
    tables: Mapping[int, Sequence[LaneRow]], shards: int, moved: Moves = ()
) -> list[LaneRow]:
    """If several shards report a lane, such as one that has moved, its owner's report counts."""
    found: dict[str, LaneRow] = {}
    owner = owners(shards, moved)
    for shard, rows in tables.items():
        for row in rows:
            if row.lane not in found or owner[bucket_of(row.lane)] == shard:
                found[row.lane] = row
    return list(found.values())


async def _obey(keys: FleetKeys, store: RedisStore, order: ActionOrder) -> str:
    match order.action:
        case Action.PAUSE:
            await keys.window.wish(paused=True)
            return "Paused: tasks in flight finish, no new task starts."
        case Action.RESUME:
            await keys.window.wish(paused=False)
            return "Resumed."
        case Action.RETRY:
            count = await store.retry(order.reason)
            return f"{count:,} keys reopened; the shards that own their hosts try them again."
        case Action.DRAIN | Action.STOP:
            if (await keys.plan()).word not in (Word.RUN, Word.DRAIN):
                raise NotDone("Nothing was done: the fleet is not running.")
            # A paused fleet would never finish its tasks in flight.
            await keys.window.wish(paused=False)
            await keys.change(word=order.action.value)
            return f"Sent to the fleet: {order.action}."


def _shards(plan: FleetPlan, heard: Mapping[int, Heard]) -> Panel:
    # After the fleet was scaled down, a further shard may still be finishing.
    rows = [shard_row(n, heard.get(n)) for n in sorted({*range(plan.shards), *heard})]
    well = sum(row[1] in _WELL for row in rows)
    return Panel(
        "Shards of the fleet",
        ("", "state", "where", "pid", "attempts/s", "in flight", "memory", "last report"),
        rows,
        note=f"{well} of {plan.shards} report regularly; the current command is {plan.word}.",
    )


_WELL = frozenset(("reading", "working", "paused", "draining"))


def shard_row(shard: int, heard: Heard | None) -> Sequence[object]:
    if heard is None:
        return (_name(shard), "not begun", *([UNKNOWN] * 6))
    row, age = heard.row, max(0.0, heard.row.get("stands", 0.0) - heard.stands)
    state = state_of(heard)
    rate = f"{row['rate']:g}" if state in _WELL else UNKNOWN
    busy = str(row["in_flight"]) if state in _WELL else UNKNOWN
    where, memory = shown(str(row["node"])), size(int(row.get("memory", 0)))
    return (_name(shard), state, where, str(row["pid"]), rate, busy, memory, _ago(age))


def _name(shard: int) -> str:
    return f"shard\N{NO-BREAK SPACE}{shard}"


def state_of(heard: Heard) -> str:
    """The state of a shard in one word."""
    row = heard.row
    if heard.stands <= 0.0:
        return "gone"
    if heard.stands < _SILENT * row.get("stands", 0.0):
        return "silent"
    if row["draining"]:
        return "draining"
    if row.get("paused"):
        return "paused"
    return "working" if row["dry"] else "reading"


_LONG_AGO = 86_400.0  # Seconds; the age of a report is larger only if its shard released its term.


def _ago(age: float) -> str:
    return "long ago" if age > _LONG_AGO else f"{lasting(age)} ago"


def _composed(crawler: str, lines: Sequence[bytes]) -> Panel:
    file, what = ("segment", "repos") if crawler == "repos" else ("log", "captures")
    rows = [_line(json.loads(line), file, what) for line in reversed(lines)]
    note = f"The newest {_FEW} lines of the manifest."
    heads = (file, what, "parts", "made by")
    return Panel("Archive", heads, rows, note=note)


def _line(line: Mapping[str, Any], file: str, what: str) -> Sequence[object]:
    parts = [str(part) for part in line.get("parts", ())]
    # The name of a part contains the epoch of the shard that uploaded it.
    makers = sorted({part.partition("-")[0].lstrip("s0") or "0" for part in parts})
    shards = f"shards {', '.join(makers)}" if len(makers) > 1 else f"shard {makers[0]}"
    name, results = shown(str(line.get(file, ""))), int(line.get(what, 0))
    return (name, results, len(parts), shown(shards) if parts else UNKNOWN)
