"""The repos crawler in networks drawn at random, with configs drawn as well, in virtual time."""

from __future__ import annotations

import asyncio
import math
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds
from tests.random_worlds.repos_laws import (
    archive_of,
    check_archive,
    check_listed,
    check_manners,
    check_reasons,
    may_be_had,
    reasons_of,
)
from tests.random_worlds.repos_wire import WorldHttp, WorldMirror
from tests.random_worlds.repos_world import (
    BAD_DOCUMENTS,
    MALFORMED,
    MISSIGNED,
    PLC,
    RELAY,
    TAMPERED,
    Account,
    Change,
    Host,
    Spec,
    World,
    WorldClock,
)
from tests.random_worlds.stated import Stated, stated
from trawlnet.crawlers.repos import build
from trawlnet.crawlers.repos.config import ReposConfig, limits
from trawlnet.crawlers.repos.work import did_of
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl
from trawlnet.net.client.answer import RequestLimits
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.virtual import run_sim

DAY = 86_400.0
SMALL_SIZES = (1, 2, 7, 49, 50, 51, 60, 99, 100, 101)
LARGE_SIZES = (499, 500, 501, 999, 1000, 1001)
ATTEMPTS = 7  # More than a run of failures is long: whoever is patient gets everything.
LONGEST_RUN = 4

runs_of_failures = st.tuples(st.integers(0, 30), st.integers(0, LONGEST_RUN))
failures = st.sampled_from(("500", "reset", "hang"))
# Without a time, 403 is an answer like others.
limits_stated = stated(1, 7, 40, 700, statuses=(429, 429, 503, 403)).filter(
    lambda said: said.status != 403 or said.wait > 0.0
)


def hosts(sizes: tuple[int, ...]) -> st.SearchStrategy[Host]:
    return st.builds(
        Host,
        size=st.sampled_from(sizes),
        active=st.integers(0, 9),
        listed_at_once=st.sampled_from((7, 50, 99, 500, 1000)),
        repeats=st.sampled_from((0, 0, 1, 5)),
        shrinks=st.booleans(),
        trailing_page=st.booleans(),
        latency=st.sampled_from((0.001, 0.05, 0.4, 3.0)),
        fails=runs_of_failures,
        failure=failures,
        throttles=st.sampled_from((0, 0, 0, 5, 23)),
        stated=limits_stated,
        dead=st.sampled_from((False,) * 7 + (True,)),
        on_relay=st.sampled_from((True,) * 5 + (False,)),
        garbled=st.sampled_from((None, None, None, 0, 1)),
        odd_rows=st.booleans(),
    )


directories = st.builds(
    Host,
    size=st.just(0),
    active=st.just(0),
    latency=st.sampled_from((0.01, 0.2, 5.0)),
    fails=runs_of_failures,
    failure=failures,
    throttles=st.sampled_from((0, 0, 37)),
    stated=limits_stated,
)
changes = st.builds(
    Change,
    at=st.sampled_from((0.5, 5.0, 60.0, math.inf, math.inf)),
    kind=st.sampled_from(("edit", "edit", "deleted", "deactivated", "takendown", "on")),
    which=st.integers(0, 8),
)
few_accounts = st.lists(hosts(SMALL_SIZES), min_size=1, max_size=4).map(tuple)
many_accounts = st.tuples(hosts(LARGE_SIZES), hosts(SMALL_SIZES))
specs = st.builds(
    Spec,
    seed=st.integers(0, 2**32),
    hosts=st.one_of(few_accounts, few_accounts, few_accounts, many_accounts),
    directory=directories,
    moved=st.integers(0, 3),
    moving=st.sampled_from((0, 0, 1, 2)),
    moving_at=st.sampled_from((0.5, 5.0, 60.0)),
    malformed=st.lists(
        st.sampled_from((*sorted(MALFORMED), TAMPERED, TAMPERED, MISSIGNED, MISSIGNED)), max_size=4
    ).map(tuple),
    tombstoned=st.integers(0, 2),
    changes=st.lists(changes, max_size=5).map(tuple),
    documents=st.lists(st.sampled_from(BAD_DOCUMENTS), max_size=2).map(tuple),
    large=st.sampled_from((0, 0, 0, 1, 3)),
)
# No two rates are equal by habit, and no class is faster than another by habit, either.
rates = st.sampled_from((0.7, 1.3, 2.0, 3.1, 5.0, 7.7, 10.0, 23.0, 60.0))
configs = st.fixed_dictionaries(
    {
        "small_pds_rps": rates,
        "default_pds_rps": rates,
        "large_pds_rps": rates,
        "plc_rps": st.sampled_from((4.0, 20.0, 90.0)),
        "pds_concurrency": st.integers(1, 6),
        "workers": st.sampled_from((1, 2, 5, 50)),
        "halve_after": st.integers(1, 6),
        # A server may say "slow down" right before such a run and right after it.
        "block_after": st.integers(LONGEST_RUN + 3, 12),
        "retry_base": st.sampled_from((0.3, 2.0, 9.0)),
        "page_size": st.sampled_from((10, 333, 50_000)),
        "verify": st.sampled_from(("full", "hashes", "off")),
        "segment_size": st.sampled_from((1024, 20_000, 2 << 30)),
        "zstd_level": st.integers(1, 5),
        "recheck_inactive": st.sampled_from((3600.0, DAY)),
        "update": st.booleans(),
        "memory_limit": st.sampled_from((1 << 20, 1 << 30)),
        "max_repo_size": st.sampled_from((100_000, 100 << 20)),
        "max_expansion": st.sampled_from((1.0, 16.0)),
        "collections": st.sampled_from(
            (
                (),
                (),
                ("app.bsky.feed.*",),
                ("app.bsky.graph.follow",),
                ("*.follow", "app.bsky.fee*"),
            )
        ),
    }
)
sources = st.sampled_from(("relay", "list", "plc"))
kills = st.none() | st.integers(1, 400)


@given(spec=specs, config=configs, source=sources, kill_at=kills)
@worlds(8)
def test_any_network_is_archived_whole_and_politely(
    spec: Spec, config: dict[str, Any], source: str, kill_at: int | None
) -> None:
    world = World(spec)
    with tempfile.TemporaryDirectory(prefix="world-") as folder:
        Sweeps(world, Path(folder), source, config).judge(kill_at)


class Sweeps:
    """One crawl, perhaps killed and resumed, and another one two days later."""

    def __init__(self, world: World, folder: Path, source: str, config: dict[str, Any]) -> None:
        self.world, self.folder, self.source = world, folder, source
        self.place = folder / "net"
        more: dict[str, Any] = {"relay": (RELAY,)} if source == "relay" else {"source": "plc"}
        if source == "list":
            dids = folder / "dids"
            dids.write_text("\n".join(world.accounts))
            more = {"dids": str(dids)}
        self.config = ReposConfig(
            **config, **more, plc_url=PLC, contact="a@b.example", attempts=ATTEMPTS
        )
        self.reasons: dict[str, str] = {}

    def judge(self, kill_at: int | None) -> None:
        run_sim(self._sweeps(kill_at))
        world, config = self.world, self.config
        check_manners(world, config)
        if self.source == "relay":
            check_listed(world)
        named = [one for one in world.accounts.values() if self._is_named(one)]
        archived = archive_of(self.place / "archive", world, killed=kill_at is not None)
        either = {one.did for one in named if may_be_had(world, one, config, self.source)}
        words = {one.did: reasons_of(world, one, config, self.source) for one in named}
        expected = {did: reasons for did, reasons in words.items() if reasons}
        wanted = {one.did for one in named} - expected.keys()
        check_archive(world, config, archived, wanted | (either & archived.keys()))
        for did in either & archived.keys() - self.reasons.keys():
            expected.pop(did, None)
        check_reasons(expected, self.reasons)

    async def _sweeps(self, kill_at: int | None) -> None:
        world = self.world
        with self._in_world():
            changing = asyncio.create_task(world.change())
            if kill_at is None or not await self._killed(kill_at):
                await self._crawl()
            await changing
            if world.spec.moving or world.spec.changes or world.garbled:
                # Who moved while the crawl went on is found where they are now.
                await asyncio.sleep(DAY)
                world.change_between()
                await asyncio.sleep(DAY)
                world.run += 1
                await self._crawl()

    async def _killed(self, kill_at: int) -> bool:
        """The workspace as a process that dies at that request leaves it; False if it ended."""
        image, dead = self.folder / "image", asyncio.Event()

        def copy(number: int) -> None:
            if number == kill_at:
                shutil.copytree(self.place, image)
                dead.set()

        self.world.at_request = copy
        crawling = asyncio.create_task(self._crawl())
        dying = asyncio.create_task(dead.wait())
        await asyncio.wait((crawling, dying), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        self.world.run += 1
        if not dead.is_set():
            await crawling
            return True
        crawling.cancel()
        await asyncio.gather(crawling, return_exceptions=True)
        self.place = image
        await self._crawl()
        return True

    async def _crawl(self) -> None:
        clock = WorldClock()
        metrics = CrawlMetrics("repos", clock)
        opened = build.open_parts(self.config, self.place, clock, metrics)
        async with opened as parts:
            await crawl(parts, limits(self.config), Control(self.config.workers))
            failures = parts.store.failures()  # type: ignore[attr-defined]
            self.reasons = {
                did_of(one.key): str(one.reason)
                async for one in failures
                if not one.key.startswith("list:")
            }

    @contextmanager
    def _in_world(self) -> Iterator[None]:
        world = self.world

        def http(config: ReposConfig, turns: Any, clock: WorldClock, agent: str) -> WorldHttp:
            return WorldHttp(world, turns, clock, RequestLimits(total=config.request_timeout))

        async def mirror(*_: Any) -> WorldMirror | None:
            return WorldMirror(world, WorldClock().now()) if self.source == "plc" else None

        with patch.object(build, "_http", http), patch.object(build, "_mirror_in", mirror):
            yield

    def _is_named(self, one: Account) -> bool:
        """Whether the source leads to it."""
        if self.source != "relay":
            return True
        return one.did in self.world.told


PLAIN = {
    "small_pds_rps": 5.0,
    "default_pds_rps": 10.0,
    "large_pds_rps": 23.0,
    "plc_rps": 20.0,
    "retry_base": 0.3,
}
GONE = Host(7, 3, dead=True, failure="reset")
DIRECTORY = Host(0, 0, latency=0.2)


def spec_of(*hosts: Host, directory: Host = DIRECTORY, **more: Any) -> Spec:
    drawn: dict[str, Any] = {"moved": 0, "moving": 0, "moving_at": 5.0, "malformed": ()}
    return Spec(14, hosts, directory, **(drawn | {"tombstoned": 0} | more))


@pytest.mark.parametrize(
    ("spec", "source", "kill_at"),
    [
        # "Slow down" of a directory that was asked in the middle of a visit was not heard.
        (
            spec_of(
                Host(60, 3),
                Host(7, 2),
                directory=Host(0, 0, latency=0.2, throttles=5),
                moving=2,
                moving_at=0.5,
            ),
            "list",
            None,
        ),
        # Counts that a killed process had not written down made small hosts middling ones.
        (spec_of(Host(99, 5), Host(60, 2)), "relay", 120),
        # An account that moved to a dead host was waited for, for days.
        (spec_of(Host(7, 5), GONE, moved=2), "plc", None),
        # An account that moved away from a dead host was never looked for.
        (spec_of(GONE, Host(7, 0), moving=2), "list", None),
        (spec_of(GONE, Host(7, 0), moving=2), "plc", None),
        # Whoever left a dead host was found only if few of those who stayed were asked before.
        (spec_of(replace(GONE, size=60, active=40), Host(7, 2), moving=9), "plc", None),
        (spec_of(replace(GONE, size=60, active=40), Host(7, 2), moving=9), "list", None),
        # "Slow down" that was said as "forbidden" lost the accounts that met it.
        (spec_of(Host(60, 9, throttles=5, stated=Stated("x reset", status=403))), "list", None),
        # A server whose clock is ahead says when to come back by its own.
        (spec_of(Host(60, 9, throttles=5, stated=Stated("instant", ahead=-7000.0))), "list", None),
        # Accounts that a listing names twice, or that are listed and looked up.
        (spec_of(Host(99, 2, listed_at_once=50, repeats=5)), "relay", None),
    ],
)
def test_what_was_found_stays_mended(spec: Spec, source: str, kill_at: int | None) -> None:
    world = World(spec)
    with tempfile.TemporaryDirectory(prefix="world-") as folder:
        Sweeps(world, Path(folder), source, PLAIN).judge(kill_at)


def test_everybody_gets_a_turn_at_a_slow_directory(tmp_path: Path) -> None:
    """Whoever found it busy fifty times was given up as `parked`, and their server was asked as
    often for nothing."""
    spec = spec_of(Host(60, 0), Host(7, 1), directory=Host(0, 0, latency=60.0), moving=1)
    config = PLAIN | {"recheck_inactive": 3600.0, "workers": 5}
    Sweeps(World(spec), tmp_path, "relay", config).judge(None)
