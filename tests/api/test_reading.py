"""Archives, captures and tables, read by `import trawlnet` from what earlier code has written."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow
import pytest

import trawlnet
from tests.frozen.ice import thaw
from tests.support.program import trawlnet as run_trawlnet
from trawlnet.archive.tombstones import Tombstone, append_tombstones


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return thaw("repos-done", tmp_path_factory.mktemp("net"))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return thaw("repos-done", tmp_path) / "archive"


def test_an_archive_tells_what_the_commands_tell(net: Path) -> None:
    archive = trawlnet.open_archive(net / "archive")
    told = json.loads(run_trawlnet("repos", "tally", net / "archive", "--json").out)
    repos = list(archive.repos())
    assert len(repos) == told["repos"] > 20
    counts = Counter[str]()
    for repo in repos:
        counts.update(repo.collections)
    assert counts == {row["collection"]: row["records"] for row in told["collections"]}
    assert Counter(record.collection for record in archive.records()) == counts


def test_records_are_those_of_the_collections_and_the_did_that_are_asked_for(net: Path) -> None:
    archive = trawlnet.open_archive(str(net / "archive"))
    repo = max(archive.repos(), key=lambda repo: sum(repo.collections.values()))
    every = [record for record in archive.records() if record.did == repo.did]
    assert list(archive.records(did=repo.did)) == every
    posts = list(archive.records("app.bsky.feed.p*", did=repo.did))
    assert posts == [one for one in every if one.collection == "app.bsky.feed.post"] != []
    told = run_trawlnet("repos", "cat", net / "archive", "--did", repo.did).rows
    keys = ("collection", "rkey", "value")
    assert [[getattr(one, key) for key in keys] for one in every] == [
        [row[key] for key in keys] for row in told
    ]


def test_a_tombstone_hides_a_repository(archive: Path) -> None:
    first, *others = trawlnet.open_archive(archive).repos()
    at_us = int(first.crawled_at.timestamp() * 1e6) + 1_000_000
    append_tombstones(archive, [Tombstone(first.did, "takendown", at_us)])
    opened = trawlnet.open_archive(archive)
    assert list(opened.repos()) == others
    assert list(opened.records(did=first.did)) == []
    assert first.did not in {record.did for record in opened.records()}


def test_damage_is_told_and_the_rest_is_read(archive: Path) -> None:
    before = list(trawlnet.open_archive(archive).repos())
    (segment,) = archive.glob("*.rca")
    data = bytearray(segment.read_bytes())
    place = data.index(before[4].did.encode()) + 120
    data[place] ^= 0xFF
    segment.write_bytes(data)
    with pytest.warns(trawlnet.DamagedArchive, match=r"segment_0001\.rca@\d+: ") as told:
        dids = {record.did for record in trawlnet.open_archive(archive).records()}
    assert len(told) == 1
    assert dids == {repo.did for repo in before if repo.collections} - {before[4].did}


def test_where_there_is_no_archive_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(trawlnet.NoArchive, match="no segments"):
        trawlnet.open_archive(tmp_path)


def test_records_as_arrow(net: Path) -> None:
    archive = trawlnet.open_archive(net / "archive")
    table = archive.to_arrow("app.bsky.feed.*").read_all()
    assert table.column_names == ["did", "collection", "rkey", "json"]
    rows = [
        {**one._asdict(), "json": one.json.decode()} for one in archive.records("app.bsky.feed.*")
    ]
    assert table.to_pylist() == rows != []


def test_captures_with_their_bodies(tmp_path: Path) -> None:
    workspace = thaw("web-killed", tmp_path)
    captures = trawlnet.open_captures(workspace)
    lines = list(captures)
    assert [line.timestamp for line in lines] == sorted(line.timestamp for line in lines) != []
    bodies = [(line, body) for line in lines if (body := captures.body(line)) is not None]
    assert bodies
    assert all(len(body) == line.content_bytes for line, body in bodies if line.http_status == 200)
    table = captures.to_arrow().read_all()
    assert table.column("url").to_pylist() == [line.url for line in lines]
    assert table.schema.field("timestamp").type == pyarrow.timestamp("us", tz="UTC")
    Path(workspace / bodies[0][0].stored_path).unlink()
    with pytest.raises(FileNotFoundError):
        captures.body(bodies[0][0])


def test_where_there_are_no_captures_or_tables_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="trawlnet web crawl"):
        trawlnet.open_captures(tmp_path)
    with pytest.raises(FileNotFoundError, match="trawlnet repos replay"):
        next(trawlnet.query(tmp_path, "SELECT 1"))


def test_tables_answer_in_rows_and_in_arrow(net: Path) -> None:
    asked = "SELECT collection, count() AS n FROM repo_records GROUP BY 1 ORDER BY 1;"
    rows = list(trawlnet.query(net, asked))
    archive = trawlnet.open_archive(net / "archive")
    counts = Counter(record.collection for record in archive.records())
    assert rows == [{"collection": name, "n": counts[name]} for name in sorted(counts)]
    assert trawlnet.query_arrow(net, asked).read_all().to_pylist() == rows


def test_an_answer_of_many_pieces_is_one(net: Path) -> None:
    many = "SELECT number FROM numbers(200000) ORDER BY number"
    assert [row["number"] for row in trawlnet.query(net, many)] == list(range(200_000))
    assert trawlnet.query_arrow(net, many).read_all()["number"].to_pylist() == list(range(200_000))
    nothing = trawlnet.query_arrow(net, "SELECT number FROM numbers(5) WHERE 0")
    assert nothing.read_all().num_rows == 0


def test_tables_can_be_asked_inside_of_an_event_loop_and_left_half_way(net: Path) -> None:
    async def cell_of_a_notebook() -> list[dict[str, int]]:
        asking = trawlnet.query(net, "SELECT number FROM numbers(1000000)")
        first = next(asking)
        asking.close()  # type: ignore[attr-defined]  # It is a generator.
        return [first, *trawlnet.query(net, "SELECT 7 AS number")]

    assert asyncio.run(cell_of_a_notebook()) == [{"number": 0}, {"number": 7}]


def test_a_question_that_is_refused_says_why(net: Path) -> None:
    with pytest.raises(trawlnet.TablesError, match="nonsense"):
        list(trawlnet.query(net, "SELECT nonsense"))


WITHOUT_ARROW = """
import sys
sys.modules["pyarrow"] = None
import trawlnet
archive = trawlnet.open_archive(sys.argv[1])
print(sum(1 for _ in archive.records()) > 0)
try:
    archive.to_arrow()
except ImportError as error:
    print(error)
"""


def test_without_pyarrow_all_else_works_and_the_error_says_what_to_type(net: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_ARROW, net / "archive"],
        capture_output=True,
        text=True,
        check=True,
    )
    works, said = ran.stdout.splitlines()
    assert works == "True"
    assert said.endswith("pip install 'trawlnet[arrow]'")
