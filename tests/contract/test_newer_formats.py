"""What a newer version has written is refused with a clear word, and stays as it is."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import lmdb
import pytest
import redis as client

from tests.frozen.ice import thaw
from tests.support.program import at_once
from tests.support.servers import RedisServer
from trawlnet.stores.errors import StoreError
from trawlnet.stores.lmdb.spans import SpanFile
from trawlnet.stores.redis.spans import SpanKeys
from trawlnet.tables.errors import TablesError
from trawlnet.tables.registry.registry import open_registry
from trawlnet.tables.relational.database import Statement
from trawlnet.tables.relational.open import open_relational

VERBS = {
    "repos": ("status", "failures", "retry"),
    "pds": ("status", "list"),
    "ids": ("status", "failures"),
    "web": ("status", "failures", "replay"),
}


@pytest.mark.parametrize(("crawler", "verb"), [(c, v) for c, vs in VERBS.items() for v in vs])
def test_a_newer_workspace_is_refused_by_every_verb(
    crawler: str, verb: str, tmp_path: Path
) -> None:
    state = tmp_path / "state" / crawler
    state.mkdir(parents=True)
    (state / "format").write_text("trawlnet workspace 2\n")
    ran = at_once(crawler, verb, "-w", tmp_path)
    assert ran.code == 1
    assert "the workspace has format 2, this version of trawlnet reads 1" in ran.err
    assert "hint: use the newer trawlnet that wrote it" in ran.err
    assert [path.name for path in state.iterdir()] == ["format"]


def test_a_crawl_refuses_a_newer_workspace_before_it_asks_for_anything(tmp_path: Path) -> None:
    state = tmp_path / "state" / "web"
    state.mkdir(parents=True)
    (state / "format").write_text("trawlnet workspace 20\n")
    agent = "Bot/1.0 (+https://example.org/bot)"
    words = ("--user-agent", agent, "-w", tmp_path)
    ran = at_once("web", "crawl", "http://127.0.0.1:9/", *words)
    assert ran.code == 1 and "format 20" in ran.err
    assert not (tmp_path / "logs").exists()


def test_a_follower_refuses_a_newer_workspace_and_leaves_it_as_it_is(tmp_path: Path) -> None:
    folder = thaw("repos-follow-0.1.0", tmp_path)
    (folder / "state" / "repos" / "format").write_text("trawlnet workspace 2\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    words = ("--relay", "https://relay.example", "--contact", "me@example.org")
    ran = at_once("repos", "follow", "-w", folder, *words)
    assert ran.code == 1 and "the workspace has format 2" in ran.err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_workspace_says_which_version_wrote_it_and_a_torn_word_is_no_number(
    tmp_path: Path,
) -> None:
    ran = at_once("pds", "ban", "pds.example", "-w", tmp_path)
    assert ran.code == 0, ran.err
    stamp = tmp_path / "state" / "pds" / "format"
    assert stamp.read_text() == "trawlnet workspace 1\n"
    stamp.write_text("trawl")
    ran = at_once("pds", "list", "-w", tmp_path)
    assert ran.code == 1 and "does not say 'trawlnet workspace 1'" in ran.err


def test_a_newer_ledger_is_refused(tmp_path: Path) -> None:
    SpanFile(tmp_path).close()
    with lmdb.open(str(tmp_path), max_dbs=4) as environment:
        notes = environment.open_db(b"notes")
        with environment.begin(write=True, db=notes) as txn:
            (stored,) = [value for key, value in txn.cursor() if key == b"format"]
            txn.put(b"format", stored.replace(b"spans 1", b"spans 2"))
    for readonly in (False, True):
        with pytest.raises(StoreError, match="not a ledger of this version"):
            SpanFile(tmp_path, readonly=readonly)


def test_a_newer_store_in_redis_is_refused_by_verbs_crawls_and_fleets(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is refused before Ray starts, which takes seconds.
    monkeypatch.setattr("trawlnet.cli.fleet.command.ray_runtime", None)
    server = client.Redis.from_url(redis.url)
    server.flushdb()
    server.set("crawler:format", "trawlnet store 2")
    where = ("--store", redis.url)
    fleet = ("--fleet", "local", "--archive", tmp_path / "archive")
    relay = ("--relay", "https://relay.example", "--contact", "me@example.org")
    for words in (
        ("repos", "status", "-w", tmp_path, *where),
        ("repos", "crawl", "-w", tmp_path, *where, *relay),
        ("repos", "crawl", "-w", tmp_path, *where, *relay, *fleet),
        ("web", "failures", "-w", tmp_path, *where),
        ("fleet", "status", *where),
    ):
        ran = at_once(*words)
        assert ran.code == 1, words
        assert "hold 'trawlnet store 2', this program writes 'trawlnet store 1'" in ran.err, words
        assert "hint: use the version of trawlnet that made them" in ran.err
    assert server.keys("*") == [b"crawler:format"]


def test_a_newer_ledger_in_redis_is_refused(redis: RedisServer) -> None:
    server = client.Redis.from_url(redis.url)
    server.hset("newer:notes", "format", '"trawlnet spans 2"')
    server.set("newer:epoch", "1")
    with pytest.raises(StoreError, match="not a ledger of this version"):
        SpanKeys(redis.url, "newer:")


def test_a_newer_registry_is_refused(where: Path | str) -> None:
    async def run() -> None:
        registry = await open_registry(where)
        await registry.db.close()
        db = await open_relational(where)
        newer = "INSERT INTO schema_versions (folder, version) VALUES ('registry', 999)"
        await db.run(Statement("newer", newer))
        await db.close()
        with pytest.raises(TablesError, match="schema version 999"):
            await open_registry(where)

    asyncio.run(run())


def test_a_newer_segment_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    folder = thaw("repos-done", tmp_path) / "archive"
    segment = folder / "segment_0001.rca"
    data = bytearray(segment.read_bytes())
    struct.pack_into("<H", data, 8, 9)
    segment.write_bytes(data)
    for verb in ("verify", "compact"):
        ran = at_once("repos", verb, folder)
        assert ran.code == 1, ran
        assert "format version 9; this version of trawlnet reads 1" in ran.out + ran.err
    assert segment.read_bytes() == bytes(data)
