"""`pds crawl` while the server with its registry is away: it waits, and goes on."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from tests.support.program import started, wait_until
from tests.support.servers import PostgresServer, postgres_server

POSTS = "app.bsky.feed.post"


def expected(network: Any) -> Counter[str]:
    """Posts by host, of accounts that are active, where they live."""
    counts: Counter[str] = Counter()
    for row in network.manifest["dids"].values():
        if row["archivable"]:
            counts[row["pds"]] += row["records"].get(POSTS, 0)
    return +counts


def rows(postgres: PostgresServer, query: str) -> list[tuple[Any, ...]]:
    try:
        with psycopg.connect(postgres.url) as connection:
            return connection.execute(query).fetchall()
    except psycopg.errors.UndefinedTable:
        return []


def repos_read(postgres: PostgresServer) -> int:
    return len(rows(postgres, "SELECT 1 FROM scan_repos WHERE is_pending = 0"))


def held(postgres: PostgresServer) -> Counter[str]:
    scanned = "SELECT pds_url, chive_record_count FROM pds_registry WHERE last_scan_at IS NOT NULL"
    return +Counter(dict(rows(postgres, scanned)))


def test_a_crawl_outlives_its_registry_and_misses_nothing(network: Any, tmp_path: Path) -> None:
    """The server is killed in the middle of scans, and starts when the crawl has noticed."""
    with postgres_server() as postgres:
        words = (
            *("pds", "crawl", "-w", tmp_path / "net", "--registry", postgres.url),
            *("--plc-url", network.ready["plc"], "--relay", network.relay),
            *("--allow-private-hosts", "--collections", POSTS, "--plc-rps", 1000),
            *("--requests-per-minute", 600, "--scan-timeout", 4, "--claim-timeout", 4),
            *("--scan-interval", 1, "--batch", 3, "--concurrency", 3),
        )
        with started(*words, folder=tmp_path / "out") as crawl:
            crawl.until(lambda: repos_read(postgres) > 5, "scans under way")
            before = held(postgres)
            assert before != expected(network), "it was to be killed in the middle"
            postgres.kill()
            crawl.until(lambda: "registry unreachable" in logged(tmp_path), "that it notices")
            postgres.start()
            crawl.until(lambda: held(postgres) == expected(network), "every record of all hosts")
            assert "registry back" in logged(tmp_path)
            crawl.tell(signal.SIGTERM)
            assert crawl.ended().code == 130
        claimed = "SELECT pds_url FROM pds_registry WHERE lease_owner IS NOT NULL"
        wait_until(lambda: rows(postgres, claimed) == [], "that nothing stays claimed")


def logged(tmp_path: Path) -> str:
    return "".join(path.read_text() for path in (tmp_path / "net/logs").glob("pds-*"))
