"""Several `pds crawl` on one PostgreSQL registry: they share the work, and outlive each other."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.fleet.run import gaps_in, world_process
from tests.support.program import Started, at_once, started, wait_until
from tests.support.servers import PostgresServer, postgres_server

POSTS, LIKES = "app.bsky.feed.post", "app.bsky.feed.like"
NODES = 3
RATE = 2.5  # Requests a second to one PDS.
ROUNDING = 0.002  # Seconds: timers end, and clocks are read, about so exactly.


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def command(world: dict[str, Any], registry: str, workspace: Path) -> tuple[object, ...]:
    return (
        *("pds", "crawl", "-w", workspace, "--registry", registry, "--once"),
        *("--collections", POSTS, "--collections", LIKES, "--allow-private-hosts"),
        *("--relay", world["relay"], "--plc-url", world["plc"], "--plc-rps", 1000),
        *("--requests-per-minute", 60 * RATE, "--scan-timeout", 4, "--claim-timeout", 4),
        *("--batch", 2, "--concurrency", 2),
    )


def rows(registry: str, query: str) -> list[tuple[Any, ...]]:
    try:
        with psycopg.connect(registry) as connection:
            return connection.execute(query).fetchall()
    except psycopg.errors.UndefinedTable:
        return []


def repos_read(registry: str) -> int:
    found = rows(registry, "SELECT COUNT(*) FROM scan_repos WHERE is_pending = 0")
    return int(found[0][0]) if found else 0


def first_pages(log: Path, method: str, since: float = 0.0) -> Counter[str]:
    """How often each host was asked to list from the beginning."""
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    return Counter(
        one["host"]
        for one in asked
        if method in one["path"] and "cursor=" not in one["path"] and one["time"] >= since
    )


def claims_of(registry: str, node: Started) -> set[str]:
    held = rows(registry, "SELECT pds_url, lease_owner FROM pds_registry WHERE lease_until > now()")
    return {url for url, owner in held if f":{node.pid}:" in owner}


def killed_in_the_middle(registry: str, nodes: list[Started]) -> tuple[Started, set[str]]:
    """One that holds claims and cannot let go of them any more; which ones."""
    for node in cycle(nodes):
        assert any(one.process.poll() is None for one in nodes), "all have ended"
        node.process.send_signal(signal.SIGSTOP)
        if orphans := claims_of(registry, node):
            node.process.kill()
            return node, orphans
        node.process.send_signal(signal.SIGCONT)
    raise AssertionError("there are no nodes")


def test_nodes_share_the_hosts_and_take_over_from_one_that_is_killed(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    registry, log = postgres.url, tmp_path / "requests.jsonl"
    with world_process(3, 42, 6, log, latency=0.01) as world, ExitStack() as stack:
        nodes = [
            stack.enter_context(
                started(*command(world, registry, tmp_path / f"{n}"), folder=tmp_path / f"out{n}")
            )
            for n in range(NODES)
        ]
        wait_until(lambda: repos_read(registry) >= 6, "some repos are read")
        victim, orphans = killed_in_the_middle(registry, nodes)
        ended = [node.ended() for node in nodes if node is not victim]
        assert [one.code for one in ended] == [0, 0], [one.err for one in ended]
        done = time.time()
        ran = at_once(*command(world, registry, tmp_path / "later"))
        assert ran.code == 0, ran.err

    hosts = {host_of(url) for url in world["pds"]}
    # One of those that start together looks for PDSes; later ones look anew.
    assert 1 <= first_pages(log, "sync.listHosts").total() <= NODES
    lists = first_pages(log, "sync.listRepos")
    assert lists.keys() == hosts
    again = {host for host in hosts if lists[host] > 1}
    assert again <= set(map(host_of, orphans)), "only what the dead node was at is begun again"
    assert not first_pages(log, "sync.listRepos", done), "nothing is due again yet"

    status = rows(registry, "SELECT status, COUNT(*) FROM pds_registry GROUP BY 1")
    assert dict(status) == {"active": len(hosts)}
    found = rows(
        registry,
        "SELECT did, collection, COUNT(*), COUNT(DISTINCT uri) FROM records"
        " WHERE deleted_at IS NULL GROUP BY 1, 2",
    )
    assert all(count == different for *_, count, different in found)
    manifest = json.loads(Path(world["manifest"]).read_text())
    assert {(did, name): count for did, name, count, _ in found} == {
        (did, name): row["records"][name]
        for did, row in manifest["dids"].items()
        for name in (POSTS, LIKES)
        if row["archivable"] and row["records"].get(name)
    }

    gaps = [one.most for one in gaps_in(log)]
    assert len(gaps) > 50 and min(gaps) > 1.0 / RATE - ROUNDING, sorted(gaps)[:9]


def host_of(url: str) -> str:
    return url.partition("//")[2].partition(":")[0]
