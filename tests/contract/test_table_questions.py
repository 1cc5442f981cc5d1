"""Somebody's own questions to the tables: every kind of them, by every account that may read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
import zstandard

from tests.support.clickhouse_front import ClickHouse, clickhouse_front
from trawlnet.tables.clickhouse import native
from trawlnet.tables.clickhouse.chdb import is_answered_at_once, refusal
from trawlnet.tables.clickhouse.open import opened, opened_to_read
from trawlnet.tables.clickhouse.ports import Query, Tables
from trawlnet.tables.clickhouse.server import ClickHouseServer
from trawlnet.tables.errors import TablesError, TablesUnreachable

MAKE = Query(
    "make",
    "CREATE TABLE IF NOT EXISTS things (name String, size UInt64) "
    "ENGINE = ReplacingMergeTree(size) ORDER BY name",
)
ADD = Query("add", "INSERT INTO things (name, size)")


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with clickhouse_front(tmp_path_factory.mktemp("clickhouse")) as server:
        yield server


@pytest.fixture(scope="module")
def filled(front: ClickHouse) -> ClickHouseServer:
    server = ClickHouseServer(front.address, password=front.password, database="filled")
    asyncio.run(fill(server))
    return server


async def fill(where: Path | ClickHouseServer) -> None:
    """Three rows, of which one replaces another."""
    async with opened(where) as tables:
        await tables.run(MAKE)
        for size in (1, 2**53 + 1):
            names = ["a"] if size == 1 else ["a", "b"]
            columns = [native.texts("name", names), native.naturals("size", [size] * len(names))]
            await tables.insert(ADD, native.block(columns, len(names)))


def asked(where: Path | ClickHouseServer, sql: str, layout: str = "JSONEachRow") -> bytes:
    async def ask() -> bytes:
        async with opened_to_read(where) as tables:
            return await answer(tables, sql, layout)

    return asyncio.run(ask())


def rows(body: bytes) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in body.splitlines()]


QUESTIONS = {
    "SELECT name, size FROM things ORDER BY name": [
        {"name": "a", "size": 2**53 + 1},
        {"name": "b", "size": 2**53 + 1},
    ],
    "WITH 1 AS one SELECT one": [{"one": 1}],
    "-- a word before\nSELECT 1 AS one": [{"one": 1}],
    "SHOW TABLES LIKE 'things'": [{"name": "things"}],
    "/* INTO OUTFILE */ EXISTS TABLE things": [{"result": 1}],
}


async def answer(tables: Tables, sql: str, layout: str = "JSONEachRow") -> bytes:
    return b"".join([piece async for piece in tables.stream(sql, layout)])


async def answers(where: Path | ClickHouseServer) -> None:
    async with opened_to_read(where) as tables:
        for sql, expected in QUESTIONS.items():
            assert rows(await answer(tables, sql)) == expected, sql
        described = rows(await answer(tables, "DESCRIBE TABLE things"))
        assert [(row["name"], row["type"]) for row in described] == [
            ("name", "String"),
            ("size", "UInt64"),
        ]
        assert rows(await answer(tables, "desc things")) == described
        assert rows(await answer(tables, "EXPLAIN SELECT * FROM things"))
        assert b"CREATE TABLE" in await answer(tables, "SHOW CREATE TABLE things")
        shown = await answer(tables, "DESCRIBE TABLE things", "PrettyCompactMonoBlock")
        assert "┌" in shown.decode()
        with pytest.raises(TablesError, match="nothing_here") as caught:
            await answer(tables, "DESCRIBE TABLE nothing_here")
        assert "SHOW TABLES" in caught.value.hint


def test_every_kind_of_question_is_answered(tmp_path: Path, filled: ClickHouseServer) -> None:
    asyncio.run(fill(tmp_path / "tables"))
    asyncio.run(answers(tmp_path / "tables"))
    asyncio.run(answers(filled))


def test_embedded_tables_take_questions_only(tmp_path: Path) -> None:
    async def ask() -> None:
        await fill(tmp_path / "tables")
        async with opened_to_read(tmp_path / "tables") as tables:
            for sql in ("INSERT INTO things SELECT 'x', 1", "DROP TABLE things"):
                with pytest.raises(
                    TablesError, match="only queries that read are allowed: SELECT, "
                ):
                    await answer(tables, sql)
            counted = await answer(tables, "SELECT count() AS n FROM things")
            assert rows(counted) == [{"n": 2}]

    asyncio.run(ask())


def test_a_file_that_a_question_writes_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parquet = tmp_path / "all.parquet"
    write = "SELECT number, 'x' AS name FROM numbers(100000) INTO OUTFILE '{}' FORMAT {}"

    async def ask() -> None:
        async with opened_to_read(tmp_path / "tables") as tables:
            assert await answer(tables, write.format(parquet, "Parquet")) == b""
            body = parquet.read_bytes()
            assert body[:4] == body[-4:] == b"PAR1"
            await answer(tables, write.format("all.csv.zst", "CSV"))  # Where we are.
            with zstandard.open("all.csv.zst", "rb") as file:
                assert file.read().count(b"\n") == 100_000
            with pytest.raises(TablesError, match="exists"):
                await answer(tables, write.format("all.csv.zst", "CSV"))
        counted = Query("count", f"SELECT count() FROM file('{parquet}', Parquet)")
        async with opened(tmp_path / "tables") as tables:
            assert await tables.rows(counted) == [[100_000]]

    asyncio.run(ask())


OUTSIDE = (
    "SELECT * FROM file('{}', LineAsString)",
    "SELECT file('{}')",
    "SELECT arrayMap(x -> \"file\" (x), ['{}'])",
    "SELECT file /* a word */ ('{}')",
    r"SELECT `\x66ile`('{}')",
    "SELECT * FROM `{}`",
    "SELECT * FROM url('http://127.0.0.1:9/', CSV, 'a String')",
    "SELECT * FROM s3('http://127.0.0.1:9/bucket/x', CSV, 'a String')",
    "SELECT * FROM remote('127.0.0.1', 'system', 'one')",
    "SELECT * FROM executable('x.sh', CSV, 'a String')",
    "SELECT 1 INTO OUTFILE '{}' TRUNCATE FORMAT CSV",
    "SELECT 1 INTO OUTFILE '{}' AND STDOUT APPEND FORMAT CSV",
    "SELECT 1 SETTINGS readonly = 0",
)


def test_a_pasted_statement_does_not_leave_the_embedded_tables(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")

    async def ask() -> None:
        await fill(tmp_path / "tables")
        async with opened_to_read(tmp_path / "tables") as tables:
            for sql in OUTSIDE:
                with pytest.raises(TablesError) as caught:
                    await answer(tables, sql.replace("{}", str(secret)))
                assert "secret\n" not in caught.value.message
                told = caught.value.message + caught.value.hint
                assert "query refused" in told or "these tables alone" in told, (sql, told)
            # A column may have any name.
            named = "SELECT name AS file, 'file(x)' AS other FROM things ORDER BY (file) LIMIT 1"
            assert rows(await answer(tables, named)) == [{"file": "a", "other": "file(x)"}]
            with pytest.raises(TablesError, match="these tables alone"):
                await answer(tables, "EXPLAIN SELECT 1; SET readonly = 0")
        assert secret.read_text() == "a secret\n"

    asyncio.run(ask())


@pytest.mark.parametrize("sql", ["SELECT profile(1)", "SELECT 'OUTFILE TRUNCATE'", "SELECT `a b`"])
def test_words_that_only_look_alike_are_asked(sql: str) -> None:
    assert not refusal(sql)


@pytest.mark.parametrize(
    ("sql", "at_once"),
    [
        ("SELECT 1", False),
        ("", False),
        ("-- nothing", False),
        ("describe x", True),
        ("  \n# a\n/* b */ SHOW TABLES", True),
        ("SELECT 1 into\n outfile 'x'", True),
        ("SELECT 'INTO OUTFILE'", False),
        ("SELECT '\\' INTO OUTFILE '", False),
        ('SELECT "INTO OUTFILE"', False),
        ("SELECT `INTO OUTFILE`", False),
        ("SELECT 1 -- INTO OUTFILE x", False),
        ("SELECT into_outfile, INTO OUTFILES", False),
        ("SHOWN", False),
    ],
)
def test_which_questions_are_answered_at_once(sql: str, at_once: bool) -> None:
    assert is_answered_at_once(sql) is at_once


# Accounts that may only read.


def test_an_account_that_may_only_read_can_ask(filled: ClickHouseServer) -> None:
    asyncio.run(answers(replace(filled, username="reader")))


def test_an_account_that_may_not_even_change_settings_can_ask(filled: ClickHouseServer) -> None:
    strict = replace(filled, username="strict")
    assert rows(asked(strict, "SELECT name FROM things FINAL ORDER BY name")) == [
        {"name": "a"},
        {"name": "b"},
    ]
    assert rows(asked(strict, "DESCRIBE TABLE things"))


def test_what_an_account_lacks_is_said(filled: ClickHouseServer) -> None:
    async def open_to_write() -> None:
        async with opened(replace(filled, username="reader")):
            pass

    with pytest.raises(TablesError, match="Not enough privileges") as caught:
        asyncio.run(open_to_write())
    assert (
        caught.value.hint == "grant the account what it lacks; to `repos query`, it need only read"
    )


def test_asking_makes_no_database(filled: ClickHouseServer) -> None:
    with pytest.raises(TablesError) as caught:
        asked(replace(filled, database="elsewhere"), "SELECT 1")
    assert "--clickhouse-database" in caught.value.hint
    assert b"elsewhere" not in asked(filled, "SHOW DATABASES")


# What is no ClickHouse server, or not one that will do.


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    class Odd(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"<html>not found"),
        (200, b"<html>hello"),
        (400, b"Port 9000 is for clickhouse-client program\r\nYou must use port 8123 for HTTP."),
    ],
)
def test_what_is_no_clickhouse_server_is_said_to_be_none(status: int, body: bytes) -> None:
    with (
        answering(status, body) as address,
        pytest.raises(TablesUnreachable, match=f"at {address} is not ClickHouse") as caught,
    ):
        asked(ClickHouseServer(address), "SELECT 1")
    assert "8123" in caught.value.hint and "assword" not in caught.value.hint


@pytest.mark.slow
def test_a_server_that_is_too_old_is_said_to_be(
    filled: ClickHouseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import clickhouse_connect

    connect = clickhouse_connect.get_client

    def old(**arguments: object) -> object:
        client = connect(**arguments)
        client.server_settings.pop("final")
        client.server_version = "21.8.15.7"
        return client

    monkeypatch.setattr(clickhouse_connect, "get_client", old)
    with pytest.raises(TablesError, match=r"is too old: version 21\.8\.15\.7 does not") as caught:
        asked(filled, "SELECT 1")
    assert caught.value.hint.startswith("update it")
