"""Captures of many machines in one archive: what was settled counts, once, and can be read back."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from trawlnet.captures.capture import Capture, CapturedLink, Hop
from trawlnet.captures.parts import WARC, ComposedLog, Writing, capture_form, part_path
from trawlnet.captures.replay import CDXJ, EDGES, PAGES, replay_archive
from trawlnet.captures.shared_archive import (
    LOGS,
    ManifestLine,
    archived_lines,
    body_damage,
    log_name,
)
from trawlnet.engine.task import Task
from trawlnet.storage.errors import SinkError
from trawlnet.storage.objects import FolderObjects

AT_US = 1_700_000_000_000_000
PARTS = ("s000-00000001.000001", "s001-00000002.000001")


def page(path: str, body: bytes | None = b"<p>text</p>\r\n\r\n", status: int = 200) -> Capture:
    return Capture(
        timestamp=1_700_000_000.0,
        url=f"https://a.example/{path}",
        http_status=status,
        body=body,
        content_type="text/html",
        request_headers=[("User-Agent", "Bot")],
        response_headers=[("Content-Type", "text/html")],
        links=[CapturedLink("https://a.example/", "home")],
    )


def put(objects: FolderObjects, part: str, captures: Iterable[Capture], level: int | None) -> None:
    form = capture_form(Writing("run", {"robots": "obey"}, level))
    pieces = [form.piece(Task(one.url, "a.example"), one) for one in captures]
    assert all(form.size(piece) >= len(piece.capture.body or b"") for piece in pieces)
    for name, data in form.objects(part, pieces, AT_US):
        objects.put(name, data)


def composed(objects: FolderObjects, kept: dict[str, set[bytes]]) -> ManifestLine:
    log = ComposedLog(objects, kept)
    objects.put(f"{LOGS}/{log_name(1)}", log.pieces())
    listed = ManifestLine(log_name(1), log.captures, list(kept))
    objects.put(listed.path, json.dumps(listed.as_json()).encode())
    return listed


def keys(*paths: str) -> set[bytes]:
    return {f"https://a.example/{path}".encode() for path in paths}


def urls(objects: FolderObjects, listed: ManifestLine) -> list[str]:
    return [line.url.rpartition("/")[2] for line in archived_lines(objects, listed)]


@pytest.mark.parametrize("level", [None, 3])
def test_only_what_was_settled_is_in_a_log_and_its_body_is_found(
    tmp_path: Path, level: int | None
) -> None:
    objects = FolderObjects(tmp_path)
    moved = Capture(**{**_fields(page("c")), "hops": [Hop("https://a.example/C", 301)]})
    put(objects, PARTS[0], [page("a"), page("lost"), moved, page("bare", None)], level)
    put(objects, PARTS[1], [page("lost", b""), page("to", None, 302)], level)
    listed = composed(objects, {PARTS[0]: keys("a", "c", "bare"), PARTS[1]: keys("lost", "to")})
    assert urls(objects, listed) == ["a", "c", "bare", "lost", "to"]
    lines = {line.url[-4:]: line for line in archived_lines(objects, listed)}
    assert [body_damage(objects.read, line) for line in lines.values()] == [""] * 5
    assert lines["bare"].stored_path == "" and lines["bare"].warc is None
    assert lines["le/a"].stored_path.startswith(f"{WARC}/{PARTS[0]}.warc.")


def _fields(capture: Capture) -> dict[str, object]:
    return {name: getattr(capture, name) for name in Capture.__struct_fields__}


def test_a_key_that_is_twice_in_a_part_counts_once(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    put(objects, PARTS[0], [page("a", b"first"), page("a", b"second")], None)
    assert urls(objects, composed(objects, {PARTS[0]: keys("a")})) == ["a"]


@pytest.mark.parametrize("harm", ["cut", "gone", "poor"])
def test_a_part_that_lacks_what_it_was_credited_with_is_not_composed(
    tmp_path: Path, harm: str
) -> None:
    objects = FolderObjects(tmp_path)
    put(objects, PARTS[0], [page("a")], None)
    path = tmp_path / part_path(PARTS[0])
    wanted = keys("a", "b") if harm == "poor" else keys("a")
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    elif harm == "gone":
        path.unlink()
    with pytest.raises(SinkError) as told:
        list(ComposedLog(objects, {PARTS[0]: wanted}).pieces())
    assert part_path(PARTS[0]) in told.value.message


def test_a_log_that_was_cut_is_told(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    put(objects, PARTS[0], [page(str(n)) for n in range(5)], None)
    listed = composed(objects, {PARTS[0]: keys(*map(str, range(5)))})
    other = ManifestLine(listed.log, 6, listed.parts)
    with pytest.raises(SinkError, match="5 captures, where 6"):
        list(archived_lines(objects, other))
    path = tmp_path / LOGS / listed.log
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SinkError, match=listed.log):
        list(archived_lines(objects, listed))


def test_replaying_an_archive_makes_its_tables_and_checks_bodies(tmp_path: Path) -> None:
    objects, tables = FolderObjects(tmp_path / "archive"), tmp_path / "tables"
    put(objects, PARTS[0], [page("b"), page("a"), page("gone", None, 404)], None)
    composed(objects, {PARTS[0]: keys("a", "b", "gone")})
    for _ in range(2):  # Files of an earlier replay are replaced.
        told = replay_archive(objects, tables)
        assert (told.captures, told.pages, told.damaged) == (3, 2, 0)
    rows = list(csv.DictReader((tables / PAGES).open(newline="")))
    assert [row["url"][-1] for row in rows] == ["b", "a", "e"]
    assert len(list(csv.reader((tables / EDGES).open(newline="")))) == 4
    cdxj = (tables / CDXJ).read_text().splitlines()
    assert cdxj == sorted(cdxj) and len(cdxj) == 2
    assert sorted(path.name for path in tables.iterdir()) == sorted((PAGES, EDGES, CDXJ))
    check_warcs([tmp_path / "archive" / WARC / f"{PARTS[0]}.warc.gz"])


def check_warcs(paths: Sequence[Path]) -> None:
    """By somebody else's reader."""
    done = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", *paths], capture_output=True
    )
    assert done.returncode == 0, done.stdout[-1000:]


def test_a_body_that_was_changed_is_told(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path / "archive")
    put(objects, PARTS[0], [page("a", b"what was there")], None)
    composed(objects, {PARTS[0]: keys("a")})
    path = tmp_path / "archive" / WARC / f"{PARTS[0]}.warc.gz"
    plain = gzip.decompress(path.read_bytes())
    path.write_bytes(b"")
    told = replay_archive(objects, tmp_path / "tables")
    assert told.damaged == 1 and b"what was there" in plain
    path.unlink()
    (damage,) = replay_archive(objects, tmp_path / "tables").damage
    assert "https://a.example/a" in damage.what and "not there" in damage.what
    assert replay_archive(objects, tmp_path / "tables", check_bodies=False).damaged == 0
