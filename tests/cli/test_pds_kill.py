"""SIGKILL of a real `pds crawl` or `pds scan`: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.program import at_once, started, trawlnet, wait_until

POSTS, LIKES = "app.bsky.feed.post", "app.bsky.feed.like"
KILLS = 3


def told(state: Path, query: str) -> list[tuple[Any, ...]]:
    try:
        with sqlite3.connect(f"file:{state}?mode=ro", uri=True) as db:
            return db.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []  # Not made yet.


def repos_read(state: Path) -> int:
    rows = told(state, "SELECT COUNT(*) FROM scan_repos WHERE is_pending = 0")
    return int(rows[0][0]) if rows else 0


def test_a_crawl_that_is_killed_again_and_again_loses_nothing(network: Any, tmp_path: Path) -> None:
    wanted = ("--collections", POSTS, "--collections", LIKES, "--allow-private-hosts")
    sources = ("--relay", network.relay, "--plc-url", network.ready["plc"], "--plc-rps", 1000)
    # Slow and in short slices, so that there is always a scan to be killed in.
    pace = ("--requests-per-minute", 90, "--scan-timeout", 5, "--concurrency", 4)
    words = ("pds", "crawl", "-w", tmp_path, "--once", *wanted, *sources, "--batch", 50)
    state = tmp_path / "state/pds/registry.db"
    for _ in range(KILLS):
        before = repos_read(state)
        with started(*words, *pace, folder=tmp_path / "out") as crawl:
            wait_until(lambda goal=before + 2: repos_read(state) >= goal, "some more repos read")
            crawl.process.kill()
            crawl.process.wait()
    assert told(state, "SELECT 1 FROM pds_registry WHERE lease_owner IS NOT NULL"), "its claims"
    ran = trawlnet(*words, "--requests-per-minute", 60_000, "--json")
    assert ran.code == 0, ran.err
    rows = at_once("pds", "list", "-w", tmp_path, "--json").rows
    assert Counter(row["status"] for row in rows) == {"active": len(network.ready["pds"])}
    query = "SELECT did, pds_url, collection, COUNT(*), COUNT(DISTINCT uri) FROM records"
    found = told(state, f"{query} WHERE deleted_at IS NULL GROUP BY 1, 2, 3")
    assert {(did, pds, name): count for did, pds, name, count, _ in found} == {
        (did, row["pds"], name): row["records"][name]
        for did, row in network.manifest["dids"].items()
        for name in (POSTS, LIKES)
        if row["archivable"] and row["records"].get(name)
    }
    assert all(count == different for *_, count, different in found)


def test_a_scan_that_is_killed_leaves_nothing_to_wait_for(network: Any, tmp_path: Path) -> None:
    pds = max(network.ready["pds"], key=lambda url: _accounts(network, url))
    places = ("--plc-url", network.ready["plc"], "--allow-private-hosts", "--collections", POSTS)
    words = ("pds", "scan", "-w", tmp_path, pds, *places)
    state = tmp_path / "state/pds/registry.db"
    claim = "SELECT 1 FROM pds_registry WHERE lease_owner IS NOT NULL"
    # So slow that it is still at it, however long the other one takes to start.
    with started(*words, "--requests-per-minute", 1, folder=tmp_path / "out") as scan:
        wait_until(lambda: told(state, claim), "a claim")
        beside = trawlnet(*words, "--json")
        assert (beside.code, beside.rows[0]["result"]) == (3, "refused"), "it is alive"
        scan.process.kill()
        scan.process.wait()
    assert told(state, claim), "nobody could give it back"
    ran = trawlnet(*words, "--requests-per-minute", 60_000, "--json")
    assert (ran.code, ran.rows[0]["result"]) == (0, "complete"), ran.err
    assert list((tmp_path / "state/pds/scans").iterdir()) == []


def _accounts(network: Any, pds: str) -> int:
    return sum(row["pds"] == pds for row in network.manifest["dids"].values())
