"""One contract for both places where tables can be: in the workspace, and on a server."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.clickhouse_front import ClickHouse, clickhouse_front
from trawlnet.tables.clickhouse import native, plc
from trawlnet.tables.clickhouse.open import STEPS, opened, opened_to_read
from trawlnet.tables.clickhouse.plc_rows import new_row
from trawlnet.tables.clickhouse.ports import Query, statement
from trawlnet.tables.clickhouse.server import ClickHouseServer
from trawlnet.tables.errors import TablesBusy, TablesError, TablesUnreachable
from trawlnet.tables.statements import statements

SQL = Path(__file__).parents[2] / "src" / "trawlnet" / "tables" / "sql"


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with clickhouse_front(tmp_path_factory.mktemp("clickhouse")) as server:
        yield server


@pytest.fixture(params=["chdb", "server"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | ClickHouseServer:
    if request.param == "chdb":
        return tmp_path / "tables"
    front = request.getfixturevalue("front")
    database = "db_" + "".join(c for c in tmp_path.name if c.isalnum())
    return ClickHouseServer(front.address, password=front.password, database=database)


ADD = Query("add", "INSERT INTO things (name, size, at)")
ALL = Query("all", "SELECT name, size, at FROM things ORDER BY name")
MAKE = Query(
    "make",
    "CREATE TABLE IF NOT EXISTS things (name String, size UInt64, at DateTime64(6, 'UTC')) "
    "ENGINE = ReplacingMergeTree(size) ORDER BY name",
)


def things(rows: list[tuple[str, int]]) -> bytes:
    columns = [
        native.texts("name", [name for name, _ in rows]),
        native.naturals("size", [size for _, size in rows]),
        native.instants("at", [1_700_000_000_000_001 for _ in rows]),
    ]
    return native.block(columns, len(rows))


@asynccontextmanager
async def with_things(where):
    async with opened(where) as tables:
        await tables.run(MAKE)
        yield tables


AWKWARD = [
    "",
    "it's",
    "back\\slash",
    "new\nline",
    "tab\tand\rreturn",
    "nul\0",
    "ünï 🙂",
    "x" * 20_000,
]


def test_what_is_inserted_is_there_to_the_letter_also_after_a_restart(where):
    rows = [(name, 2**64 - 1 - number) for number, name in enumerate(AWKWARD)]

    async def write():
        async with with_things(where) as tables:
            await tables.insert(ADD, things(rows))

    async def read():
        async with opened(where) as tables:
            return await tables.rows(ALL)

    asyncio.run(write())
    found = asyncio.run(read())
    expected = [[name, size, "2023-11-14 22:13:20.000001"] for name, size in sorted(rows)]
    assert sorted(found) == sorted(expected)


def test_a_parameter_comes_back_as_it_was(where):
    one = Query("one", "SELECT {value:String}, {values:Array(String)}, {n:UInt64}")

    async def test():
        async with opened(where) as tables:
            for value in AWKWARD:
                given = {"value": value, "values": [value, "'; --", value], "n": 7}
                assert await tables.rows(one, given) == [[value, [value, "'; --", value], 7]]

    asyncio.run(test())


def test_a_list_of_thousands_is_looked_up_at_once(where):
    async def test():
        async with with_things(where) as tables:
            names = [f"did:plc:{number:024}" for number in range(2000)]
            await tables.insert(ADD, things([(name, 1) for name in names]))
            known = Query("known", "SELECT count() FROM things WHERE name IN {names:Array(String)}")
            assert await tables.rows(known, {"names": [*names, "nobody"]}) == [[2000]]

    asyncio.run(test())


@pytest.mark.parametrize("others", [0, 2000, 8000, 9000])
def test_heads_are_looked_up_among_thousands(where, others):
    def state(did, cid, seq):
        return new_row(did, cid, "plc_operation", "", "", "", "", "", b"{}", False, seq, seq)

    async def test():
        async with opened(where) as tables:
            await plc.insert_states(tables, [state("did:a", "1", 1), state("did:b", "2", 2)])
            await plc.insert_states(tables, [state("did:a", "3", 3), state("did:c", "4", 4)])
            nobody = [f"did:plc:{number:024}" for number in range(others)]
            assert await plc.heads(tables, ["did:b", *nobody, "did:a"]) == {
                "did:a": "3",
                "did:b": "2",
            }
            assert await plc.heads(tables, nobody) == {}

    asyncio.run(test())


def test_repeats_are_left_out_of_somebodys_own_query(where):
    async def test():
        async with with_things(where) as tables:
            for size in (1, 2, 3):
                await tables.insert(ADD, things([("a", size), ("b", size)]))
            pieces = [one async for one in tables.stream(ALL.text, "TabSeparated")]
            lines = b"".join(pieces).decode().splitlines()
            assert [line.split("\t")[:2] for line in lines] == [["a", "3"], ["b", "3"]]

    asyncio.run(test())


def test_what_clickhouse_refuses_is_told_in_one_line(where):
    async def test():
        async with opened(where) as tables:
            with pytest.raises(TablesError) as wrong:
                await tables.rows(Query("wrong", "SELECT nonsense"))
            assert "nonsense" in wrong.value.message and "\n" not in wrong.value.message
            with pytest.raises(TablesError, match="nowhere"):
                await tables.insert(
                    Query("wrong", "INSERT INTO nowhere (name)"), things([("a", 1)])
                )
            with pytest.raises(TablesError):
                async for _ in tables.stream("SELECT * FROM nowhere", "TabSeparated"):
                    pass
            assert await tables.rows(Query("one", "SELECT 1")) == [[1]]

    asyncio.run(test())


def test_calls_may_overlap(where):
    async def test():
        async with with_things(where) as tables:
            adding = (tables.insert(ADD, things([(f"n{number}", 1)])) for number in range(12))
            asking = (tables.rows(Query("one", "SELECT 1")) for _ in range(12))
            await asyncio.gather(*adding, *asking)
            assert len(await tables.rows(ALL)) == 12

    asyncio.run(test())


def test_the_schema_is_made_once_and_a_newer_one_is_left_alone(where):
    async def test():
        for _ in range(2):
            async with opened(where) as tables:
                versions = Query("versions", "SELECT version FROM schema_version ORDER BY version")
                assert await tables.rows(versions) == [[n + 1] for n in range(len(STEPS))]
        async with opened(where) as tables:
            await tables.run(statement("note_schema_version"), {"version": 99})
        with pytest.raises(TablesError, match="schema version 99"):
            async with opened(where):
                pass
        with pytest.raises(TablesError, match="schema version 99"):
            async with opened_to_read(where):
                pass

    asyncio.run(test())


def test_a_second_process_is_told_who_has_the_embedded_tables(tmp_path):
    async def test():
        async with opened(tmp_path / "tables"):
            with pytest.raises(TablesBusy, match="in use by pid"):
                async with opened(tmp_path / "tables"):
                    pass

    asyncio.run(test())


def test_a_server_that_is_not_there_is_unreachable():
    async def test():
        with pytest.raises(TablesUnreachable, match="no ClickHouse server answers at"):
            async with opened(ClickHouseServer("127.0.0.1:1")):
                pass

    asyncio.run(test())


def test_a_wrong_password_is_said_without_showing_it(front):
    server = ClickHouseServer(front.address, password="sekret-guess")

    async def test():
        with pytest.raises(TablesUnreachable, match="refused the login") as wrong:
            async with opened(server):
                pass
        assert "sekret" not in wrong.value.message + wrong.value.hint
        assert "sekret" not in repr(server)

    asyncio.run(test())


@pytest.mark.parametrize("address", ["", "ftp://x", "http://", "host:99999", "host:port"])
def test_an_address_that_is_none_is_refused(address):
    async def test():
        with pytest.raises(TablesError):
            async with opened(ClickHouseServer(address)):
                pass

    asyncio.run(test())


def test_a_server_that_dies_in_between_is_unreachable(tmp_path):
    async def test():
        with clickhouse_front(tmp_path / "engine") as front:
            async with opened(ClickHouseServer(front.address, password=front.password)) as tables:
                front.process.send_signal(signal.SIGKILL)
                front.process.wait()
                with pytest.raises(TablesUnreachable):
                    await tables.rows(Query("one", "SELECT 1"))

    asyncio.run(test())


GROUPS = ("clickhouse", "registry", "scanned", "instances", "versions")


@pytest.mark.parametrize("group", GROUPS)
def test_every_statement_says_what_it_is_for(group):
    for name, text in statements(group).items():
        first, *rest = text.splitlines()
        assert first.startswith("-- ") and rest, name
        ends = [line for line in rest if line.rstrip().endswith(";")]
        assert ends == [], f"{name}: one statement under one name"


def test_every_file_of_statements_belongs_to_a_group():
    stems = {path.stem for path in SQL.glob("*.sql")}
    assert {stem.partition("_")[0] for stem in stems} == set(GROUPS)
    headers = sum(path.read_text().count("-- name: ") for path in SQL.glob("*.sql"))
    assert headers == sum(len(statements(group)) for group in GROUPS)
