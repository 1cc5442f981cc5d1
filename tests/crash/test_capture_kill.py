"""SIGKILL for the content side of a web crawl: what was settled is there once and whole."""

from __future__ import annotations

import csv
import io
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import orjson
from warcio.archiveiterator import ArchiveIterator

from tests.crash import capture_roles as roles
from tests.crash.nursery import PATIENCE, nursery_of
from tests.support.long import times
from tests.support.web.captures import read_captures
from trawlnet.captures.blobs import read_blob
from trawlnet.captures.files import INDEX, LOG
from trawlnet.captures.page_index import PageIndex
from trawlnet.captures.replay import replay
from trawlnet.captures.rows import PAGE_COLUMNS

KILLS = times(15, 30)


def test_captures_survive_many_kills(tmp_path: Path) -> None:
    settled = torture(tmp_path)
    assert len(settled) > KILLS, "hardly anything was written: the kills came too early"
    check_log(tmp_path, settled)
    check_index(tmp_path, settled)
    check_pages_csv(tmp_path, settled)
    check_edges(tmp_path)
    check_warc(tmp_path)
    check_discoveries(tmp_path, settled)
    rows = page_rows(tmp_path)
    told = replay(tmp_path, "replayed")
    assert told.damaged == 0
    assert read_csv(tmp_path / "logs" / "pages-replayed.csv")[1:] == rows
    check_index(tmp_path, settled)


def torture(folder: Path) -> set[int]:
    dice = random.Random(4)
    with nursery_of("capture_roles", folder) as nursery:
        for kill in range(KILLS):
            before = roles.settled(folder)
            pid = nursery.start("crawl")
            if kill % 3:  # On a busy machine a process may not have got anywhere yet.
                wait_for_more(folder, before)
            time.sleep(dice.uniform(0.0, 0.06))
            assert nursery.kill(pid)
        assert nursery.wait(nursery.start("last")) == 0
    return roles.settled(folder)


def wait_for_more(folder: Path, before: set[int]) -> None:
    deadline = time.monotonic() + PATIENCE
    while roles.settled(folder) <= before:
        assert time.monotonic() < deadline, "nothing is written"
        time.sleep(0.002)


def check_log(folder: Path, settled: set[int]) -> None:
    """Each visit once: those that were done again brought the same, and were dropped."""
    logged = Counter(line.metadata["n"] for line in read_captures(folder / LOG))
    assert set(logged.values()) == {1}
    assert set(logged) == settled


def check_index(folder: Path, settled: set[int]) -> None:
    index = PageIndex(folder / INDEX, readonly=True)
    urls = {roles.url(n) for n in settled}
    assert {page.url for page in index.pages()} == urls
    for n in settled:
        if not roles.is_revisit(n):
            page = index.get(roles.url(n))
            assert page is not None
            assert read_blob(folder / page.stored_path) == roles.body(n)
            assert page.etag == f'"{n}"', "a 304 keeps the validators"
            assert page.http_status == (304 if n + roles.BACK in settled and n % 5 == 0 else 200)
    index.close()


def check_pages_csv(folder: Path, settled: set[int]) -> None:
    rows = page_rows(folder)
    assert Counter(orjson.loads(cleaned(row[16]))["n"] for row in rows) == Counter(settled)
    for row in rows:
        n = orjson.loads(cleaned(row[16]))["n"]
        assert row[:2] == [str(int(roles.START + n)), roles.url(n)]
        assert read_blob(folder / row[10]) == roles.body(roles.page(n))
        assert int(row[9]) == (0 if roles.is_revisit(n) else len(roles.body(n)))


def cleaned(metadata: str) -> str:
    return metadata.replace("\\udc80", "")  # A lone surrogate, which orjson does not read.


def page_rows(folder: Path) -> list[list[str]]:
    """Of all runs and parts, in order."""
    rows = []
    for path in sorted((folder / "logs").glob("pages-r*.csv"), key=lambda path: path.stem):
        header, *rest = read_csv(path)
        assert header == list(PAGE_COLUMNS)
        assert all(len(row) == 17 for row in rest)
        rows += rest
    return rows


def read_csv(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text(), newline="")))


def check_edges(folder: Path) -> None:
    edges = [row for path in (folder / "logs").glob("edges*.csv") for row in read_csv(path)[1:]]
    expected = [
        [line.url, link.to, link.text, str(line.depth), link.context]
        for line in read_captures(folder / LOG)
        for link in line.links
    ]
    assert sorted(edges) == sorted(expected)


def check_warc(folder: Path) -> None:
    files = sorted((folder / "warc").glob("*.warc.gz"))
    assert list((folder / "warc").glob("*.open")) == []
    subprocess.run([sys.executable, "-m", "warcio.cli", "check", *files], check=True)
    answers = {}
    for path in files:
        with path.open("rb") as stream:
            records = ArchiveIterator(stream)
            for record in records:
                place = path.name, records.get_record_offset()
                answers[place] = record.rec_type, record.rec_headers["WARC-Target-URI"]
    logged = list(read_captures(folder / LOG))
    for line in logged:
        assert line.warc
        kind = "revisit" if line.warc.revisit else "response"
        assert answers[line.warc.file, line.warc.offset] == (kind, line.url)
    hops = sum(len(line.hops) for line in logged)
    kinds = Counter(kind for kind, _ in answers.values())
    assert kinds["response"] + kinds["revisit"] == len(logged) + hops
    index = (folder / "warc" / "index.cdxj").read_bytes().splitlines()
    assert index == sorted(index)
    assert len(index) == len(set(index)) == len(logged)


def check_discoveries(folder: Path, settled: set[int]) -> None:
    told = Counter[str]()
    for path in (folder / "spool" / "discoveries").glob("discoveries-*.jsonl"):
        told.update(orjson.loads(line)["url"] for line in path.read_bytes().splitlines())
    assert set(told) == {roles.url(n) for n in settled if not roles.is_revisit(n)}
