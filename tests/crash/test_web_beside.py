"""A crawl and a scrape of one workspace at once: each may be killed at any instant, and every host
is asked as if they were one."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.crash.nursery import Nursery, has_ended, nursery_of, size_of
from tests.support.long import times
from tests.support.web.captures import read_captures
from tests.support.web.site import KEYS, config_for, gaps, index, reachable
from tests.support.world_thread import in_thread
from trawlnet.captures.blobs import BlobStore
from trawlnet.captures.role import CRAWL, SCRAPE, Role
from trawlnet.crawlers.web.unscraped import FILE, read_unscraped
from trawlnet.net.clock import SystemClock
from trawlnet.sim.web import WebWorld, serve_web
from trawlnet.storage.files import is_held

PATIENCE = 120.0  # Seconds; only a test that fails waits that long.
KILLS = times(5, 24)
RATE = 20  # Requests per second to a host: slow enough to be killed in time.
MOST_BETWEEN = 4_000  # Bytes of the log of the one that is killed, from its start on.
IDLE = 2.0  # Seconds after which one is killed that has nothing to do.
IN_FLIGHT = 64
GAP = 0.04  # Seconds.
NAMES = {"crawl": CRAWL, "scrape": SCRAPE}


@contextmanager
def served(folder: Path, *, hosts: int, pages: int, latency: float = 0.0) -> Iterator[WebWorld]:
    making = serve_web(
        7,
        manifest=folder / "manifest.jsonl",
        clock=SystemClock(),
        hosts=hosts,
        pages=pages,
        crawl_delay=0.08 if latency else 0.001,
        latency=latency,
        digests=False,
        log=folder / "requests.jsonl",
    )
    with in_thread(making) as world:
        yield world


def prepare(world: WebWorld, folder: Path, rate: float) -> None:
    config = config_for(world, limits={"req_per_sec": rate}, warc={"enabled": True})
    given = {"config": config.model_dump(mode="json"), "seeds": world.seeds}
    (folder / "given.json").write_text(json.dumps(given))


@pytest.mark.slow
def test_nothing_is_lost_doubled_or_torn_when_either_is_killed(tmp_path: Path) -> None:
    dice, site, landed = random.Random(11), tmp_path / "site", 0
    with (
        served(tmp_path, hosts=5, pages=50) as world,
        nursery_of("web_roles", tmp_path) as nursery,
    ):
        prepare(world, tmp_path, RATE)
        (tmp_path / "kills").touch()
        running: dict[str, int] = {}
        for _ in range(KILLS):
            keep_going(nursery, running)
            victim = dice.choice(("crawl", "scrape"))
            size = partial(size_of, site / NAMES[victim].log, "captures-*")
            until(size, size() + dice.randint(0, MOST_BETWEEN), running[victim])
            landed += nursery.kill(running.pop(victim))
        keep_going(nursery, running)
        assert nursery.wait(running.pop("crawl")) == 0
        (tmp_path / "kills").unlink()
        assert nursery.wait(running.pop("scrape")) == 0
    assert landed >= KILLS / 2, "most kills must hit one at work"
    check(world, site, landed)


def keep_going(nursery: Nursery, running: dict[str, int]) -> None:
    for role in NAMES:
        if role in running and has_ended(running[role]):
            assert nursery.wait(running.pop(role)) == 0
        if role not in running:
            running[role] = nursery.start(role)


def until(size: Callable[[], int], goal: int, pid: int) -> None:
    """Or until it has nothing more to do."""
    deadline = time.monotonic() + IDLE
    while size() < goal and not has_ended(pid) and time.monotonic() < deadline:
        time.sleep(0.002)


def check(world: WebWorld, site: Path, landed: int) -> None:
    wanted = reachable(world, "link", "sitemap")
    held = [KEYS.key(url) for url, page in index(site).items() if page.fetched]
    assert sorted(held) == sorted(wanted), "each page once in the index, none missing"
    logged = {role: list(read_captures(site / role.log)) for role in NAMES.values()}
    assert set(index(site)) == {line.url for lines in logged.values() for line in lines}
    for role, lines in logged.items():
        assert csv_urls(site, role) == Counter(line.url for line in lines)
        assert len({line.visit for line in lines}) == len(lines), "no visit twice"
    spooled = Counter(row["url"] for row in spool_rows(site))
    given_up = {row.url for row in read_unscraped(site / "state/web" / FILE, lambda url: 0.0)}
    scraped = Counter(line.url for line in logged[SCRAPE])
    assert spooled.keys() - given_up <= scraped.keys() <= spooled.keys()
    assert sum((scraped - spooled).values()) <= landed * IN_FLIGHT, "asked again after a kill only"
    check_files(site, sum(line.warc is not None for lines in logged.values() for line in lines))


def check_files(site: Path, recorded: int) -> None:
    blobs = BlobStore(site / "store" / "html", ".html")
    assert list(blobs.verify()) == []
    blobs.close()
    warcs = sorted((site / "warc").glob("*.warc.gz"))
    assert warcs and not list((site / "warc").glob("*.open"))
    done = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", *warcs], capture_output=True
    )
    assert done.returncode == 0, done.stdout[-1000:]
    lines = (site / "warc" / "index.cdxj").read_bytes().splitlines()
    assert len(lines) == recorded and lines == sorted(set(lines))


def csv_urls(site: Path, role: Role) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in (site / "logs").glob("pages-*.csv"):
        if ("-scrape" in path.name) == (role is SCRAPE):
            with path.open(newline="") as file:
                found.update(row["url"] for row in csv.DictReader(file))
    return found


def spool_rows(site: Path) -> Iterator[dict[str, str]]:
    for path in (site / "spool" / "discoveries").glob("discoveries-*.jsonl"):
        yield from map(json.loads, path.read_bytes().splitlines())


def test_a_host_is_asked_by_one_of_them_at_a_time_with_a_gap(tmp_path: Path) -> None:
    site = tmp_path / "site"
    with (
        served(tmp_path, hosts=3, pages=24, latency=0.004) as world,
        nursery_of("web_roles", tmp_path) as nursery,
    ):
        prepare(world, tmp_path, 1 / GAP)
        crawl = nursery.start("crawl")
        deadline = time.monotonic() + PATIENCE
        while not is_held(site / CRAWL.lock):
            assert time.monotonic() < deadline
            time.sleep(0.002)
        scrape = nursery.start("scrape")
        assert nursery.wait(crawl) == 0
        assert nursery.wait(scrape) == 0
    scraped, crawled = (list(read_captures(site / role.log)) for role in (SCRAPE, CRAWL))
    assert min(line.timestamp for line in scraped) < max(line.timestamp for line in crawled)
    assert any(line.http_status == 304 for line in scraped), "it knows what the crawl has fetched"
    shortest = gaps(tmp_path / "requests.jsonl")
    # The server may see an answer end after it was read. Two that know nothing of each other
    # would soon ask at the same time.
    assert shortest and min(shortest.values()) >= GAP / 2
