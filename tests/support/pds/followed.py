"""`pds crawl --follow` over a network that changes, and its tables as a reader sees them."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.program import Started
from tests.support.repos.followed import Content, LiveWorld, differences
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.tid import tid
from trawlnet.sim.atproto.history import iso_time
from trawlnet.sim.atproto.keyring import make_keyring
from trawlnet.sim.atproto.live.commits import RepoState, commit_of
from trawlnet.sim.repository.mst import build_tree

FORGER = make_keyring(99)[0]
NO_DIGITS = str.maketrans("0123456789", "bcdefghijk")  # A DID of the directory has few of them.
WANTED = "app.bsky.feed."
TABLES = ("eprints", "reviews", "endorsements", "tags", "records", "invalid_records")


def follow_command(
    workspace: Path, living: LiveWorld, *more: object, relay: bool = True, rpm: int = 60_000
) -> tuple[object, ...]:
    return (
        *("pds", "crawl", "-w", workspace, "--follow"),
        *(("--relay", living.world.relay) if relay else ()),
        *("--plc-url", living.world.plc, "--allow-private-hosts", "--plc-rps", "1000"),
        *("--collections", f"{WANTED}*", "--requests-per-minute", rpm, "--batch", "50"),
        *("--look-pause", "0.2", "--looks-per-minute", "6000", "--concurrency", "4"),
        *("--rescan-pause", "0.5", *more),
    )


def requests(living: LiveWorld) -> dict[str, int]:
    """That each server has had, as it counted them."""
    world = living.world
    turns = world.served.turns
    places = {url: urlsplit(url) for url in (*world.pds, world.plc)}
    return {url: turns[at.hostname or "", at.port or 0] for url, at in places.items()}


def forge(living: LiveWorld, dids: Sequence[str], number: int) -> None:
    """Commits on the relay's firehose that hang together, and that nobody made."""

    async def tell() -> None:
        empty = build_tree([]).root
        for did in dids:
            now = time.time()
            record = encode({"$type": f"{WANTED}post", "text": f"invented {number}"})
            before = RepoState(did, {}, "", empty)
            rkey = tid(int(now * 1e6))
            story = commit_of(before, {f"{WANTED}post/{rkey}": record}, rkey, FORGER)
            payload = {**story.payload(), "time": iso_time(int(now * 1000))}
            living.world.relay_stream.log.add(did, "#commit", payload)
            await asyncio.sleep(0)

    living.run(tell())


def wanted(content: Content) -> Content:
    found = {
        did: {path: cid for path, cid in records.items() if path.startswith(WANTED)}
        for did, records in content.items()
    }
    return {did: records for did, records in found.items() if records}


def rows_of(workspace: Path, sql: str) -> list[tuple[Any, ...]]:
    file = workspace / "state" / "pds" / "registry.db"
    if not file.exists():
        return []
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=60)) as db:
        try:
            return db.execute(sql).fetchall()
        except sqlite3.OperationalError as error:
            assert "no such table" in str(error)
            return []


def tabled(workspace: Path) -> Content:
    found: dict[str, dict[str, str]] = {}
    for table in TABLES:
        sql = f"SELECT did, collection, rkey, cid FROM {table} WHERE deleted_at IS NULL"
        for did, collection, rkey, cid in rows_of(workspace, sql):
            found.setdefault(did, {})[f"{collection}/{rkey}"] = cid
    return found


def position(workspace: Path) -> int:
    return sum(seq for (seq,) in rows_of(workspace, "SELECT seq FROM pds_streams"))


def until_joined(running: Started, workspace: Path, living: LiveWorld, streams: int) -> None:
    """So many firehoses have said something: the crawl can go on from there."""

    def is_joined() -> bool:
        living.acts(1)
        return rows_of(workspace, "SELECT COUNT(*) FROM pds_streams WHERE seq > 0") == [(streams,)]

    running.until(is_joined, "messages of every firehose")


def until_quiet(running: Started, workspace: Path, living: LiveWorld) -> None:
    """The relay's firehose is read to its end, and nothing is left to look at."""
    asked = "SELECT COUNT(*) FROM pds_looks WHERE asked > seen"
    taken = "SELECT COUNT(*) FROM pds_registry WHERE lease_owner IS NOT NULL"
    last = living.world.relay_stream.log.last
    running.until(lambda: position(workspace) >= last, "the end of the stream")
    running.until(lambda: rows_of(workspace, asked) == rows_of(workspace, taken) == [(0,)], "quiet")


def until_true(running: Started, workspace: Path, living: LiveWorld) -> None:
    """The tables have what the network has."""
    truth = wanted(living.truth())
    try:
        running.until(lambda: tabled(workspace) == truth, "the truth")
    except AssertionError as error:
        wrong = differences(tabled(workspace), truth)
        raise AssertionError("\n".join([*wrong, str(error)])) from error
