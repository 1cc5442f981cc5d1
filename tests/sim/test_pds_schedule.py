"""The schedule of scans, in virtual time: days of it in moments."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.pds.slices import SimSlice
from trawlnet.crawlers.pds.config import PdsConfig, lease, limits, manners
from trawlnet.crawlers.pds.config import gap as config_gap
from trawlnet.crawlers.pds.discovery import rounds as discovery
from trawlnet.crawlers.pds.discovery.cycle import DiscoverySources
from trawlnet.crawlers.pds.discovery.finding import Finder
from trawlnet.crawlers.pds.discovery.rounds import Rounds
from trawlnet.crawlers.pds.due_source import DueSource
from trawlnet.crawlers.pds.scanning.claimed import NEXT_FOR
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanResult, ScanVerdict
from trawlnet.crawlers.pds.scanning.work import ScanHandler, ScanSink
from trawlnet.crawlers.pds.schedule import BatchPlan, ClaimRules, RegistryStore
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Feed, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.tables.errors import TablesFull, TablesUnreachable
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import Registry, open_registry
from trawlnet.tables.registry.rules import FoundPds, PdsSource, PdsStatus

HOUR, DAY = 3600.0, 86_400.0
CONFIG = PdsConfig(requests_per_minute=60_000)


def told(
    verdict: ScanVerdict, reason: Reason = Reason.OK, held: int = 0, again_in: Any = None
) -> Any:
    records = {"c": held} if held else {}
    result = ScanResult(verdict, reason, "", again_in, ScanCounts(), 1, 0, 0, records, held)
    return replace(result, all_held=held, all_indexed=held)


@dataclass
class Hall:
    """A registry, a schedule, and scans that take as long and end as a test wants."""

    registry: Registry
    answer: Callable[[str], Any] = lambda url: told(ScanVerdict.COMPLETE)
    seconds: float = 30.0
    clock: SimClock = field(default_factory=SimClock)
    control: Control = field(default_factory=lambda: Control(CONFIG.concurrency))
    starts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    at_once: int = 0
    most_at_once: int = 0
    store: RegistryStore | None = None  # Of the run.
    sources: DiscoverySources = field(
        default_factory=lambda: DiscoverySources("", False, Path("/nonexistent"))
    )

    async def scan(self, url: str) -> ScanResult:
        self.starts[url].append(self.clock.now())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.clock.sleep(self.seconds)
        self.at_once -= 1
        result: ScanResult = self.answer(url)
        return result

    async def fill(self, count: int) -> None:
        founds = [FoundPds(f"http://127.0.0.1:{9000 + n}", PdsSource.PLC) for n in range(count)]
        await self.registry.register_many(founds, self.clock.now())

    async def run(self, config: PdsConfig = CONFIG, companions: Any = ()) -> Ending:
        store = RegistryStore(
            self.registry,
            self.clock,
            ClaimRules("here", lease(config), config_gap(config)),
            lambda url, owner: SimSlice(lambda: self.scan(url)),
        )
        self.store = store
        interval, at_once = config.scan_interval, config.concurrency
        plan = BatchPlan(config.batch, interval, config.once, resumed=at_once)
        discovered = asyncio.Event()
        finder = Finder(self.registry, None, Gate(self.clock, manners(config)), self.clock)  # type: ignore[arg-type]
        rounds = Rounds(finder, self.sources, config.discovery_interval, discovered)
        source = DueSource(store, self.clock, plan, discovered, rounds.once)
        parts = Parts(
            Feed(source, None),
            store,
            ScanHandler(store.work),
            ScanSink(store.work),
            Gate(self.clock, manners(config)),
            self.clock,
            companions=[store.steer, *(one(discovered) for one in companions)],
        )
        try:
            return await crawl(parts, limits(config), self.control)
        finally:
            await store.close()

    async def run_for(self, seconds: float, config: PdsConfig = CONFIG) -> Ending:
        return await self.run(config.model_copy(update={"max_seconds": seconds}))


def gaps(instants: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(instants)]


def in_hall(tmp_path: Path, body: Callable[[Hall], Awaitable[None]]) -> None:
    async def run() -> None:
        registry = await open_registry(tmp_path / "registry.db", Terms(allow_private=True))
        try:
            await body(Hall(registry))
        finally:
            await registry.close()

    run_sim(run())


def test_a_batch_of_five_is_scanned_each_quarter_of_an_hour_two_at_a_time(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(12)
        assert await hall.run_for(2 * HOUR) is Ending.LIMIT
        starts = sorted(start for each in hall.starts.values() for start in each)
        assert Counter(int(start // 900) for start in starts) == {0: 5, 1: 5, 2: 2}
        assert all(start % 900 < 100 for start in starts)
        assert hall.most_at_once == 2
        rows = await hall.registry.listing()
        assert all(row.status is PdsStatus.NO_CHIVE_RECORDS for row in rows)

    in_hall(tmp_path, body)


def test_a_batch_that_takes_long_delays_the_next_and_never_meets_it(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(10)
        hall.seconds = 1000.0  # Five of them, two at a time, take longer than the interval.
        await hall.run_for(2 * HOUR)
        starts = sorted(start for each in hall.starts.values() for start in each)
        assert len(starts) == 10 and hall.most_at_once == 2
        # The second batch begins when the last of the first has ended.
        assert 3000.0 <= starts[5] < 3010.0

    in_hall(tmp_path, body)


def test_whoever_stops_it_waits_for_the_scans_and_gives_the_rest_back(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(5)

        async def stop() -> None:
            await hall.clock.sleep(10.0)
            hall.control.drain()

        ending, _ = await asyncio.gather(hall.run(), stop())
        assert ending is Ending.DRAINED
        rows = await hall.registry.listing()
        assert Counter(row.status for row in rows) == {
            PdsStatus.NO_CHIVE_RECORDS: 2,
            PdsStatus.PENDING: 3,
        }
        assert all(row.lease_owner is None for row in rows)
        assert hall.clock.now() < 40.0

    in_hall(tmp_path, body)


@pytest.mark.slow
def test_each_kind_of_server_comes_round_as_often_as_it_should(tmp_path: Path) -> None:
    rich, poor, dead = (f"http://127.0.0.1:{9000 + n}" for n in range(3))
    answers = {
        rich: told(ScanVerdict.COMPLETE, held=2),
        poor: told(ScanVerdict.COMPLETE),
        dead: told(ScanVerdict.FAILED, Reason.TIMEOUT),
    }

    async def body(hall: Hall) -> None:
        await hall.fill(3)
        hall.answer = answers.__getitem__
        # Long leases: an idle dispatcher looks four times in each, and 34 days have many.
        config = CONFIG.model_copy(update={"scan_timeout": 3600.0})
        await hall.run_for(34 * DAY, config)
        days = {url: [int(at // DAY) for at in hall.starts[url]] for url in answers}
        assert days[rich] == list(range(34))
        assert days[poor] == [0, 7, 14, 21, 28]
        # Whoever is due waits for the next batch.
        for gap, hours in zip(gaps(hall.starts[dead]), (1, 2, 4, 8, 16, 720), strict=True):
            assert hours * HOUR < gap < hours * HOUR + 2 * config.scan_interval
        row = await hall.registry.get(dead)
        assert row is not None and row.status is PdsStatus.UNREACHABLE

    in_hall(tmp_path, body)


CUT_SHORT = told(ScanVerdict.PARTIAL, again_in=1.0)


@dataclass
class LongLook:
    """At a PDS whose scan was cut short for it."""

    hall: Hall
    ended_at: float = 0.0

    def open(self, url: str, owner: str) -> SimSlice:
        async def look() -> Any:
            await self.hall.clock.sleep(3 * NEXT_FOR)
            return told(ScanVerdict.COMPLETE)

        return SimSlice(look)

    def ended(self, url: str) -> None:
        self.ended_at = self.hall.clock.now()

    async def run(self, control: Control) -> None:
        hall = self.hall
        while not hall.starts:
            await hall.clock.sleep(1.0)
        (url,) = hall.starts
        assert hall.store is not None
        while (claimed := await hall.store.claim_look(url, self)) is None:
            await hall.clock.sleep(0.25)
        control.wake(claimed.task.lane)


def test_a_scan_that_made_way_for_a_look_goes_on_when_that_has_ended(tmp_path: Path) -> None:
    """The schedule saw nothing to go on with while the look lasted, and slept till its batch."""

    async def body(hall: Hall) -> None:
        await hall.fill(1)
        hall.answer = lambda url: (
            CUT_SHORT if len(hall.starts[url]) == 1 else told(ScanVerdict.COMPLETE)
        )
        look = LongLook(hall)
        limited = CONFIG.model_copy(update={"max_seconds": 600.0})
        await hall.run(limited, companions=[lambda discovered: look.run])
        ((_, second),) = hall.starts.values()
        assert look.ended_at <= second < look.ended_at + 10.0

    in_hall(tmp_path, body)


@pytest.mark.parametrize("once", [False, True])
def test_a_scan_that_was_cut_short_goes_on_at_once(tmp_path: Path, once: bool) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(1)
        pieces = iter([*[CUT_SHORT] * 3, told(ScanVerdict.COMPLETE, held=9)])
        hall.answer = lambda url: next(pieces)
        await hall.run_for(2 * HOUR, CONFIG.model_copy(update={"once": once}))
        (starts,) = hall.starts.values()
        assert gaps(starts) == pytest.approx([hall.seconds + 1.0] * 3)
        (row,) = await hall.registry.listing()
        assert (row.status, row.chive_record_count) == (PdsStatus.ACTIVE, 9)

    in_hall(tmp_path, body)


def test_large_ones_go_on_between_batches_and_keep_nobody_waiting(tmp_path: Path) -> None:
    large = {f"http://127.0.0.1:{9000 + n}" for n in range(4)}

    async def body(hall: Hall) -> None:
        await hall.fill(34)
        hall.answer = lambda url: CUT_SHORT if url in large else told(ScanVerdict.COMPLETE)
        await hall.run_for(2 * HOUR)
        small = sorted(starts[0] for url, starts in hall.starts.items() if url not in large)
        # Five a batch, of which the large ones take a place the first time only.
        assert len(small) == 30 and small[-1] < 7 * 900.0
        assert all(start % 900 < hall.seconds * 4 for start in small)
        slices = [len(hall.starts[url]) for url in large]
        assert min(slices) >= max(slices) - 2, "each has its turn"
        busy = hall.seconds * sum(len(starts) for starts in hall.starts.values())
        assert busy > 0.9 * CONFIG.concurrency * 2 * HOUR
        assert hall.most_at_once == CONFIG.concurrency

    in_hall(tmp_path, body)


def test_once_ends_where_a_server_sends_us_away_again_and_again(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(2)
        hall.answer = lambda url: told(ScanVerdict.PUT_OFF, Reason.RATE_LIMITED, again_in=300.0)
        assert await hall.run(CONFIG.model_copy(update={"once": True})) is Ending.DONE
        assert [len(starts) for starts in hall.starts.values()] == [1, 1]

    in_hall(tmp_path, body)


def test_who_was_sent_away_in_the_middle_goes_on_as_soon_as_it_may(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(1)
        sent_away = told(ScanVerdict.PUT_OFF, Reason.RATE_LIMITED, again_in=300.0)
        pieces = iter([sent_away, told(ScanVerdict.COMPLETE, held=9)])
        hall.answer = lambda url: next(pieces)
        await hall.run_for(800.0)
        (starts,) = hall.starts.values()
        assert gaps(starts) == pytest.approx([hall.seconds + 300.0])

    in_hall(tmp_path, body)


def test_a_scan_that_the_registry_cut_short_is_begun_again_soon(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(1)

        def away(url: str) -> Any:
            raise TablesUnreachable("the registry is away")

        hall.answer = away
        await hall.run_for(20.0)
        (row,) = await hall.registry.listing()
        assert (row.consecutive_failures, row.last_reason) == (0, Reason.PARKED)
        assert row.next_scan_at is not None and row.next_scan_at < 90.0

    in_hall(tmp_path, body)


def test_a_bug_of_ours_is_no_failure_of_theirs(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(1)

        def bug(url: str) -> Any:
            raise ZeroDivisionError("a bug")

        hall.answer = bug
        await hall.run_for(60.0)
        (row,) = await hall.registry.listing()
        assert (row.consecutive_failures, row.last_reason) == (0, Reason.UNKNOWN)
        assert row.next_scan_at is not None and 900.0 <= row.next_scan_at < 960.0

    in_hall(tmp_path, body)


def test_a_claim_that_was_lost_meanwhile_is_not_scanned_and_stops_nothing(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(3)
        claim = hall.registry.claim

        async def robbed(*args: Any, **more: Any) -> Any:
            rows = await claim(*args, **more)
            for row in rows[:2]:  # As if we had slept for long, and others had come.
                await hall.registry.release(row.pds_url, row.lease_owner or "", hall.clock.now())
                await hall.registry.claim_one(row.pds_url, hall.clock.now(), HOUR, "others")
            return rows

        hall.registry.claim = robbed  # type: ignore[method-assign]
        await hall.run_for(600.0)
        assert len(hall.starts) == 1
        rows = await hall.registry.listing(status=PdsStatus.SCANNING)
        assert [row.lease_owner for row in rows] == ["others"] * 2

    in_hall(tmp_path, body)


def test_once_waits_for_what_others_are_at_and_takes_it_over_when_they_die(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(2)
        await hall.registry.claim(1, hall.clock.now(), 120.0, "one that dies")
        assert await hall.run(CONFIG.model_copy(update={"once": True})) is Ending.DONE
        first, second = sorted(starts[0] for starts in hall.starts.values())
        assert first == 0.0 and 120.0 <= second < 125.0

    in_hall(tmp_path, body)


def test_whoever_takes_over_keeps_the_gap_of_the_one_before(tmp_path: Path) -> None:
    """Another process cut its scan short, or was told to stop in the middle of it."""

    async def body(hall: Hall) -> None:
        await hall.fill(2)
        slow = CONFIG.model_copy(update={"requests_per_minute": 6.0, "once": True})
        (cut, left) = await hall.registry.claim(2, hall.clock.now(), 120.0, "other")
        await hall.registry.partial(cut.pds_url, "other", now=hall.clock.now(), again_in=0.0)
        await hall.registry.release(left.pds_url, "other", hall.clock.now(), begun=True)
        assert await hall.run(slow) is Ending.DONE
        assert [starts[0] for starts in hall.starts.values()] == [10.0, 10.0]

    in_hall(tmp_path, body)


def test_once_means_batch_after_batch_without_pauses(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(23)
        assert await hall.run(CONFIG.model_copy(update={"once": True})) is Ending.DONE
        assert len(hall.starts) == 23 and hall.clock.now() < 23 * hall.seconds

    in_hall(tmp_path, body)


@pytest.mark.parametrize("known", [0, 1])
def test_what_is_discovered_is_scanned_at_once_by_who_has_too_little_to_do(
    tmp_path: Path, known: int
) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(known)

        def later(discovered: asyncio.Event) -> Any:
            async def find(control: Control) -> None:
                await hall.clock.sleep(100.0)
                await hall.fill(known + 1)
                discovered.set()

            return find

        config = CONFIG.model_copy(update={"max_seconds": 600.0})
        await hall.run(config, [later])
        assert [starts[0] for starts in hall.starts.values()] == [*[0.0] * known, 100.0]

    in_hall(tmp_path, body)


def test_discovery_keeps_its_own_interval_across_restarts(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        dids = tmp_path / "dids"
        dids.write_text("did:example:nobody\n")
        hall.sources = DiscoverySources(
            "https://plc.directory", False, tmp_path / "tables", dids=dids
        )
        finder = Finder(hall.registry, None, Gate(hall.clock, manners(CONFIG)), hall.clock)  # type: ignore[arg-type]
        rounds: list[float] = []

        class Noted(asyncio.Event):
            def set(self) -> None:
                rounds.append(hall.clock.now())

        async def for_a_while(seconds: float) -> None:
            keeping = Rounds(finder, hall.sources, DAY, Noted()).run(hall.control)
            task = asyncio.ensure_future(keeping)
            await hall.clock.sleep(seconds)
            task.cancel()
            await asyncio.wait([task])

        await for_a_while(HOUR)
        await for_a_while(HOUR)
        await for_a_while(2.5 * DAY)
        assert [round(at / DAY, 2) for at in rounds] == [0.0, 1.0, 2.0]

    in_hall(tmp_path, body)


def test_of_those_that_begin_together_one_discovers_and_the_others_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(hall: Hall) -> None:
        sources = DiscoverySources("https://plc.directory", True, tmp_path / "tables")
        finder = Finder(hall.registry, None, Gate(hall.clock, manners(CONFIG)), hall.clock)  # type: ignore[arg-type]
        begun: list[float] = []

        async def long(finder: Finder, sources: DiscoverySources) -> dict[PdsSource, Any]:
            begun.append(hall.clock.now())
            await hall.clock.sleep(HOUR)
            return {}

        monkeypatch.setattr(discovery, "discover", long)
        every = [Rounds(finder, sources, DAY, asyncio.Event()) for _ in range(4)]
        await asyncio.gather(*(rounds.once() for rounds in every))
        assert begun == [0.0] and HOUR <= hall.clock.now() < HOUR + 5.0
        await every[0].once()
        assert begun == [0.0], "what was found just now is not asked for again"
        await hall.clock.sleep(60.0)
        await every[0].once()
        assert len(begun) == 2, "whoever comes later asks anew"

    in_hall(tmp_path, body)


def test_whoever_was_replaced_while_discovering_stops_and_leaves_the_note_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(hall: Hall) -> None:
        sources = DiscoverySources("https://plc.directory", True, tmp_path / "tables")
        finder = Finder(hall.registry, None, Gate(hall.clock, manners(CONFIG)), hall.clock)  # type: ignore[arg-type]
        ended: list[float] = []

        async def long(finder: Finder, sources: DiscoverySources) -> dict[PdsSource, Any]:
            try:
                await hall.clock.sleep(HOUR)
            finally:
                ended.append(hall.clock.now())
            return {}

        monkeypatch.setattr(discovery, "discover", long)
        first = asyncio.ensure_future(Rounds(finder, sources, DAY, asyncio.Event()).once())
        await hall.clock.sleep(10.0)
        note = f"{hall.clock.now() + 120.0} another"  # As if the first had been frozen meanwhile.
        await hall.registry.notes.put(sources.name, note)
        await first
        assert ended == [40.0], "it is noticed at the next beat"
        assert await hall.registry.notes.get(sources.name) == note

    in_hall(tmp_path, body)


def test_a_discovery_that_was_cut_off_is_taken_up_soon_and_never_twice_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(hall: Hall) -> None:
        dids = tmp_path / "dids"
        dids.write_text("did:example:nobody\n")
        sources = DiscoverySources("https://plc.directory", False, tmp_path / "tables", dids=dids)
        finder = Finder(hall.registry, None, Gate(hall.clock, manners(CONFIG)), hall.clock)  # type: ignore[arg-type]
        begun: list[float] = []

        async def long(finder: Finder, sources: DiscoverySources) -> dict[PdsSource, Any]:
            begun.append(hall.clock.now())
            await hall.clock.sleep(5 * HOUR)
            return {}

        monkeypatch.setattr(discovery, "discover", long)
        runs = [Rounds(finder, sources, DAY, asyncio.Event()).run(hall.control) for _ in range(2)]
        first = asyncio.ensure_future(runs[0])
        await hall.clock.sleep(1.0)
        second = asyncio.ensure_future(runs[1])
        await hall.clock.sleep(2 * HOUR)
        assert begun == [0.0], "the first is at work"
        first.cancel()
        await hall.clock.sleep(HOUR)
        assert len(begun) == 2 and begun[1] < 2 * HOUR + 1000.0
        await hall.clock.sleep(20 * HOUR)
        assert len(begun) == 2
        second.cancel()
        await asyncio.wait([first, second])

    in_hall(tmp_path, body)


@dataclass
class Moody:
    """A database that is away, or full, for a while."""

    db: Any
    clock: Any
    trouble: Exception
    away: tuple[float, float] = (0.0, 0.0)

    @property
    def dialect(self) -> Any:
        return self.db.dialect

    def _look(self) -> None:
        if self.away[0] <= self.clock.now() < self.away[1]:
            raise self.trouble

    async def rows(self, *args: Any) -> Any:
        self._look()
        return await self.db.rows(*args)

    async def run(self, *args: Any) -> Any:
        self._look()
        return await self.db.run(*args)

    @asynccontextmanager
    async def transaction(self) -> Any:
        self._look()
        async with self.db.transaction() as transaction:
            yield transaction

    async def close(self) -> None:
        await self.db.close()


@pytest.mark.parametrize("trouble", [TablesUnreachable("gone"), TablesFull("full")])
def test_a_database_that_is_away_is_waited_for(
    tmp_path: Path, trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Longer than any lease, in the middle of a batch."""

    async def body(hall: Hall) -> None:
        hall.seconds = 30.0
        await hall.fill(4)
        moody = Moody(hall.registry.db, hall.clock, trouble, (40.0, 700.0))
        hall.registry = Registry(moody, hall.registry.terms)
        assert await hall.run_for(2 * HOUR) is Ending.LIMIT
        rows = await hall.registry.listing()
        assert [row.status for row in rows] == [PdsStatus.NO_CHIVE_RECORDS] * 4
        assert not any(row.consecutive_failures for row in rows)

    in_hall(tmp_path, body)
    words = [record.message for record in caplog.records]
    assert "registry unreachable; waiting" in words and "registry back" in words


def test_a_scan_without_room_on_the_disk_is_no_fault_of_the_host(tmp_path: Path) -> None:
    async def body(hall: Hall) -> None:
        await hall.fill(1)

        def full(url: str) -> Any:
            raise TablesFull("no room")

        hall.answer = full
        await hall.run_for(600.0)
        (row,) = await hall.registry.listing()
        assert (row.last_reason, row.consecutive_failures) == (Reason.NO_SPACE, 0)

    in_hall(tmp_path, body)
