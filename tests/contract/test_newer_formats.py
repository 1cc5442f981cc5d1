"""What a newer version has written is refused with a clear word, and stays as it is."""

from __future__ import annotations

import asyncio
import shlex
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import lmdb
import pytest
import redis as client

import trawlnet
from tests.frozen.ice import thaw
from tests.support.program import at_once
from tests.support.program import trawlnet as run_alone
from tests.support.servers import RedisServer
from trawlnet.archive.format import rca
from trawlnet.archive.writer import SegmentWriter
from trawlnet.cli.commands import TRAWLNET, GroupRow
from trawlnet.cli.common.verb import Verb
from trawlnet.loading import load
from trawlnet.stores.errors import StoreError
from trawlnet.stores.lmdb.spans import SpanFile
from trawlnet.stores.redis.spans import SpanKeys
from trawlnet.tables.errors import TablesError
from trawlnet.tables.instances.instances import STEPS as INSTANCE_STEPS
from trawlnet.tables.instances.report import instance_figures
from trawlnet.tables.registry.registry import STEPS as REGISTRY_STEPS
from trawlnet.tables.registry.registry import open_registry
from trawlnet.tables.registry.report import account_counts
from trawlnet.tables.relational.database import NEWEST, Statement
from trawlnet.tables.relational.open import open_relational
from trawlnet.tables.scanned.scanned import STEPS as SCANNED_STEPS

# Where -w names something else besides, or nothing that would be read: what to type instead of the
# example, which mostly is enough.
INSTEAD = {
    "repos verify": "repos verify . --proofs -w",
    "web replay": "web replay -w",
    "web check": "web check https://example.org/ -w",
    "fleet plan": "fleet plan --from-registry -w",
}
CRAWLERS = ("repos", "pds", "ids", "web")
# They open no workspace for -w to name; `version` and the like have none.
ELSEWHERE = {"doctor"}


def verbs_of(group: GroupRow, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Verb]]:
    """Every command, as it is typed."""
    for row in group.rows:
        if isinstance(row, GroupRow):
            yield from verbs_of(row, (row.name,))
        else:
            made = load(row.place)
            yield " ".join((*path, row.name)), made(load(row.crawler)) if row.crawler else made


def takes_workspace(name: str, verb: Verb) -> bool:
    params = verb.command(name.split()[-1]).params
    return any("--workspace" in param.opts for param in params)


WITH_WORKSPACE = {name: verb for name, verb in verbs_of(TRAWLNET) if takes_workspace(name, verb)}


def words_of(name: str, workspace: Path) -> list[str]:
    """Its example, with that workspace."""
    example = INSTEAD.get(name, WITH_WORKSPACE[name].example)
    words = shlex.split(example.partition(" <")[0])
    given = words.index("-w") if "-w" in words else len(words)
    return [*words[:given], "-w", str(workspace), *words[given + 2 :]]


def everything_in(folder: Path) -> dict[Path, bytes]:
    """But the pid in a lock."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path: path.read_bytes() for path in files}


def newer_workspace(folder: Path) -> None:
    for crawler in CRAWLERS:
        state = folder / "state" / crawler
        state.mkdir(parents=True, exist_ok=True)
        (state / "format").write_text("trawlnet workspace 2\n")


@pytest.mark.parametrize("name", sorted(WITH_WORKSPACE.keys() - ELSEWHERE))
def test_a_newer_workspace_is_refused_by_every_verb(name: str, tmp_path: Path) -> None:
    newer_workspace(tmp_path)
    before = everything_in(tmp_path)
    ran = at_once(*words_of(name, tmp_path))
    assert ran.code == 1, ran
    assert "the workspace has format 2, this version of trawlnet reads 1" in ran.err
    assert "use the newer trawlnet that wrote it" in ran.err
    assert everything_in(tmp_path) == before


def test_a_newer_workspace_is_refused_to_programs(tmp_path: Path) -> None:
    newer_workspace(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "spool").mkdir()
    (tmp_path / "captures").mkdir()
    for read in (
        lambda: list(trawlnet.open_captures(tmp_path)),
        lambda: list(trawlnet.query(tmp_path, "SELECT 1")),
        lambda: trawlnet.query_arrow(tmp_path, "SELECT 1"),
        lambda: asyncio.run(trawlnet.open_queue(tmp_path / "spool", "discoveries")),
    ):
        with pytest.raises(trawlnet.UnknownFormat, match="the workspace has format 2"):
            read()


def test_doctor_tells_of_a_newer_workspace_and_of_newer_segments(tmp_path: Path) -> None:
    ran = at_once("doctor", "-w", thaw("repos-done", tmp_path))
    assert ran.code == 0 and "ok       formats" in ran.out
    segment = newer_segment(tmp_path / "archive")
    ran = at_once("doctor", "-w", tmp_path)
    assert ran.code == 1 and "bad      formats" in ran.out
    assert f"{segment} has format version 9; this version of trawlnet reads 1 to 2" in ran.out
    newer_workspace(tmp_path)
    ran = at_once("doctor", "-w", tmp_path)
    assert ran.code == 1 and "the workspace has format 2" in ran.out


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


def make_ledger_newer(folder: Path) -> None:
    with lmdb.open(str(folder), max_dbs=4) as environment:
        notes = environment.open_db(b"notes")
        with environment.begin(write=True, db=notes) as txn:
            (stored,) = [value for key, value in txn.cursor() if key == b"format"]
            txn.put(b"format", stored.replace(b"spans 1", b"spans 2"))


def test_a_newer_ledger_is_refused(tmp_path: Path) -> None:
    SpanFile(tmp_path).close()
    make_ledger_newer(tmp_path)
    for readonly in (False, True):
        with pytest.raises(StoreError, match="not a ledger of this version"):
            SpanFile(tmp_path, readonly=readonly)


def test_a_newer_ledger_is_refused_by_the_verbs_that_read_it(tmp_path: Path) -> None:
    folder = thaw("ids-killed-0.1.0", tmp_path)
    (ledger,) = {path.parent for path in folder.rglob("data.mdb")}
    make_ledger_newer(ledger)
    api = ("--base-url", "https://api.example", "--target", 5, "--key-variable", "none")
    crawl = ("crawl", *api, "--contact", "me@example.org")
    for words in (("status",), ("failures",), ("retry",), ("gaps",), ("missed",), crawl):
        ran = at_once("ids", words[0], "-w", folder, *words[1:])
        assert ran.code == 1, (words, ran)
        assert "not a ledger of this version" in ran.err, words


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


FOLDERS = {"registry": REGISTRY_STEPS, "scanned": SCANNED_STEPS, "instances": INSTANCE_STEPS}


def test_the_newest_schemas_are_those_of_the_steps() -> None:
    assert {name: len(steps) for name, steps in FOLDERS.items()} == NEWEST


@asynccontextmanager
async def made_newer(where: Path | str, folder: str) -> AsyncIterator[None]:
    """Others have the same server afterwards."""
    db = await open_relational(where)
    newer = "INSERT INTO schema_versions (folder, version) VALUES (:folder, 999)"
    await db.run(Statement("newer", newer), {"folder": folder})
    try:
        yield
    finally:
        await db.run(Statement("older", "DELETE FROM schema_versions WHERE version = 999"))
        await db.close()


def make_newer(where: Path, folder: str) -> None:
    with closing(sqlite3.connect(where)) as db, db:
        db.execute("INSERT INTO schema_versions (folder, version) VALUES (?, 999)", (folder,))


@pytest.mark.parametrize("folder", FOLDERS)
def test_newer_tables_are_refused(folder: str, where: Path | str) -> None:
    async def run() -> None:
        registry = await open_registry(where)
        await registry.db.close()
        async with made_newer(where, folder):
            for look in (open_registry, open_relational, account_counts, instance_figures):
                with pytest.raises(TablesError, match=f"of {folder} have schema version 999"):
                    await look(where)

    asyncio.run(run())


@pytest.mark.parametrize("folder", ["registry", "scanned"])
def test_newer_tables_are_refused_by_the_verbs_that_read_them(folder: str, tmp_path: Path) -> None:
    assert at_once("pds", "ban", "pds.example", "-w", tmp_path).code == 0
    make_newer(tmp_path / "state" / "pds" / "registry.db", folder)
    url = "https://pds.example"
    me = ("--contact", "me@example.org", "--relay", "wss://relay.nowhere.net")
    for words in (
        *(("status",), ("failures",), ("retry",), ("list",), ("bans",), ("report",)),
        *(("remove", url), ("unban", url), ("register", url), ("scan", url, *me[:2])),
        *(("discover", *me), ("crawl", *me), ("serve", "--port", 0, *me[:2])),
    ):
        ran = at_once("pds", words[0], "-w", tmp_path, *words[1:])
        assert ran.code == 1, (words, ran)
        assert f"the tables of {folder} have schema version 999" in ran.err, words
        assert "hint: use the newer trawlnet that made them" in ran.err


def test_newer_instances_are_refused_by_the_verbs_that_read_them(tmp_path: Path) -> None:
    folder = thaw("ids-killed-0.1.0", tmp_path)
    make_newer(folder / "state" / "ids" / "instances.db", "instances")
    for words in (("store", "--drain"), ("report", "-o", folder / "r.html")):
        # One process has one embedded ClickHouse: it cannot be the tests'.
        ran = run_alone("ids", words[0], "-w", folder, *words[1:])
        assert ran.code == 1, (words, ran)
        assert "the tables of instances have schema version 999" in ran.err, words


def newer_segment(archive: Path, name: str = "segment_0001.rca") -> Path:
    segment = archive / name
    data = bytearray(segment.read_bytes())
    header = rca.parse_header(data)
    data[: rca.HEADER_SIZE] = rca.encode_header(replace(header, version=9))
    segment.write_bytes(data)
    return segment


def of_archive(folder: Path) -> list[tuple[object, ...]]:
    """What reads or continues an archive."""
    archive, did = folder / "archive", ("--did", "did:plc:a")
    where = ("-w", folder, "--relay", "https://relay.example", "--contact", "me@example.org")
    fleet = ("--fleet", "local", "--archive", archive, "--store", "redis://127.0.0.1:1/0")
    return [
        ("repos", "tally", archive),
        ("repos", "verify", archive),
        ("repos", "verify", archive, "--proofs"),
        ("repos", "inspect", archive / "segment_0001.rca"),
        ("repos", "cat", archive, *did),
        ("repos", "car", archive, *did),
        ("repos", "compact", archive),
        ("repos", "compact", archive, "--dry-run"),
        ("repos", "report", archive, "-o", folder / "report.html"),
        ("repos", "status", "-w", folder),
        ("repos", "crawl", *where),
        ("repos", "crawl", *where, "--update"),
        ("repos", "crawl", *where, "--follow"),
        ("repos", "crawl", *where, *fleet),
        ("repos", "follow", *where),
        ("repos", "serve", "-w", folder, "--port", 0),
    ]


SUBJECTS = range(len(of_archive(Path())))


@pytest.mark.parametrize("number", SUBJECTS)
def test_a_newer_segment_is_named_and_left_as_it_is(number: int, tmp_path: Path) -> None:
    folder = thaw("repos-done", tmp_path)
    segment = newer_segment(folder / "archive")
    before = everything_in(folder / "archive")
    ran = at_once(*of_archive(folder)[number])
    assert ran.code == 1, ran
    assert f"{segment} has format version 9; this version of trawlnet reads 1 to 2" in ran.err
    assert "hint: use the version of trawlnet that made it" in ran.err
    assert everything_in(folder / "archive") == before


def test_a_newer_segment_is_not_replayed(tmp_path: Path) -> None:
    folder = thaw("repos-done", tmp_path)
    segment = newer_segment(folder / "archive")
    # One process has one embedded ClickHouse: it cannot be the tests'.
    ran = run_alone("repos", "replay", "-w", folder)
    assert ran.code == 1 and f"{segment} has format version 9" in ran.err


def test_a_newer_segment_is_refused_to_programs(tmp_path: Path) -> None:
    archive = thaw("repos-done", tmp_path) / "archive"
    opened = trawlnet.open_archive(archive)
    segment = newer_segment(archive)
    for read in (
        lambda: trawlnet.open_archive(archive),
        lambda: trawlnet.open_archive(segment),
        lambda: list(opened.repos()),
        lambda: list(opened.records(did="did:plc:a")),
    ):
        with pytest.raises(trawlnet.UnknownFormat, match="has format version 9"):
            read()


def test_a_newer_segment_beside_older_ones_stops_a_crawl_before_it_mends_anything(
    tmp_path: Path,
) -> None:
    folder = thaw("repos-killed-0.1.0", tmp_path)
    (torn,) = (folder / "archive").glob("*.rca")
    other = torn.with_name("segment_0002.rca")
    other.write_bytes(torn.read_bytes())
    torn.write_bytes(torn.read_bytes() + b"torn")
    newer_segment(folder / "archive", other.name)
    before = everything_in(folder / "archive")
    with pytest.raises(trawlnet.UnknownFormat):
        SegmentWriter(folder / "archive", lambda: 1.7e9)
    assert everything_in(folder / "archive") == before
