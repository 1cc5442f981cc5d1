"""SIGKILL at random instants of a crawl of a site: every page is there, once, and whole."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.crash.nursery import nursery_of, size_of
from tests.support.long import times
from tests.support.web.site import (
    asked,
    captures,
    config_for,
    forbidden,
    index,
    page_keys,
    reachable,
)
from tests.support.world_thread import in_thread
from trawlnet.captures.blobs import BlobStore
from trawlnet.captures.files import LOG
from trawlnet.crawlers.web.config import LimitsSection
from trawlnet.net.clock import SystemClock
from trawlnet.sim.web import WebWorld, serve_web

KILLS = times(10, 100)
MOST_BETWEEN = 5_000  # Bytes of the capture log from a start to its kill: some pages.
LOGGED = "requests.jsonl"
# A page whose receipt was lost is asked for again: as many as were in flight or waiting to settle.
IN_FLIGHT = 64


@contextmanager
def served(folder: Path, hosts: int) -> Iterator[WebWorld]:
    making = serve_web(
        5,
        manifest=folder / "manifest.jsonl",
        clock=SystemClock(),
        hosts=hosts,
        pages=220,
        crawl_delay=0.001,
        digests=False,
        log=folder / LOGGED,
    )
    with in_thread(making) as world:
        yield world


@pytest.mark.slow
def test_no_page_is_lost_doubled_or_torn_over_many_kills(tmp_path: Path) -> None:
    dice, landed = random.Random(4), 0
    with served(tmp_path, hosts=12) as world, nursery_of("web_roles", tmp_path) as nursery:
        prepare(world, tmp_path)
        logged = partial(size_of, tmp_path / "site" / LOG, "captures-*")
        for _ in range(KILLS):
            landed += nursery.kill_at_any_instant("crawl", logged, dice, MOST_BETWEEN)
        assert nursery.wait(nursery.start("crawl")) == 0
    assert landed >= KILLS * 0.9, "most kills must hit a crawl at work"
    check(world, tmp_path / "site", tmp_path / LOGGED, landed)


@pytest.mark.slow
def test_settling_before_the_capture_is_durable_would_be_noticed(tmp_path: Path) -> None:
    with served(tmp_path, hosts=4) as world, nursery_of("web_roles", tmp_path) as nursery:
        prepare(world, tmp_path)
        for _ in range(BROKEN_KILLS):
            pid = nursery.start("settle_first")
            await_batches(tmp_path / "site", BATCHES)
            assert nursery.kill(pid)
        assert nursery.wait(nursery.start("settle_first")) == 0
    with pytest.raises(AssertionError, match="none missing"):
        check_pages(world, tmp_path / "site")


BROKEN_KILLS = 2
PROBES = LimitsSection().block_probes
BATCHES = 2  # That reach the log before a kill.
PATIENCE = 120.0  # Seconds until they must have.


def await_batches(site: Path, count: int) -> None:
    """Until the capture log has grown so often."""
    end, sizes = time.monotonic() + PATIENCE, {size_of(site / LOG, "captures-*")}
    while len(sizes) <= count:
        assert time.monotonic() < end, "the crawl makes no progress"
        time.sleep(0.002)
        sizes.add(size_of(site / LOG, "captures-*"))


def prepare(world: WebWorld, folder: Path) -> None:
    limits = {"req_per_sec": 0, "per_host_concurrency": 2, "global_concurrency": 12}
    config = config_for(world, limits=limits, warc={"enabled": True})
    given = {"config": config.model_dump(mode="json"), "seeds": world.seeds}
    (folder / "given.json").write_text(json.dumps(given))


def check(world: WebWorld, site: Path, log: Path, landed: int) -> None:
    wanted = check_pages(world, site)
    assert len(wanted) > 1000
    seen = asked(log)
    assert set(seen) & forbidden(world) == set()
    robots = Counter(key for key in seen.elements() if key.endswith("/robots.txt"))
    twice = sum(n - 1 for key, n in seen.items() if key in wanted)
    assert twice <= landed * IN_FLIGHT, "asked again only around a kill"
    # One that fails is asked for once by each run, and by the probes of the run that ends.
    assert sum(robots.values()) <= len(robots) + KILLS + PROBES
    blobs = BlobStore(site / "store" / "html", ".html")
    assert list(blobs.verify()) == []
    blobs.close()
    assert csv_urls(site) == Counter(line.url for line in captures(site))
    assert set(index(site)) == {line.url for line in captures(site)}
    warcs = sorted((site / "warc").glob("*.warc.gz"))
    done = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", *warcs], capture_output=True
    )
    assert warcs and done.returncode == 0, done.stdout[-1000:]


def check_pages(world: WebWorld, site: Path) -> set[str]:
    wanted = reachable(world, "link", "sitemap")
    assert sorted(page_keys(site)) == sorted(wanted), "each page once in the index, none missing"
    return wanted


def csv_urls(site: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in (site / "logs").glob("pages-*.csv"):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                assert len(row) == 17 and None not in row.values()
                found[row["url"]] += 1
    return found
