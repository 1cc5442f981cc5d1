"""The pds crawl in worlds drawn at random: what is stored is what there is, at the pace allowed.

Two users with collections of their own may share the registry. Things happen for two days; then the
world is left alone for nine, after which nothing may be missing, and nothing kept that has gone.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds
from tests.random_worlds.pds_world import (
    COLLECTIONS,
    VALUES,
    Ill,
    SimHttp,
    World,
    gaps,
)
from trawlnet.atproto.tid import tid
from trawlnet.crawlers.pds.build import Kit, crawl_parts
from trawlnet.crawlers.pds.config import PdsConfig, limits, manners
from trawlnet.crawlers.pds.records.routing import Routes
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl
from trawlnet.engine.gate import Gate
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.pds import SimPds
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.tables.registry.registry import PdsSource, Registry, Terms, open_registry
from trawlnet.tables.relational.database import Statement
from trawlnet.tables.scanned.rows import Table

HOUR, DAY = 3600.0, 86_400.0
BUSY, QUIET = 2 * DAY, 9 * DAY
EVERY = 14 * HOUR
ILL_FOR = 2.5 * HOUR  # At most, and each host three times: fewer than five failures in a row.
_ROUND = 50
ACCOUNTS = tuple(f"account{number}" for number in range(5))
HOSTS = ("one.pds-world.net", "two.pds-world.net")


@dataclass(frozen=True)
class Event:
    at: float
    kind: str
    account: str
    number: int
    collection: str


@dataclass(frozen=True)
class Sickness:
    at: float
    host: int
    kind: str
    seconds: float
    wait: int


@dataclass(frozen=True)
class Plan:
    homes: tuple[int, ...]  # Of each account: a host.
    sizes: tuple[int, ...]  # Records that each begins with.
    crowd: tuple[int, ...]  # Accounts without anything on each host.
    page: int
    by_collection: bool
    ends_with_cursor: bool
    events: tuple[Event, ...]
    ills: tuple[Sickness, ...]


@dataclass(frozen=True)
class User:
    config: PdsConfig
    begins: float
    pauses: float  # Ends here, and begins again.


EVENTS = st.builds(
    Event,
    st.floats(0.0, BUSY),
    st.sampled_from(
        ("put", "put", "edit", "delete", "delete", "empty", "move", "leave", "return", "off", "on")
    ),
    st.sampled_from(ACCOUNTS),
    st.integers(0, 9),
    st.sampled_from(COLLECTIONS),
)
ILLS = st.builds(
    Sickness,
    st.floats(0.0, BUSY - ILL_FOR),
    st.integers(0, 1),
    st.sampled_from(
        (
            "429",
            "503",
            "dropped",
            "hangs",
            "garbage",
            "shrunk",
            "spoilt",
            "repeats",
            "invents",
            "undescribed",
        )
    ),
    st.floats(1.0, ILL_FOR),
    st.sampled_from((1, 9, 10, 11, 61, 700)),
)
PLANS = st.builds(
    Plan,
    st.tuples(*[st.integers(0, 1)] * len(ACCOUNTS)),
    st.tuples(*[st.sampled_from((0, 1, 3, 99, 100, 101, 130))] * len(ACCOUNTS)),
    st.tuples(*[st.sampled_from((0, 1, 19, 31, 36, 41, 50))] * 2),
    st.sampled_from((1, 3, 20, _ROUND, 1000)),
    st.booleans(),
    st.booleans(),
    st.lists(EVENTS, max_size=14).map(tuple),
    st.lists(ILLS, max_size=3).map(tuple),
)
GLOBS = (
    ("pub.chive.*",),
    ("pub.chive.eprint.*",),
    ("app.bsky.*",),
    ("pub.chive.review.comment", "app.bsky.feed.like"),
    ("pub.*", "app.bsky.feed.*"),
)
USERS = st.builds(
    User,
    st.builds(
        PdsConfig,
        collections=st.sampled_from(GLOBS),
        requests_per_minute=st.floats(23.0, 1900.0),
        scan_timeout=st.sampled_from((4.0, 13.0, 60.0, 210.0)),
        claim_timeout=st.sampled_from((10.0, 120.0, 500.0)),
        max_records_per_pds=st.sampled_from((40, 99, 1000)),
        batch=st.integers(1, 3),
        concurrency=st.integers(1, 3),
        scan_interval=st.sampled_from((2500.0, 3700.0, 7100.0)),
        contact=st.just("tests@example.org"),
    ),
    st.floats(0.0, DAY),
    st.floats(DAY, BUSY),
)


@worlds(7)
@given(plan=PLANS, users=st.lists(USERS, min_size=1, max_size=2))
def test_everything_is_found_once_kept_true_and_asked_for_politely(
    plan: Plan, users: list[User]
) -> None:
    check(plan, users)


def check(plan: Plan, users: list[User]) -> None:
    world = made(plan)
    with tempfile.TemporaryDirectory() as folder:
        stored = run_sim(run(world, plan, users, Path(folder)))
    keeps_the_pace(world, users)
    tells_the_truth(world, users, stored)


def made(plan: Plan) -> World:
    world = World([SimPds(host) for host in HOSTS])
    for pds, drawn in zip(world.pdses, plan.crowd, strict=True):
        # Pages of odd sizes are recognised once there are two of them.
        crowd = drawn if plan.page >= _ROUND else max(drawn, plan.page + 1)
        pds.largest_page = plan.page
        pds.lists_by_collection = plan.by_collection
        pds.ends_with_cursor = plan.ends_with_cursor
        for number in range(crowd):
            world.settle(f"{pds.address}/{number}", pds)
    for number, (name, home) in enumerate(zip(ACCOUNTS, plan.homes, strict=True)):
        world.settle(name, world.pdses[home])
        for record in range(plan.sizes[number]):
            _put(world, name, COLLECTIONS[(number + record // 70) % len(COLLECTIONS)], record)
    return world


async def run(
    world: World, plan: Plan, users: list[User], folder: Path
) -> dict[str, tuple[str, bool]]:
    registry = await open_registry(folder / "registry.db", Terms())
    for pragma in ("PRAGMA synchronous = OFF", "PRAGMA journal_mode = MEMORY"):
        registry.db._connection.execute(pragma)  # type: ignore[attr-defined]
    try:
        for pds in world.pdses:
            await registry.register(world.url(pds), PdsSource.USER, now=0.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(_happen(world, plan))
            for number, user in enumerate(users):
                group.create_task(_crawls(world, registry, number, user, folder / str(number)))
        return await _stored(registry)
    finally:
        await registry.close()


async def _crawls(world: World, registry: Registry, number: int, user: User, folder: Path) -> None:
    """As a daemon, with a break, while things happen; then now and then until nothing is due."""
    spells = [(user.begins, {"max_seconds": max(1.0, user.pauses - user.begins)})]
    spells.append((user.pauses, {"max_seconds": max(1.0, BUSY - user.pauses)}))
    spells += [(BUSY + turn * EVERY, {"once": True}) for turn in range(int(QUIET // EVERY) + 1)]
    for begins, how in spells:
        await asyncio.sleep(max(0.0, begins - asyncio.get_running_loop().time()))
        config = user.config.model_copy(update=how)
        clock = SimClock()
        gate = Gate(clock, manners(config))
        http = SimHttp(world, gate, number)
        kit = Kit(config, folder, registry, http, gate, clock, CrawlMetrics("pds", clock))
        async with crawl_parts(kit) as parts:
            await crawl(parts, limits(config), Control(config.concurrency))


async def _happen(world: World, plan: Plan) -> None:
    loop = asyncio.get_running_loop()
    for event in sorted((*plan.events, *plan.ills), key=lambda event: event.at):
        await asyncio.sleep(event.at - loop.time())
        if isinstance(event, Sickness):
            ill = Ill(event.kind, event.at + event.seconds, event.wait)
            world.ills.setdefault(HOSTS[event.host], []).append(ill)
        else:
            _apply(world, event)


def _apply(world: World, event: Event) -> None:
    repo, home = world.repo(event.account), world.home(event.account)
    if event.kind == "return" and event.account in world.away:
        pds, left = world.away.pop(event.account)
        pds.repos[left.did], world.homes[left.did] = left, pds
    if repo is None or home is None:
        return
    match event.kind:
        case "put" | "edit":
            _put(world, event.account, event.collection, event.number, again=event.kind == "edit")
        case "delete":
            for rkey in list(repo.records.get(event.collection, {}))[: event.number]:
                repo.delete(event.collection, rkey)
        case "empty":
            for collection in list(repo.records):
                for rkey in list(repo.records[collection]):
                    repo.delete(collection, rkey)
        case "move":
            other = world.pdses[1 - world.pdses.index(home)]
            other.repos[repo.did], world.homes[repo.did] = repo, other
            if event.number % 2:  # Else the old home goes on listing it.
                del home.repos[repo.did]
        case "leave":
            world.away[event.account] = (home, repo)
            del home.repos[repo.did], world.homes[repo.did]
        case "off":
            repo.status = "deactivated" if event.number % 2 else "takendown"
        case "on":
            repo.status = ""


def _put(world: World, name: str, collection: str, number: int, *, again: bool = False) -> None:
    repo = world.repo(name)
    assert repo is not None
    value = VALUES[collection](repo.did, number) | ({"note": "edited"} if again else {})
    repo.put(collection, tid(1_700_000_000_000_000 + number), value)


async def _stored(registry: Registry) -> dict[str, tuple[str, bool]]:
    """By URI: where it was found, and whether it is there; a live row wins."""
    stored: dict[str, tuple[str, bool]] = {}
    for table in Table:
        sql = f"SELECT uri, pds_url, deleted_at IS NULL FROM {table}"
        for uri, pds, live in await registry.db.rows(Statement("all", sql)):
            assert not (live and stored.get(uri, ("", False))[1]), f"{uri} is in two tables"
            if live or uri not in stored:
                stored[uri] = (pds, bool(live))
    return stored


def tells_the_truth(world: World, users: list[User], stored: dict[str, tuple[str, bool]]) -> None:
    live = {uri: pds for uri, (pds, is_live) in stored.items() if is_live}
    for user in users:
        wants = Routes(user.config.collections).wants
        truth = world.truth(wants)
        mine = {uri: pds for uri, pds in live.items() if wants(uri.split("/")[3])}
        assert mine.keys() >= truth.keys(), f"missing: {sorted(truth.keys() - mine.keys())[:5]}"
        assert mine.keys() <= truth.keys(), f"gone, and kept: {sorted(mine.keys() - truth)[:5]}"
        assert mine == truth, "found somewhere else"


def keeps_the_pace(world: World, users: list[User]) -> None:
    """Whoever asks, asks no sooner after the last request than its own pace allows; and nobody
    asks a host that wants to be left alone for a while."""
    until: dict[str, float] = defaultdict(lambda: -math.inf)
    for before, asked in gaps(world.log):
        gap = 60.0 / users[asked.user].config.requests_per_minute
        assert asked.at - before.at >= gap - 1e-6, (before, asked, gap)
        until[asked.host] = max(until[asked.host], before.at + before.retry_after)
        assert asked.at >= until[asked.host] - 1e-6, (before, asked)


def fixed(**more: Any) -> Plan:
    """A plan in which nothing happens, but for what is said."""
    calm: dict[str, Any] = {
        "homes": (0,) * len(ACCOUNTS),
        "sizes": (3,) * len(ACCOUNTS),
        "crowd": (0, 0),
        "page": 1000,
        "by_collection": False,
        "ends_with_cursor": True,
        "events": (),
        "ills": (),
    }
    return Plan(**calm | more)
