"""Captures written to a workspace: what lies where, what is known of a URL, what is made again."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support import child
from tests.support.web.captures import open_discoveries, read_captures
from trawlnet.captures import derived
from trawlnet.captures import files as capture_files
from trawlnet.captures.capture import Capture, CapturedLink
from trawlnet.captures.files import INDEX, LOG, CaptureFiles, CaptureOptions
from trawlnet.captures.line import CaptureLine, pack, unpack
from trawlnet.captures.page_index import Checkpoint, PageIndex, Scopes
from trawlnet.captures.replay import replay
from trawlnet.captures.rows import PAGE_COLUMNS, csv_bytes, edge_rows, page_rows
from trawlnet.captures.sink import CaptureSink
from trawlnet.engine.task import Task
from trawlnet.storage import files
from trawlnet.storage.errors import SinkBusy, SinkError

URL = "https://site.test/a?b=1"
BODY = b"<p>hello</p>"
SHA256 = hashlib.sha256(BODY).hexdigest()
PAGE = Capture(
    1_700_000_000.25,
    URL,
    200,
    BODY,
    page_type="doc",
    depth=2,
    referrer="https://site.test/",
    content_type="text/html; charset=utf-8",
    encoding="utf-8",
    etag='"one"',
    last_modified="Tue, 14 Nov 2023 22:13:20 GMT",
    fetch_latency_ms=12.3456,
    retries=1,
    proxy_id="p1",
    metadata={"title": "A, B"},
)
UNCHANGED = Capture(1_700_000_100.0, URL, 304, page_type="doc", depth=2)


def put(workspace: Path, *captures: Capture, run: str = "one", **options: Any) -> None:
    """One batch, by a process that ends well."""
    files = CaptureFiles(workspace, CaptureOptions(run, **options))
    files.write([(Task(c.url, "site.test", due=c.timestamp), c) for c in captures])
    files.close()


def rows(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text(), newline="")))


def all_rows(workspace: Path) -> list[list[str]]:
    paths = sorted((workspace / "logs").glob("pages-*.csv"), key=lambda path: path.stem)
    return [row for path in paths for row in rows(path)[1:]]


def test_a_page_is_a_row_of_seventeen_columns(tmp_path: Path) -> None:
    put(tmp_path, PAGE)
    header, row = rows(tmp_path / "logs" / "pages-one.csv")
    assert ",".join(header) == (
        "timestamp,url,page_type,depth,referrer,http_status,content_type,encoding,content_sha256,"
        "content_bytes,stored_path,etag,last_modified,fetch_latency_ms,retries,proxy_id,metadata"
    )
    assert row == [
        "1700000000",
        URL,
        "doc",
        "2",
        "https://site.test/",
        "200",
        "text/html; charset=utf-8",
        "utf-8",
        SHA256,
        "12",
        f"store/html/{SHA256[:2]}/{SHA256[2:4]}/{SHA256}.html",
        '"one"',
        "Tue, 14 Nov 2023 22:13:20 GMT",
        "12.346",
        "1",
        "p1",
        '{"title":"A, B"}',
    ]
    assert (tmp_path / row[10]).read_bytes() == BODY


def test_a_compressed_body_is_named_so(tmp_path: Path) -> None:
    put(tmp_path, PAGE, zstd_level=3)
    [row] = all_rows(tmp_path)
    assert row[10].endswith(f"{SHA256}.html.zst")
    assert (tmp_path / row[10]).stat().st_size > 0
    assert replay(tmp_path, "again").damaged == 0


def test_files_go_where_the_options_say(tmp_path: Path) -> None:
    put(
        tmp_path,
        replace(PAGE, links=[CapturedLink("https://site.test/to", "text")]),
        html_folder="bodies",
        permissions=0o666,
        pages_csv="tables/p.csv",
        edges_csv="tables/e.csv",
    )
    [row] = rows(tmp_path / "tables" / "p.csv")[1:]
    assert row[10].startswith("bodies/")
    assert (tmp_path / row[10]).stat().st_mode & 0o777 == 0o666
    assert rows(tmp_path / "tables" / "e.csv") == [
        ["from", "to", "text", "depth", "context"],
        [URL, "https://site.test/to", "text", "2", ""],
    ]


def test_an_unchanged_page_keeps_its_content_and_validators(tmp_path: Path) -> None:
    put(tmp_path, PAGE)
    put(tmp_path, replace(UNCHANGED, revisit_in=7200.0), run="two")
    before, after = all_rows(tmp_path)
    assert after[5] == "304"
    assert after[8:13] == [SHA256, "0", *before[10:13]]
    index = PageIndex(tmp_path / INDEX, readonly=True)
    page = index.get(URL)
    assert page is not None
    assert (page.sha256, page.stored_path, page.revisit_in) == (SHA256, before[10], 7200.0)
    assert page.timestamp == UNCHANGED.timestamp
    assert page.changed_at == PAGE.timestamp
    assert page.validators == {"If-None-Match": '"one"', "If-Modified-Since": PAGE.last_modified}
    assert index.get("https://site.test/other") is None
    index.close()


def test_what_has_no_content_asks_no_conditional_question(tmp_path: Path) -> None:
    put(tmp_path, Capture(1.0, URL, 200, None, content_type="image/png", etag='"x"'))
    index = PageIndex(tmp_path / INDEX, readonly=True)
    page = index.get(URL)
    assert page is not None
    assert (page.validators, page.stored_path, page.sha256) == ({}, "", "")
    index.close()
    assert list((tmp_path / "store").rglob("*.html")) == []


def test_the_same_content_is_stored_once(tmp_path: Path) -> None:
    other = replace(PAGE, url="https://site.test/b")
    put(tmp_path, PAGE, other)
    put(tmp_path, replace(other, timestamp=2e9), run="two")
    assert len(list((tmp_path / "store").rglob("*.html"))) == 1
    assert [row[8] for row in all_rows(tmp_path)] == [SHA256] * 3


def test_a_url_longer_than_any_key_is_indexed(tmp_path: Path) -> None:
    long = replace(PAGE, url="https://site.test/" + "x" * 5_000)
    put(tmp_path, long)
    index = PageIndex(tmp_path / INDEX, readonly=True)
    page = index.get(long.url)
    assert page is not None and page.url == long.url
    index.close()


def test_lookups_see_a_capture_as_soon_as_it_is_written_and_until_it_is_committed(
    tmp_path: Path,
) -> None:
    files = CaptureFiles(tmp_path, CaptureOptions("one", checkpoint_captures=10**6))
    files.write([(Task(URL, "l"), replace(PAGE, simhash=0b1111))])
    assert files.pages.get(URL) is not None
    assert files.pages.near(0b1000, 3, besides="elsewhere")
    assert not files.pages.near(0b0000, 3, besides="elsewhere")
    assert not files.pages.near(0b1111, 3, besides=URL), "a page is no duplicate of itself"
    files.close()


def test_discoveries_have_the_fields_of_the_spool(tmp_path: Path) -> None:
    async def run() -> None:
        queue = await open_discoveries(tmp_path)
        sink = await CaptureSink.open(tmp_path, CaptureOptions("one"), queue)
        silent = replace(PAGE, url="https://site.test/silent", discover=False)
        batch = [(Task(c.url, "l"), [c]) for c in (PAGE, silent)]
        await sink.write([*batch, (Task("none", "l"), [])])
        await sink.write([(Task(URL, "l", due=5.0), [UNCHANGED])])
        await sink.write([])
        assert sink.counts["pages_saved"] == 2
        assert sink.counts["bytes_saved"] == 2 * len(BODY)
        assert sink.counts["not_modified_304"] == 1
        page = sink.pages.get(URL)
        assert page and await sink.body(page.stored_path) == BODY
        await sink.close()
        await queue.close()

    asyncio.run(run())
    [path] = (tmp_path / "spool" / "discoveries").glob("discoveries-*.jsonl")
    [line] = path.read_bytes().splitlines()
    assert orjson.loads(line) == {
        "url": URL,
        "page_type": "doc",
        "depth": 2,
        "referrer": "https://site.test/",
        "metadata": {"status_code": 200, "content_length": 12, "latency_ms": 12.346},
    }


def test_one_process_at_a_time(tmp_path: Path) -> None:
    files = CaptureFiles(tmp_path, CaptureOptions("one"))
    with pytest.raises(SinkBusy):
        CaptureFiles(tmp_path, CaptureOptions("two"))
    files.close()


@pytest.mark.parametrize("run", ["", "../up", "a/b", ".hidden", "a b"])
def test_a_run_must_be_fit_for_file_names(run: str) -> None:
    with pytest.raises(ValueError, match="expected letters"):
        CaptureOptions(run)


# Being killed: what is on disk then is copied away, and opened as the next process would.


def killed(
    workspace: Path, copy: Path, batches: Sequence[Sequence[Capture]], **options: Any
) -> None:
    files = CaptureFiles(workspace, CaptureOptions("one", checkpoint_every=1e9, **options))
    for batch in batches:
        files.write([(Task(c.url, "l"), c) for c in batch])
    shutil.copytree(workspace, copy)
    files.close()


def numbered(n: int) -> Capture:
    return replace(PAGE, timestamp=PAGE.timestamp + n, url=f"https://site.test/{n}", body=b"%d" % n)


def test_a_visit_done_again_after_a_kill_is_kept_once(tmp_path: Path) -> None:
    after = tmp_path / "after"
    killed(tmp_path / "before", after, [[numbered(1)], [numbered(2), numbered(3)]])
    files = CaptureFiles(after, CaptureOptions("two"))
    again = replace(numbered(3), timestamp=2e9)
    other = replace(numbered(2), timestamp=2e9, body=b"another")
    new = files.write([(Task(c.url, "l"), c) for c in (again, other)])
    assert new == [other], "what brought something else was seen, too"
    files.close()
    assert [row[1][-1] for row in all_rows(after)] == ["1", "2", "3", "2"]


def test_after_a_clean_end_the_same_answer_is_a_visit_of_its_own(tmp_path: Path) -> None:
    for run in ("one", "two"):
        files = CaptureFiles(tmp_path, CaptureOptions(run))
        files.write([(Task(URL, "l"), PAGE)])
        files.close()
    assert len(all_rows(tmp_path)) == 2


def test_another_producers_visit_is_another_visit(tmp_path: Path) -> None:
    after = tmp_path / "after"
    killed(tmp_path / "before", after, [[PAGE]])
    files = CaptureFiles(after, CaptureOptions("two", producer="scrape"))
    assert files.write([(Task(URL, "l"), PAGE)]) == [PAGE]
    files.close()


@pytest.mark.parametrize("torn", [b"", b'{"batch":9,"url":"ht', b"1700000009,ht"])
def test_torn_tails_are_cut_and_lost_rows_written_again(tmp_path: Path, torn: bytes) -> None:
    after = tmp_path / "after"
    batches = [[numbered(n)] for n in range(5)]
    killed(tmp_path / "before", after, batches, checkpoint_captures=3)
    csv_path = after / "logs" / "pages-one.csv"
    with (after / LOG / "captures-000000000001.jsonl").open("ab") as log:
        log.write(torn)
    with csv_path.open("ab") as pages:
        pages.write(torn)
    put(after, numbered(5), run="two")
    assert [row[1][-1] for row in all_rows(after)] == list("012345")
    assert all(len(row) == 17 for row in rows(csv_path))


def test_parts_begun_after_the_last_checkpoint_are_made_again(tmp_path: Path) -> None:
    after = tmp_path / "after"
    linked = [replace(numbered(n), links=[CapturedLink(URL, str(n))]) for n in range(8)]
    killed(tmp_path / "before", after, [[one] for one in linked], csv_bytes=300)
    assert len(list((after / "logs").glob("pages-one*"))) > 2
    put(after, replace(numbered(8), links=[CapturedLink(URL, "8")]), run="two", csv_bytes=1 << 20)
    assert [row[1][-1] for row in all_rows(after)] == list("012345678")
    edges = [row for path in (after / "logs").glob("edges*") for row in rows(path)[1:]]
    assert sorted(row[2] for row in edges) == list("012345678")


def test_an_index_that_was_removed_is_made_again(tmp_path: Path) -> None:
    put(tmp_path, PAGE, warc=True)
    shutil.rmtree(tmp_path / INDEX)
    shutil.rmtree(tmp_path / "warc")
    (tmp_path / "warc").mkdir()
    put(tmp_path, numbered(1), run="two")
    index = PageIndex(tmp_path / INDEX, readonly=True)
    assert {page.url for page in index.pages()} == {URL, "https://site.test/1"}
    index.close()
    assert b"test,site)/a?b=1 " in (tmp_path / "warc" / "index.cdxj").read_bytes()


def test_a_pages_file_that_was_taken_away_does_not_stop_the_next_run(tmp_path: Path) -> None:
    put(tmp_path, PAGE)
    (tmp_path / "logs" / "pages-one.csv").unlink()
    put(tmp_path, numbered(1))
    assert [row[1] for row in all_rows(tmp_path)] == ["https://site.test/1"]


def test_a_damaged_line_of_the_log_is_named(tmp_path: Path) -> None:
    put(tmp_path, PAGE)
    path = tmp_path / LOG / "captures-000000000001.jsonl"
    path.write_bytes(b"[]\n" + path.read_bytes())
    with pytest.raises(SinkError, match=r"captures-000000000001.jsonl@0: not a line"):
        list(read_captures(tmp_path / LOG))


def test_a_failing_disk_leaves_what_was_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CaptureFiles(tmp_path, CaptureOptions("one", warc=True))
    files.write([(Task("1", "l"), numbered(1))])

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(capture_files.Derived, "add", full)
        with pytest.raises(SinkError, match="No space left"):
            files.write([(Task("2", "l"), numbered(2))])
    files.close()
    put(tmp_path, numbered(3), run="two", warc=True)
    assert [row[1][-1] for row in all_rows(tmp_path)] == ["1", "2", "3"]


@pytest.mark.parametrize("written", [0, 10])
def test_a_kill_at_the_header_leaves_no_table_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """A run that is killed then has no successor of its name that would write it again."""

    class Killed(BaseException): ...

    def dies(fd: int, data: bytes) -> None:
        os.write(fd, data[:written])
        raise Killed

    put(tmp_path, numbered(1), run="one")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        for module in (files, derived):
            patch.setattr(module, "write_all", dies)
        CaptureFiles(tmp_path, CaptureOptions("two"))
    put(tmp_path, numbered(2), run="three")
    tables = list((tmp_path / "logs").glob("pages-*.csv"))
    assert [rows(path)[0] for path in tables] == [list(PAGE_COLUMNS)] * 2
    assert [row[1][-1] for row in all_rows(tmp_path)] == ["1", "2"]


def test_rows_are_spread_over_parts_of_a_bounded_size(tmp_path: Path) -> None:
    for n in range(10):
        put(
            tmp_path,
            replace(numbered(n), links=[CapturedLink(URL, "text")]),
            csv_bytes=700,
            log_bytes=900,
        )
    parts = sorted((tmp_path / "logs").glob("pages-one*.csv"))
    assert [path.name for path in parts][:2] == ["pages-one.csv", "pages-one.part0002.csv"]
    assert [row[1][-1] for row in all_rows(tmp_path)] == list("0123456789")
    assert all(rows(path)[0] == list(PAGE_COLUMNS) for path in parts)
    assert len(list((tmp_path / LOG).iterdir())) > 2


def test_replay_restores_every_row_and_the_index(tmp_path: Path) -> None:
    put(tmp_path, PAGE, numbered(1))
    put(tmp_path, UNCHANGED, numbered(2), run="two", zstd_level=3)
    original = all_rows(tmp_path)
    index = PageIndex(tmp_path / INDEX, readonly=True)
    pages = sorted(index.pages(), key=lambda page: page.url)
    index.close()
    told = replay(tmp_path, "zz")
    assert (told.captures, told.pages, told.damaged) == (4, 3, 0)
    assert rows(tmp_path / "logs" / "pages-zz.csv")[1:] == original
    index = PageIndex(tmp_path / INDEX, readonly=True)
    assert sorted(index.pages(), key=lambda page: page.url) == pages
    index.close()


def test_replay_tells_which_bodies_are_missing_or_damaged(tmp_path: Path) -> None:
    put(tmp_path, numbered(1), numbered(2), numbered(3))
    paths = [tmp_path / row[10] for row in all_rows(tmp_path)]
    paths[0].unlink()
    paths[1].write_bytes(b"x")
    told = replay(tmp_path, "zz")
    assert [(damage.path, damage.what) for damage in told.damage] == [
        (paths[0], "is not there"),
        (paths[1], "content does not match its name (1 bytes)"),
    ]


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_any_text_comes_back_from_csv(table: list[tuple[str, str]]) -> None:
    read = csv.reader(io.StringIO(csv_bytes(table).decode(), newline=""))
    assert [tuple(row) for row in read] == table


CELL = st.text("ab %;\t\N{WHITE SUN WITH RAYS}", max_size=5) | st.text(
    st.sampled_from('a ,"\r\n\0\udcff'), max_size=3
)


@pytest.mark.slow
@given(CELL, st.lists(st.builds(CapturedLink, CELL, CELL, CELL), max_size=3))
@settings(max_examples=300)
def test_edges_are_written_as_the_csv_module_would(url: str, links: list[CapturedLink]) -> None:
    line = CaptureLine(1, "r", "v", 0.0, url, 200, depth=3, links=links)
    expected = [(url, link.to, link.text, 3, link.context) for link in links]
    assert edge_rows([line]) == csv_bytes(expected)


FORMULAS = ["=1+1", "+1", "-1", "@A1", "\t=1", "\r=1", "\n=1", " =1", '"=1', "'=1", "\uff1d1"]


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_is_data_unless_spreadsheets_must_be_safe(formula: str) -> None:
    line = CaptureLine(
        1,
        "r",
        "v",
        0.0,
        "http://a/",
        200,
        etag=formula,
        links=[CapturedLink("http://b/", formula, formula)],
    )
    for rows in (page_rows, edge_rows):
        for is_safe in (False, True):
            text = rows([line], is_safe).decode()
            cells = next(csv.reader(io.StringIO(text, newline="")))
            found = [cell for cell in cells if cell.endswith(formula)]
            assert set(found) == {f"'{formula}" if is_safe else formula}


def test_what_is_no_formula_is_the_same_in_a_safe_table() -> None:
    line = CaptureLine(
        1, "r", "v", 0.0, "http://a/?x=1", 200, links=[CapturedLink("b", "a=b", "c")]
    )
    assert edge_rows([line], True) == edge_rows([line], False)
    assert page_rows([line], True) == page_rows([line], False)


VALUE = CELL | st.none() | st.integers() | st.floats()


@given(st.lists(st.lists(VALUE, min_size=2, max_size=4), max_size=3))
def test_any_table_is_written_as_the_csv_module_would(table: list[list[Any]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(table)
    expected = text.getvalue().replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert csv_bytes(table) == expected.encode("utf-8", "replace")


def test_formulas_stay_and_nul_goes() -> None:
    assert (
        csv_bytes([["=cmd|' /C calc'!A0", "a\0b", "\udcff"]])
        == "=cmd|' /C calc'!A0,a�b,?\r\n".encode()
    )


@given(
    url=st.text(max_size=50),
    etag=st.text(st.characters(exclude_categories=()), max_size=20),
    metadata=st.dictionaries(TEXT, st.none() | st.integers(-(2**53), 2**53) | TEXT, max_size=3),
    links=st.lists(st.builds(CapturedLink, TEXT, TEXT, TEXT), max_size=3),
    depth=st.integers(0, 9),
    simhash=st.none() | st.integers(0, 2**64 - 1),
)
@settings(max_examples=60)
def test_any_line_of_the_log_comes_back(**fields: Any) -> None:
    line = CaptureLine(1, "run", "visit", 1.5, http_status=200, **fields)
    raw = pack(line)
    assert raw.count(b"\n") == 1
    assert unpack(raw, "here") == line


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_captures(tmp_path: Path) -> None:
    files = CaptureFiles(tmp_path, CaptureOptions("one", warc=True, checkpoint_captures=50))
    try:
        peaks = []
        tracemalloc.start()
        for first in range(0, 1_200, 50):
            batch = [replace(numbered(n), simhash=n * 2**40 + n) for n in range(first, first + 50)]
            files.write([(Task(c.url, "l"), c) for c in batch])
            peaks.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert peaks[-1] < peaks[5] + 200_000
        assert files.pages.uncommitted == 0
    finally:
        files.close()


def test_the_index_counts_each_page_once_in_its_scopes_and_anew_under_other_rules(
    tmp_path: Path,
) -> None:
    def answer(url: str, status: int) -> CaptureLine:
        return CaptureLine(1, "r", "v", 1.0, url, status, page_type="page")

    def first_letter(url: str, page_type: str) -> list[bytes]:
        return [url[0].encode()]

    def counted(index: PageIndex) -> tuple[int, ...]:
        return tuple(index.count_in(scope) for scope in (b"a", b"b", b"all"))

    index = PageIndex(tmp_path, scopes=Scopes("letters", first_letter))
    index.apply([answer("a1", 200), answer("a1", 200), answer("a2", 301), answer("b1", 404)])
    assert counted(index) == (1, 0, 0)
    index.commit(Checkpoint())
    index.apply([answer("a2", 200), answer("a1", 304), answer("b1", 203)])
    assert counted(index) == (2, 1, 0)
    index.commit(Checkpoint())
    index.close()
    for rules, of, expected in (
        ("letters", first_letter, (2, 1, 0)),
        ("all", lambda url, page_type: [b"all"], (0, 0, 3)),
    ):
        index = PageIndex(tmp_path, scopes=Scopes(rules, of))
        assert counted(index) == expected
        index.close()


OTHER = """
import sys
from pathlib import Path
from tests.unit.test_captures import PAGE, BY_HOST, numbered, put
put(Path(sys.argv[1]), numbered(1), PAGE, run="two", producer="scrape", scopes=BY_HOST)
"""
BY_HOST = Scopes("by host", lambda url, page_type: [b"site"])


def test_a_crawl_and_a_scrape_at_once_share_an_index(tmp_path: Path) -> None:
    files = CaptureFiles(tmp_path, CaptureOptions("one", scopes=BY_HOST, checkpoint_every=1e12))
    late = replace(numbered(1), timestamp=2e9)
    files.write([(Task(one.url, "l"), one) for one in (late, numbered(2))])
    assert files.pages.get(URL) is None
    command = [sys.executable, "-c", OTHER, str(tmp_path)]
    subprocess.run(command, env=child.environment(), check=True)
    assert files.pages.get(URL) is not None, "what the other has committed is seen"
    files.close()
    index = PageIndex(tmp_path / INDEX, readonly=True)
    assert {page.url for page in index.pages()} == {URL, late.url, numbered(2).url}
    assert index.count_in(b"site") == 3, "a page that both have fetched is one"
    assert index.get(late.url).changed_at == numbered(1).timestamp  # type: ignore[union-attr]
    index.close()
    assert len(rows(tmp_path / "logs" / "pages-one.csv")) == 1 + 2
    assert len(rows(tmp_path / "logs" / "pages-two-scrape.csv")) == 1 + 2


def test_one_scrape_at_a_time_and_none_during_a_replay(tmp_path: Path) -> None:
    scrape = CaptureFiles(tmp_path, CaptureOptions("one", producer="scrape"))
    for producer in ("scrape", "replay"):
        with pytest.raises(SinkBusy):
            CaptureFiles(tmp_path, CaptureOptions("two", producer=producer))
    scrape.close()


def test_an_index_that_was_removed_is_made_again_from_both_logs_by_time(tmp_path: Path) -> None:
    put(tmp_path, numbered(3), replace(numbered(1), timestamp=2e9, http_status=404, body=None))
    put(tmp_path, numbered(1), numbered(2), run="two", producer="scrape")
    shutil.rmtree(tmp_path / INDEX)
    put(tmp_path, numbered(4), run="three", producer="scrape")
    index = PageIndex(tmp_path / INDEX, readonly=True)
    assert {page.url[-1]: page.http_status for page in index.pages()} == {
        "1": 404,
        "2": 200,
        "3": 200,
        "4": 200,
    }
    index.close()
    told = replay(tmp_path, "all")
    assert told.captures == 5 and told.pages == 4 and told.damaged == 0


def test_a_scrape_done_again_is_known_as_far_back_as_a_bookmark_may_be(tmp_path: Path) -> None:
    for run in ("one", "two"):
        options = CaptureOptions(run, producer="scrape", log_bytes=500)
        files = CaptureFiles(tmp_path, options)
        new = [files.write([(Task(f"{URL}#{n}", "l"), numbered(n))]) for n in range(30)]
        assert new == ([[numbered(n)] for n in range(30)] if run == "one" else [[]] * 30)
        files.close()
    assert len(all_rows(tmp_path)) == 30
