"""What must hold of a pds crawl, as the log of the hosts and the database tell it."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.random_worlds.pds_world import LATENCY, Asked, World, gaps
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.tables.relational.database import Relational, Statement
from trawlnet.tables.scanned.rows import Table

SHORT_PAUSE = 10.1  # Seconds that a scan waits by itself for a server that asks for it.


@dataclass(frozen=True)
class Withdrawal:
    uri: str
    pds: str
    at: float


@dataclass(frozen=True)
class Kept:
    """In the database when all is over."""

    rows: dict[str, tuple[str, bool]]  # By URI: where it was found, and whether it is there.
    withdrawals: list[Withdrawal]  # All that ever were.
    hosts: frozenset[str]  # In the registry.
    strays: list[tuple[str, str, float]]  # What was written without a claim: where, by whom, when.


def watch_withdrawals(connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
    """The database itself notes each: a later scan may put a record back, and hide it."""
    connection.create_function("world_time", 0, clock)
    connection.execute("CREATE TABLE withdrawals (uri TEXT, pds TEXT, at REAL)")
    for table in Table:
        connection.execute(
            f"CREATE TRIGGER note_{table} AFTER UPDATE OF deleted_at ON {table}"
            " WHEN OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL BEGIN"
            " INSERT INTO withdrawals VALUES (NEW.uri, NEW.pds_url, world_time()); END"
        )


def watch_claims(connection: sqlite3.Connection, writer: Callable[[], str]) -> None:
    """The database notes who claims a PDS, and who writes about one that others have. Later scans
    mostly mend what such a write spoils, so that the end does not show it."""
    connection.create_function("world_writer", 0, writer)
    connection.execute("CREATE TABLE claimants (owner TEXT PRIMARY KEY, writer TEXT)")
    connection.execute("CREATE TABLE strays (pds TEXT, writer TEXT, at REAL)")
    connection.execute(
        "CREATE TRIGGER note_claim AFTER UPDATE OF lease_owner ON pds_registry"
        " WHEN NEW.lease_owner IS NOT NULL BEGIN"
        " INSERT OR IGNORE INTO claimants VALUES (NEW.lease_owner, world_writer()); END"
    )
    writes = ("INSERT ON scan_progress", "UPDATE ON scan_progress", "UPDATE OF todo ON scan_repos")
    for number, write in enumerate(writes):
        connection.execute(
            f"CREATE TRIGGER note_stray_{number} AFTER {write}"
            " WHEN world_writer() <> '' AND NOT EXISTS ("
            " SELECT 1 FROM pds_registry AS r JOIN claimants AS c ON c.owner = r.lease_owner"
            " WHERE r.pds_url = NEW.pds_url AND c.writer = world_writer()) BEGIN"
            " INSERT INTO strays VALUES (NEW.pds_url, world_writer(), world_time()); END"
        )


async def kept_in(db: Relational) -> Kept:
    rows: dict[str, tuple[str, bool]] = {}
    for table in Table:
        sql = f"SELECT uri, pds_url, deleted_at IS NULL FROM {table}"
        for uri, pds, live in await db.rows(Statement("all", sql)):
            assert not (live and rows.get(uri, ("", False))[1]), f"{uri} is in two tables"
            if live or uri not in rows:
                rows[uri] = (pds, bool(live))
    noted = await db.rows(Statement("noted", "SELECT uri, pds, at FROM withdrawals"))
    hosts = await db.rows(Statement("hosts", "SELECT pds_url FROM pds_registry"))
    strays = await db.rows(Statement("strays", "SELECT pds, writer, at FROM strays"))
    return Kept(
        rows,
        [Withdrawal(*row) for row in noted],
        frozenset(url for (url,) in hosts),
        [(str(pds), str(writer), float(at)) for pds, writer, at in strays],
    )


def tells_the_truth(world: World, configs: Sequence[PdsConfig], kept: Kept) -> None:
    """But of who invented accounts: those are left alone for longer than there is time for."""
    honest = [world.url(pds) for pds in world.pdses if world.url(pds) not in world.liars]
    live = {uri: pds for uri, (pds, is_live) in kept.rows.items() if is_live and pds in honest}
    stored = {uri.split("/")[3] for uri in kept.rows}
    strange = [name for name in stored if not any(wanted(config, name) for config in configs)]
    assert not strange, f"wanted by nobody, and stored: {strange}"
    for config in configs:
        wants = partial(wanted, config)
        truth = {uri: pds for uri, pds in world.truth(wants).items() if pds in honest}
        mine = {uri: pds for uri, pds in live.items() if wants(uri.split("/")[3])}
        assert mine.keys() >= truth.keys(), f"missing: {sorted(truth.keys() - mine.keys())[:5]}"
        assert mine.keys() <= truth.keys(), f"gone, and kept: {sorted(mine.keys() - truth)[:5]}"
        assert mine == truth, "found somewhere else"


def wanted(config: PdsConfig, collection: str) -> bool:
    return any(_fits(collection, glob) for glob in config.collections)


def _fits(name: str, glob: str) -> bool:
    """A star stands for any characters; everything else for itself."""
    head, star, rest = glob.partition("*")
    if not star or not name.startswith(head):
        return name == glob
    return any(_fits(name[end:], rest) for end in range(len(head), len(name) + 1))


def withdraws_what_went(world: World, kept: Kept) -> None:
    """Nothing is withdrawn that was there all the time, not even until the next scan."""
    for one in kept.withdrawals:
        went = min(
            world.gone.get((one.uri, one.pds), math.inf), world.reordered.get(one.pds, math.inf)
        )
        assert went <= one.at, f"withdrawn, and there: {one}"


def writes_under_claims(kept: Kept) -> None:
    """Whoever has lost its claim changes nothing, however late it wakes up."""
    assert not kept.strays, f"written without a claim: {kept.strays[0]}"


def keeps_the_pace(world: World, configs: Sequence[PdsConfig]) -> None:
    """Whoever asks, asks no sooner after the last request than its own pace allows; and nobody
    asks a host that wants to be left alone for a while."""
    until: dict[str, float] = defaultdict(lambda: -math.inf)
    for before, asked in gaps(world.log):
        if not _died_with_it(world, before):
            until[asked.host] = max(until[asked.host], before.at + before.wait)
        if asked.was_frozen:
            continue  # It was on its way when its process froze, and cannot be called back.
        gap = 60.0 / configs[asked.user].requests_per_minute
        assert asked.at - before.at >= gap - 1e-6, (before, asked, gap)
        assert asked.at >= until[asked.host] - 1e-6, (before, asked)


def _died_with_it(world: World, told: Asked) -> bool:
    """A short wait is known to nobody else before it is over; and one that was still on its way
    when its process ended was never heard."""
    lasts = [(at, user, SHORT_PAUSE) for at, user in world.kills]
    lasts += [(at, user, LATENCY) for at, user in world.stops]
    return any(user == told.user and told.at <= at <= told.at + lost for at, user, lost in lasts)


def leaves_the_banned_alone(world: World, configs: Sequence[PdsConfig], kept: Kept) -> None:
    """A scan under way finds out when it next writes, and has an end in any case."""
    grace = max(config.scan_timeout for config in configs)
    for host, begins, ends in world.bans:
        late = [one for one in world.log if one.host == host and begins + grace < one.at < ends]
        assert not late, f"asked though banned since {begins}: {late[0]}"
        if ends == math.inf:
            assert f"https://{host}" not in kept.hosts, f"banned, and in the registry: {host}"
