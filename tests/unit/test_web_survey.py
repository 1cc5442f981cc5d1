"""The survey of a capture log counts what was captured, whatever is in its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from trawlnet.captures.capture import CapturedLink
from trawlnet.captures.files import LOG
from trawlnet.captures.line import CaptureLine, Glance, glance, pack, unpack
from trawlnet.captures.log import CaptureLog
from trawlnet.crawlers.web.survey import log_bytes, survey_captures
from trawlnet.storage.errors import SinkError

PAGE = CaptureLine(
    batch=1,
    run="r",
    visit="v",
    timestamp=7200.5,
    url="https://a.example/1",
    http_status=200,
    page_type="page",
    depth=2,
    content_type="text/html; charset=utf-8",
    content_sha256="ab" * 32,
    content_bytes=1000,
    stored_path="store/html/ab/ab/x.html",
    fetch_latency_ms=12.5,
    metadata={"title": "a", "large": (1 << 64) - 1},
    simhash=(1 << 64) - 1,
    links=(
        CapturedLink("https://b.example/x", "words", "more words"),
        CapturedLink("https://a.example/2"),
    ),
)
LONE = CaptureLine(
    1, "r", "v", 1.0, "https://a.example/\ud800", 404, links=(CapturedLink("https://b/"),)
)
BARE = CaptureLine(1, "r", "v", 1.0, "https://a.example/3", 304)


def put_up(workspace: Path, *lines: CaptureLine) -> None:
    log = CaptureLog(workspace / LOG, segment_bytes=300)
    for line in lines:
        log.append([line])
    log.close()


@pytest.mark.parametrize("line", [PAGE, LONE, BARE], ids=["page", "lone surrogate", "bare"])
def test_a_glance_sees_what_is_in_the_line(line: CaptureLine) -> None:
    raw = pack(line).rstrip()
    seen, whole = glance(raw, "here"), unpack(raw, "here")
    for name in Glance.__struct_fields__:
        if name != "links":
            assert getattr(seen, name) == getattr(whole, name)
    assert [link.to for link in seen.links] == [link.to for link in line.links]


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"nonsense", b'{"url":1}'])
def test_what_is_no_line_is_told_with_its_place(raw: bytes) -> None:
    with pytest.raises(SinkError, match="captures-1@7: not a line"):
        glance(raw, "captures-1@7")


def test_everything_is_counted_once_across_segments(tmp_path: Path) -> None:
    put_up(tmp_path, PAGE, LONE, PAGE, BARE)
    told: list[int] = []
    seen = survey_captures(tmp_path, told.append)
    assert sum(told) == log_bytes(tmp_path) and len(told) > 1
    assert (seen.captures, seen.pages, seen.stored, seen.unchanged) == (4, 3, 2, 1)
    assert (seen.bytes_fetched, seen.bytes_repeated) == (2000, 1000)
    assert seen.hosts == {"a.example": 4} and seen.content_types["text/html"] == 2
    assert seen.links == 5 and seen.linked_hosts == {"b.example": 2, "a.example": 2, "b": 1}
    assert seen.linked_pages.counts["https://b.example/x"] == 2
    assert not seen.linked_pages.forgotten
