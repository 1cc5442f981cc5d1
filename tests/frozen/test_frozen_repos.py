"""Repositories that earlier code has archived, or had begun to: read, checked and carried on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.frozen.commands import repos_words
from tests.frozen.ice import copies, notes, thaw, thaw_redis
from tests.frozen.story import check_board, check_story, done, said
from tests.frozen.worlds import repos_world
from tests.support.fleet.run import Tasks, crawl_with, dids_in_manifest, fleet_config, job_of
from tests.support.program import at_once, trawlnet
from tests.support.repos.run import Truth, archived, blocks_written
from tests.support.servers import redis_server
from tests.support.world_thread import in_thread
from trawlnet.sim.atproto.world import AtprotoWorld
from trawlnet.stores.redis.fleet.shards import Word

RPS = 500


@pytest.fixture
def world(tmp_path: Path) -> Iterator[AtprotoWorld]:
    (tmp_path / "world").mkdir()
    with in_thread(repos_world(tmp_path / "world" / "log")) as served:
        yield served


def fetched(world: AtprotoWorld) -> list[str]:
    """The DIDs whose repository the world was asked for."""
    world.served._log.flush()
    rows = map(json.loads, world.manifest.with_name("log").read_text().splitlines())
    paths = [urlsplit(row["path"]) for row in rows]
    return [parse_qs(p.query)["did"][0] for p in paths if p.path.endswith(".getRepo")]


def check_carried_on(world: AtprotoWorld, folder: Path, before: list[str]) -> None:
    everyone = Truth.of(world).archivable(on_relay=True)
    assert archived(folder) == everyone
    written = blocks_written(folder)
    again = written.total() - len(everyone)
    # What was on disk when it was killed, and not yet settled, is fetched once more.
    # (`total_crawled` counted what was settled, then; since 0.1.0 it counts what is on disk.)
    counted = notes(folder)["status"][0]["total_crawled"]
    settled = counted if counted < len(before) else 1
    assert set(before) >= {did for did in fetched(world) if did in before}
    assert again == len(set(before) & set(fetched(world))) <= len(before) - settled
    assert len(fetched(world)) == len(set(fetched(world))), "each once"


@pytest.mark.parametrize("name", copies("repos-killed"))
def test_a_killed_crawl_is_told_of_and_carried_on(
    name: str, world: AtprotoWorld, tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    check_story("repos", folder)
    check_board(folder, "repos")
    before = notes(folder)["archived"]
    assert sorted(blocks_written(folder).elements()) == before
    assert said("repos", "status", "-w", folder)[0]["total_crawled"] == len(before)
    done(at_once(*repos_words(world, folder, RPS)))
    check_carried_on(world, folder, before)


def check_tally(archive: Path, then: list[dict[str, Any]]) -> None:
    """Later versions count deltas besides."""
    (old,), (new,) = then, said("repos", "tally", archive)
    assert new | old == new


@pytest.mark.parametrize("name", copies("repos-done"))
def test_a_finished_archive_is_read_compacted_and_asked(name: str, tmp_path: Path) -> None:
    folder = thaw(name, tmp_path / "w")
    archive = folder / "archive"
    check_story("repos", folder)
    then = notes(folder)
    check_tally(archive, then["tally"])
    assert sorted(blocks_written(folder)) == then["archived"]
    (verdict,) = said("repos", "verify", archive)
    records = trawlnet("repos", "cat", archive, "--did", then["archived"][0], "--json").rows
    assert verdict["damaged"] == verdict["torn"] == verdict["unfinalised"] == 0 and records
    done(at_once("repos", "compact", archive))
    check_tally(archive, then["tally"])
    assert at_once("repos", "report", archive, "-o", tmp_path / "report.html").code == 0


@pytest.mark.parametrize("name", copies("repos-done"))
def test_tables_of_earlier_code_answer_and_are_not_filled_twice(name: str, tmp_path: Path) -> None:
    folder = thaw(name, tmp_path / "w")
    question = (
        "SELECT (SELECT count() FROM repo_records) AS records,"
        " (SELECT count() FROM plc_did_state) AS dids"
    )
    # One process has one embedded ClickHouse: these cannot be asked within the tests'.
    (before,) = done(trawlnet("repos", "query", "-w", folder, question, "--json")).rows
    assert before["records"] > 0 and before["dids"] > 0
    done(trawlnet("repos", "replay", "-w", folder))
    (after,) = done(trawlnet("repos", "query", "-w", folder, question, "--json")).rows
    assert after == before


@pytest.mark.parametrize("name", copies("repos-redis"))
def test_a_crawl_in_redis_is_told_of_and_carried_on(
    name: str, world: AtprotoWorld, tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    with redis_server() as server:
        thaw_redis(folder, server.url)
        where = ("--redis-address", server.url)
        check_story("repos", folder, *where)
        done(at_once(*repos_words(world, folder, RPS), *where))
        check_carried_on(world, folder, notes(folder)["archived"])


@pytest.mark.parametrize("name", copies("repos-fleet"))
def test_a_fleet_carries_on_and_composes_the_parts(
    name: str, world: AtprotoWorld, tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    parts = [path.name for path in (folder / "archive" / "parts").iterdir()]
    assert parts
    with redis_server() as server:
        thaw_redis(folder, server.url)
        config = fleet_config(world.ready_line(), server.url, str(folder / "archive"))
        runtime = Tasks(job_of(config, tmp_path))
        assert asyncio.run(crawl_with(config, runtime)) is Word.DONE
    found = dids_in_manifest(folder / "archive")
    assert found.keys() == Truth.of(world).archivable(on_relay=True).keys()
    assert set(found.values()) == {1}
    # A kill may leave a part half written, under a name that no reader takes for one.
    assert list((folder / "archive" / "parts").glob("*.rca")) == []
