"""The pds crawl in worlds drawn at random: what is stored is what there is, at the pace allowed.

Two users with collections of their own may share the registry. Things happen for two days; then the
world is left alone for nine, after which nothing may be missing, and nothing kept that has gone.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds
from tests.random_worlds.pds_draws import (
    ACCOUNTS,
    BUSY,
    DAY,
    EVERY,
    HOSTS,
    ILL_FOR,
    PLANS,
    QUIET,
    ROUND,
    USERS,
    Banned,
    Death,
    Event,
    Plan,
    Sickness,
    User,
)
from tests.random_worlds.pds_laws import (
    Kept,
    keeps_the_pace,
    kept_in,
    leaves_the_banned_alone,
    tells_the_truth,
    watch_claims,
    watch_withdrawals,
    withdraws_what_went,
    writes_under_claims,
)
from tests.random_worlds.pds_world import (
    COLLECTIONS,
    VALUES,
    Ill,
    Life,
    MortalDb,
    SimHttp,
    World,
)
from tests.random_worlds.stated import Stated
from tests.support.pds.sim_model import SimPds
from trawlnet.atproto.tid import tid
from trawlnet.crawlers.pds.build import Kit, crawl_parts
from trawlnet.crawlers.pds.config import PdsConfig, lease, limits, manners
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl
from trawlnet.engine.gate import Gate
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import Registry, open_registry
from trawlnet.tables.registry.rules import PdsSource
from trawlnet.tables.scanned.scanned import Scanned


@worlds(7)
@given(plan=PLANS, users=st.lists(USERS, min_size=1, max_size=2))
def test_everything_is_found_once_kept_true_and_asked_for_politely(
    plan: Plan, users: list[User]
) -> None:
    check(plan, users)


def check(plan: Plan, users: list[User]) -> None:
    world, configs = made(plan), [user.config for user in users]
    with tempfile.TemporaryDirectory() as folder:
        kept = run_sim(run(world, plan, users, Path(folder)))
    keeps_the_pace(world, configs)
    leaves_the_banned_alone(world, configs, kept)
    withdraws_what_went(world, kept)
    writes_under_claims(kept)
    tells_the_truth(world, configs, kept)


def made(plan: Plan) -> World:
    world = World([SimPds(host) for host in HOSTS])
    for pds, drawn in zip(world.pdses, plan.crowd, strict=True):
        # Pages of odd sizes are recognised once there are two of them.
        crowd = drawn if plan.page >= ROUND else max(drawn, plan.page + 1)
        pds.largest_page = plan.page
        pds.lists_by_collection = plan.by_collection
        pds.ends_with_cursor = plan.ends_with_cursor
        for number in range(crowd):
            world.settle(f"{pds.address}/{number}", pds)
    for number, (name, home) in enumerate(zip(ACCOUNTS, plan.homes, strict=True)):
        world.settle(name, world.pdses[home])
        for record in range(plan.sizes[number]):
            _put(world, name, COLLECTIONS[(number + record // 70) % len(COLLECTIONS)], record)
    world.look()
    return world


async def run(world: World, plan: Plan, users: list[User], folder: Path) -> Kept:
    registry = await open_registry(folder / "registry.db", Terms())
    connection = registry.db._connection  # type: ignore[attr-defined]
    for pragma in ("PRAGMA synchronous = OFF", "PRAGMA journal_mode = MEMORY"):
        connection.execute(pragma)
    scanned = Scanned(registry.db)
    await scanned.migrate()
    watch_withdrawals(connection, asyncio.get_running_loop().time)
    watch_claims(connection, lambda: world.writer)
    try:
        for pds in world.pdses:
            await registry.register(world.url(pds), PdsSource.USER, now=0.0)
        async with asyncio.TaskGroup() as group:
            banning = [group.create_task(_bans(world, registry, scanned, ban)) for ban in plan.bans]
            async with asyncio.TaskGroup() as busy:
                busy.create_task(_happen(world, plan))
                for number, user in enumerate(users):
                    busy.create_task(_crawls(world, registry, number, user, folder / str(number)))
            for ban in banning:
                ban.cancel()
        return await kept_in(registry.db)
    finally:
        await registry.close()


async def _crawls(world: World, registry: Registry, number: int, user: User, folder: Path) -> None:
    """As a daemon, with a break and deaths, while things happen; then now and then until nothing
    is due."""
    loop, deaths = asyncio.get_running_loop(), iter(user.deaths)
    await asyncio.sleep(user.begins + number / 1000)  # Owners have the instant in their names.
    while (now := loop.time()) < BUSY:
        until = user.pauses if now < user.pauses else BUSY
        config = user.config.model_copy(update={"max_seconds": max(1.0, until - now)})
        await _lives(world, registry, number, config, folder, next(deaths, None))
    for turn in range(int(QUIET // EVERY) + 1):
        await asyncio.sleep(max(0.0, BUSY + turn * EVERY - loop.time()))
        config = user.config.model_copy(update={"once": True})
        await _lives(world, registry, number, config, folder, None)


async def _lives(
    world: World,
    registry: Registry,
    number: int,
    config: PdsConfig,
    folder: Path,
    death: Death | None,
) -> None:
    """One run of the crawler, to its end or its death."""
    life = Life(f"user {number} at {asyncio.get_running_loop().time()}")
    running = asyncio.ensure_future(_run(world, registry, number, config, folder, life))
    if death is not None:
        dying = asyncio.ensure_future(world.asked_by(number, death.requests, death.moment))
        await asyncio.wait((running, dying), return_when=asyncio.FIRST_COMPLETED)
        if dying.done() and not running.done():
            if death.kind == "freeze":
                await _freezes(world, registry, number, config, folder, life)
            if death.kind == "kill":
                life.is_dead = True
                world.kills.append((asyncio.get_running_loop().time(), number))
            else:
                world.stops.append((asyncio.get_running_loop().time(), number))
            running.cancel()
            await asyncio.wait((running,))
            await asyncio.sleep(death.pause)
        dying.cancel()
    if not running.cancelled():
        await running


async def _freezes(
    world: World, registry: Registry, number: int, config: PdsConfig, folder: Path, life: Life
) -> None:
    """Its claims run out, and an heir on another machine does all there is to do; then it wakes up
    and goes on for a while as if nothing had been."""
    life.is_frozen = True
    await asyncio.sleep(lease(config) + 1.0)
    once = config.model_copy(update={"once": True})
    heir = Life(f"heir of {life.name}")
    await _run(world, registry, number, once, folder.with_name(f"{folder.name} heir"), heir)
    life.thaw()
    await asyncio.sleep(config.scan_timeout)


async def _run(
    world: World, registry: Registry, number: int, config: PdsConfig, folder: Path, life: Life
) -> None:
    clock = SimClock()
    gate = Gate(clock, manners(config))
    http = SimHttp(world, gate, number, life)
    mine = Registry(MortalDb(registry.db, world, life), registry.terms)
    kit = Kit(config, folder, mine, http, gate, clock, CrawlMetrics("pds", clock))
    async with crawl_parts(kit) as parts:
        await crawl(parts, limits(config), Control(config.concurrency))


async def _bans(world: World, registry: Registry, scanned: Scanned, ban: Banned) -> None:
    """As the command does it, in two steps; whoever tells of the host meanwhile is not heard."""
    loop, pds = asyncio.get_running_loop(), world.pdses[ban.host]
    url = world.url(pds)
    await world.asked_of(pds.address, ban.requests, ban.moment)
    if loop.time() > BUSY:
        return
    await registry.bans.add(pds.address, "", loop.time())
    world.bans.append([pds.address, loop.time(), math.inf])
    world.look()
    await scanned.remove(url, loop.time(), erase=ban.erase)
    ends = loop.time() + ban.lasts
    while loop.time() < ends:
        await registry.register(url, PdsSource.RELAY, now=loop.time())
        assert await registry.get(url) is None, f"banned, and entered: {url}"
        await asyncio.sleep(min(ban.told_every, ends - loop.time()))
    await registry.bans.lift(pds.address)
    world.bans[-1][2] = loop.time()
    await registry.register(url, PdsSource.USER, now=loop.time())


async def _happen(world: World, plan: Plan) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        falling = [group.create_task(_falls_ill(world, ill)) for ill in plan.ills]
        for event in sorted(plan.events, key=lambda event: event.at):
            await asyncio.sleep(event.at - loop.time())
            _apply(world, event)
            world.look()
        await asyncio.sleep(BUSY - ILL_FOR - loop.time())
        for ill in falling:
            ill.cancel()


async def _falls_ill(world: World, ill: Sickness) -> None:
    """What it has is new by then, so that it is read."""
    await asyncio.sleep(ill.at)
    host = HOSTS[ill.host]
    for name in ACCOUNTS:
        if (home := world.home(name)) is not None and home.address == host:
            _put(world, name, COLLECTIONS[ill.said.seconds % len(COLLECTIONS)], 900 + ill.requests)
    world.look()
    await world.asked_of(host, ill.requests, 0.0)
    until = asyncio.get_running_loop().time() + ill.seconds
    world.ills.setdefault(host, []).append(Ill(ill.kind, until, ill.said))


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
            world.reorder(home)
            other = world.pdses[1 - world.pdses.index(home)]
            other.repos[repo.did], world.homes[repo.did] = repo, other
            if event.number % 2:  # Else the old home goes on listing it.
                del home.repos[repo.did]
        case "leave":
            world.reorder(home)
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


def calm_user(**more: Any) -> User:
    config = PdsConfig(
        collections=("pub.chive.*",),
        requests_per_minute=600.0,
        contact="tests@example.org",
    )
    return User(config, **{"begins": 0.0, "pauses": DAY} | more)


def test_who_is_stopped_while_a_server_wants_to_be_left_alone_says_so_to_the_next() -> None:
    """The wait was known to the process alone, and the next one asked within it."""
    ill = Sickness(0.0, requests=3, host=0, kind="busy", seconds=60.0, said=Stated(seconds=9))
    stop = Death(requests=4, moment=2.0, pause=0.5, kind="stop")
    check(fixed(ills=(ill,)), [calm_user(deaths=(stop,))])


@pytest.mark.parametrize("glob", ["pub.chive.*", "pub.chive.review.comment", "*.eprint.*", "pub.*"])
def test_names_near_the_wanted_ones_are_told_from_them(glob: str) -> None:
    """Each account writes in another collection, and some of these differ by one character."""
    users = [calm_user(), calm_user(begins=100.0)]
    config = users[0].config.model_copy(update={"collections": (glob,)})
    check(fixed(homes=(0, 0, 0, 1, 1)), [replace(users[0], config=config), users[1]])
