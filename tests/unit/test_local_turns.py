"""Turns that a crawl and a scrape of one workspace share, in virtual time."""

from __future__ import annotations

import subprocess
import sys
import zlib
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pytest import MonkeyPatch, approx

from trawlnet.crawlers.web.visiting import local_turns
from trawlnet.crawlers.web.visiting.local_turns import LocalTurns, TellingWaits
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.task import Task
from trawlnet.sim.virtual import SimClock, run_sim

GAP = {"a.test": 2.0, "@192.0.2.1": 1.0}


def test_the_other_waits_until_the_end_and_then_for_the_gap(tmp_path: Path) -> None:
    async def main() -> None:
        clock = SimClock()
        crawl, scrape = await two(tmp_path, clock)
        assert await crawl.turn(GAP, 60.0) == 0.0
        assert 0.0 < await scrape.turn(GAP, 60.0) <= 0.1, "nobody knows when it ends"
        assert await scrape.turn({"b.test": 2.0}, 60.0) == 0.0, "another host is nobody's"
        assert await scrape.turn({"c.test": 9.0, "@192.0.2.1": 1.0}, 60.0), "at the same address"
        await clock.sleep(30.0)
        await crawl.turned(GAP)
        assert await scrape.turn(GAP, 60.0) == approx(2.0)
        await clock.sleep(2.0)
        assert await scrape.turn(GAP, 60.0) == 0.0
        assert await crawl.turn(GAP, 60.0) > 0.0
        assert await crawl.turn({"c.test": 9.0}, 60.0) == 0.0, "it was given back at once"

    run_sim(main())


def test_of_two_gaps_the_longer_one_is_kept_and_a_clock_set_back_costs_no_more(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        clock = SimClock()
        crawl, scrape = await two(tmp_path, clock)
        await crawl.turn({"a.test": 7.0}, 60.0)  # It has read the Crawl-delay,
        await crawl.turned({"a.test": 7.0})
        assert await scrape.turn({"a.test": 1.0}, 60.0) == approx(7.0), "and this one has not"
        earlier = LocalTurns(tmp_path, Behind(clock, 1_000.0), first=False)
        assert await earlier.turn({"a.test": 1.0}, 60.0) == approx(7.0)

    run_sim(main())


def test_one_that_was_killed_leaves_its_host_to_the_other_after_the_gap(tmp_path: Path) -> None:
    async def main() -> None:
        clock = SimClock()
        crawl, scrape = await two(tmp_path, clock)
        await crawl.turn(GAP, 60.0)
        await clock.sleep(0.5)
        crawl.close()  # As the kernel does.
        assert await scrape.turn(GAP, 60.0) == approx(1.5)
        await clock.sleep(1.5)
        assert await scrape.turn(GAP, 60.0) == 0.0

    run_sim(main())


def test_one_that_is_frozen_costs_the_other_the_longest_request(tmp_path: Path) -> None:
    async def main() -> None:
        clock = SimClock()
        crawl, scrape = await two(tmp_path, clock)
        assert await crawl.turn(GAP, 60.0) == 0.0
        waited = clock.now()
        while wait := await scrape.turn(GAP, 60.0):
            await clock.sleep(wait)
            assert clock.now() < waited + 130.0, "once for the host, once for its address"
        assert clock.now() >= waited + 60.0
        await scrape.turned(GAP)
        assert await scrape.turn(GAP, 60.0) == 0.0, "it is known by now"
        await scrape.turned(GAP)
        await crawl.turned(GAP)  # It wakes,
        assert await crawl.turn(GAP, 60.0) == approx(2.0), "and keeps the gap to what it slept over"

    run_sim(main())


def test_one_that_goes_on_asking_is_not_frozen(tmp_path: Path) -> None:
    async def main() -> None:
        clock = SimClock()
        crawl, scrape = await two(tmp_path, clock)
        for _ in range(9):
            assert await crawl.turn({"a.test": 0.0}, 60.0) == 0.0
            assert await scrape.turn({"a.test": 0.0}, 60.0) > 0.0
            await clock.sleep(20.0)
            assert await scrape.turn({"a.test": 0.0}, 60.0) > 0.0
            await crawl.turned({"a.test": 0.0})

    run_sim(main())


def test_hosts_of_one_process_in_one_place_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        names = colliding()
        crawl, scrape = await two(tmp_path, SimClock())
        for name in names:
            assert await crawl.turn({name: 1.0}, 60.0) == 0.0
        await crawl.turned({names[0]: 1.0})
        assert 0.0 < await scrape.turn({names[1]: 1.0}, 60.0) <= 0.1, "the second is still asked"
        await crawl.turned({names[1]: 1.0})
        assert await scrape.turn({names[1]: 1.0}, 60.0) == approx(1.0)

    run_sim(main())


def test_a_host_that_wants_rest_gets_it_from_both(tmp_path: Path) -> None:
    async def main() -> None:
        clock = SimClock()
        crawl, scrape = await two(tmp_path, clock)

        async def throttled(task: Task) -> Outcome:
            return Outcome(Reason.RATE_LIMITED, wait=40.0)

        await TellingWaits(throttled, crawl, clock)(Task("http://a.test/", "a.test"))
        assert await scrape.turn(GAP, 60.0) == approx(40.0)
        await crawl.turn(GAP, 60.0)
        await crawl.turned(GAP)
        assert await scrape.turn(GAP, 60.0) == approx(40.0), "a request does not end it"
        await clock.sleep(40.0)
        assert await scrape.turn(GAP, 60.0) == 0.0

    run_sim(main())


@dataclass(frozen=True, slots=True)
class Behind:
    clock: SimClock
    seconds: float

    def now(self) -> float:
        return self.clock.now() - self.seconds

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)


async def two(workspace: Path, clock: SimClock) -> tuple[LocalTurns, LocalTurns]:
    await clock.sleep(5_000.0)  # No request ends at the beginning of time.
    return LocalTurns(workspace, clock, first=True), LocalTurns(workspace, clock, first=False)


def colliding() -> tuple[str, str]:
    """Two hosts that have one place."""
    places: dict[int, str] = {}
    for number in count():
        name = f"{number}.test"
        place = zlib.crc32(name.encode()) % 65_536
        if place in places:
            return places[place], name
        places[place] = name
    raise AssertionError


def test_where_locks_belong_to_processes_another_process_is_kept_out(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    """As on systems that have no locks of open files."""
    monkeypatch.setattr(local_turns, "_OFD_LOCK", None)
    asked = (
        "import asyncio, sys; from pathlib import Path\n"
        "from trawlnet.crawlers.web.visiting import local_turns\n"
        "from trawlnet.sim.virtual import SimClock\n"
        "local_turns._OFD_LOCK = None\n"
        "scrape = local_turns.LocalTurns(Path(sys.argv[1]), SimClock(), first=False)\n"
        "print(asyncio.run(scrape.turn({'a.test': 2.0}, 60.0)))"
    )

    def waits() -> float:
        command = [sys.executable, "-c", asked, str(tmp_path)]
        return float(subprocess.run(command, capture_output=True, check=True).stdout)

    async def main() -> None:
        crawl = LocalTurns(tmp_path, SimClock(), first=True)
        assert await crawl.turn(GAP, 60.0) == 0.0
        assert 0.0 < waits() <= 0.1
        await crawl.turned(GAP)
        assert waits() == 0.0, "by its own clock the gap is long over"
        crawl.close()

    run_sim(main())
