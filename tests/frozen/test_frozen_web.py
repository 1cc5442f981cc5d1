"""Sites that earlier code had begun to crawl: told of, replayed and carried on."""

from __future__ import annotations

import asyncio
import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.frozen.commands import scrape_words, web_words
from tests.frozen.ice import copies, notes, thaw, thaw_redis
from tests.frozen.story import check_board, check_story, done
from tests.frozen.worlds import small_web_world, web_world
from tests.support.fleet.run import Tasks
from tests.support.fleet.web import captured, pages_of, web_crawl_with, web_fleet_config, web_job
from tests.support.program import at_once
from tests.support.servers import redis_server
from tests.support.web.captures import read_captures
from tests.support.web.site import KEYS, asked, captures, forbidden, page_keys, reachable
from tests.support.world_thread import in_thread
from trawlnet.captures.role import CRAWL, SCRAPE
from trawlnet.net.lane import lane_of
from trawlnet.sim.web import WebWorld
from trawlnet.stores.redis.fleet.shards import Word

RPS = 500


@pytest.fixture
def world(tmp_path: Path) -> Iterator[WebWorld]:
    (tmp_path / "world").mkdir()
    with in_thread(web_world(tmp_path / "world" / "log")) as served:
        yield served


def requests(world: WebWorld) -> Counter[str]:
    world.served._log.flush()
    found = asked(world.manifest.with_name("log"))
    return Counter({key: n for key, n in found.items() if not key.endswith("/robots.txt")})


def check_carried_on(world: WebWorld, folder: Path) -> None:
    wanted = reachable(world, "link", "sitemap")
    found = Counter(page_keys(folder))
    assert found.keys() == wanted and set(found.values()) == {1}
    now, then = requests(world), notes(folder)
    assert now.keys() & forbidden(world) == set()
    before = {KEYS.key(url) for url in then["captured"]}
    settled = then["status"][0]["settled"]["ok"]
    # Robots and sitemaps are settled, too, and have no capture: this is the least there can be.
    assert len(before & now.keys()) <= max(0, len(then["captured"]) - settled) + IN_FLIGHT
    assert {row["key"] for row in then["failures"]} & now.keys() == set()


def check_warc(folder: Path) -> None:
    """What others read: each capture of then and of now has its record, and the index leads to it,
    once; no file is left open."""
    files = sorted((folder / "warc").glob("*.warc.gz"))
    assert len(files) > 1 and list((folder / "warc").glob("*.open")) == []
    subprocess.run([sys.executable, "-m", "warcio.cli", "check", *files], check=True)
    found: dict[tuple[str, int], tuple[str, str]] = {}
    for path in files:
        with path.open("rb") as stream:
            records = ArchiveIterator(stream)
            for record in records:
                if record.rec_type in ("response", "revisit"):
                    place = path.name, records.get_record_offset()
                    found[place] = record.rec_type, record.rec_headers["WARC-Target-URI"]
    every = list(captures(folder))
    lines = [line for line in every if line.warc]
    answers = {(line.warc.file, line.warc.offset): line for line in lines if line.warc}
    assert len(answers) == len(lines)
    assert not any(line.content_bytes for line in every if not line.warc), "no body, no record"
    for place, line in answers.items():
        assert line.warc and found[place] == (
            "revisit" if line.warc.revisit else "response",
            line.final_url or line.url,
        )
    assert len(found) == len(lines) + sum(len(line.hops) for line in lines)
    index = (folder / "warc" / "index.cdxj").read_text().splitlines()
    rows = [json.loads(line.split(" ", 2)[2]) for line in index]
    assert index == sorted(index) and len(rows) == len(lines)
    assert {(row["filename"], int(row["offset"])) for row in rows} == answers.keys()


IN_FLIGHT = 4  # Captures on disk that the kill kept from being settled: one for each host.


@pytest.mark.parametrize("name", copies("web-killed"))
def test_a_killed_crawl_is_told_of_replayed_and_carried_on(
    name: str, world: WebWorld, tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    check_story("web", folder)
    check_board(folder, "web")
    assert sorted(line.url for line in captures(folder)) == notes(folder)["captured"]
    done(at_once("web", "replay", "-w", folder))
    done(at_once(*web_words(world, folder, RPS), "--warc"), 0, 3)
    check_carried_on(world, folder)
    check_warc(folder)
    (first, *_) = sorted((folder / "logs").glob("pages-*.csv"))
    with first.open(newline="") as file:
        assert {row["url"] for row in csv.DictReader(file)} <= set(notes(folder)["captured"])
    assert at_once("web", "report", "-w", folder, "-o", tmp_path / "r.html").code == 0


@pytest.mark.parametrize("name", copies("web-redis"))
def test_a_crawl_in_redis_is_told_of_and_carried_on(
    name: str, world: WebWorld, tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    with redis_server() as server:
        thaw_redis(folder, server.url)
        where = ("--redis-address", server.url)
        check_story("web", folder, *where)
        done(at_once(*web_words(world, folder, RPS), "--warc", *where), 0, 3)
        check_carried_on(world, folder)
        check_warc(folder)


@pytest.mark.parametrize("name", copies("web-scrape"))
def test_a_killed_scrape_is_carried_on(name: str, tmp_path: Path) -> None:
    folder = thaw(name, tmp_path / "w")
    then = notes(folder)
    (tmp_path / "world").mkdir()
    with in_thread(small_web_world(tmp_path / "world" / "log")) as world:
        done(at_once(*scrape_words(folder, RPS)), 0, 3)
        again = requests(world)
    scraped = Counter(line.url for line in read_captures(folder / SCRAPE.log))
    spool = (folder / "spool" / "discoveries").glob("discoveries-*.jsonl")
    found = {json.loads(line)["url"] for path in spool for line in path.read_text().splitlines()}
    assert scraped.keys() == found > set(then["scraped"])
    # What was being written when it was killed may not have been settled: one page of each host.
    twice = [url for url in then["scraped"] if again[KEYS.key(url)]]
    assert len(twice) == len({lane_of(url) for url in twice}) and set(scraped.values()) == {1}
    assert sorted(line.url for line in read_captures(folder / CRAWL.log)) == then["captured"]


@pytest.mark.parametrize("name", copies("web-fleet"))
def test_a_fleet_carries_on_and_lists_the_parts(name: str, world: WebWorld, tmp_path: Path) -> None:
    folder = thaw(name, tmp_path / "w")
    archive = str(folder / "archive")
    with redis_server() as server:
        thaw_redis(folder, server.url)
        config = web_fleet_config(world, server.url, archive)
        runtime = Tasks(web_job(config, tmp_path))
        assert asyncio.run(web_crawl_with(config, runtime)) is Word.DONE
    found = pages_of(captured(archive))
    assert found.keys() == reachable(world, "link", "sitemap") and set(found.values()) == {1}
