"""WARC files as others read them: checked and read by warcio."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from trawlnet.captures.capture import Capture, Hop
from trawlnet.captures.files import CaptureFiles, CaptureOptions
from trawlnet.captures.warc import cdxj, format
from trawlnet.captures.warc.cdxj import merge_tail
from trawlnet.captures.warc.files import WarcFiles
from trawlnet.engine.task import Task
from trawlnet.webpage.surt import surt

HEADERS = [("Content-Type", "text/html"), ("Content-Encoding", "gzip"), ("Content-Length", "9")]
PAGE = Capture(
    1_700_000_000.9,
    "http://www.site.test/a?z=1&b=2",
    200,
    b"<p>hello</p>" * 100,
    content_type="text/html; charset=utf-8",
    response_headers=HEADERS,
    request_headers=[("Host", "www.site.test"), ("User-Agent", "bot")],
    reason_phrase="OK",
)
SAME = Capture(1_700_000_001.0, "http://site.test/b", 200, PAGE.body, response_headers=HEADERS)
UNCHANGED = Capture(1_700_000_002.0, PAGE.url, 304, response_headers=[("ETag", '"x"')])
MOVED = Capture(
    1_700_000_003.0, "http://site.test/old", 301, b"moved", response_headers=[("Location", "/new")]
)
FOLLOWED = Capture(
    1_700_000_004.0,
    "http://site.test/start",
    200,
    b"the end",
    final_url="http://site.test/end",
    hops=[Hop("http://site.test/start", 302, [("Location", "/end"), ("Content-Length", "77")])],
)


@dataclass
class Record:
    kind: str
    fields: dict[str, str]
    http: dict[str, str]
    status: str
    body: bytes


def write(workspace: Path, *captures: Capture, run: str = "one", most_bytes: int = 1 << 30) -> None:
    options = CaptureOptions(
        run, warc=True, warc_bytes=most_bytes, about={"software": "trawlnet/0"}
    )
    files = CaptureFiles(workspace, options)
    for capture in captures:
        files.write([(Task(capture.url, "l", due=capture.timestamp), capture)])
    files.close()


def read(workspace: Path) -> list[Record]:
    found = []
    for path in sorted((workspace / "warc").glob("*.warc.gz")):
        with path.open("rb") as stream:
            for each in ArchiveIterator(stream):
                head = each.http_headers
                found.append(
                    Record(
                        each.rec_type,
                        dict(each.rec_headers.headers),
                        dict(head.headers) if head else {},
                        head.get_statuscode() if head and each.rec_type != "request" else "",
                        each.content_stream().read(),
                    )
                )
    return found


def check(workspace: Path) -> None:
    files = list((workspace / "warc").glob("*.warc.gz"))
    subprocess.run([sys.executable, "-m", "warcio.cli", "check", *files], check=True)


def test_every_kind_of_capture_passes_the_check_of_another_program(tmp_path: Path) -> None:
    write(tmp_path, PAGE, SAME, UNCHANGED, MOVED, FOLLOWED)
    check(tmp_path)
    kinds = [record.kind for record in read(tmp_path)]
    assert kinds == [
        "warcinfo",
        "response",
        "request",
        "revisit",
        "revisit",
        "response",
        "response",
        "response",
    ]


def test_a_response_is_the_page_with_lengths_that_are_true(tmp_path: Path) -> None:
    write(tmp_path, PAGE)
    info, response, request = read(tmp_path)
    assert b"software: trawlnet/0\r\n" in info.body
    assert response.body == PAGE.body
    assert response.status == "200"
    assert response.fields["WARC-Target-URI"] == PAGE.url
    assert response.fields["WARC-Date"] == "2023-11-14T22:13:20Z"
    assert response.http == {
        "Content-Type": "text/html",
        "X-Archive-Orig-Content-Encoding": "gzip",
        "X-Archive-Orig-Content-Length": "9",
        "Content-Length": "1200",
    }
    assert request.http["Host"] == "www.site.test"
    assert request.fields["WARC-Concurrent-To"] == response.fields["WARC-Record-ID"]


def test_the_same_payload_is_referred_to_across_runs(tmp_path: Path) -> None:
    write(tmp_path, PAGE)
    write(tmp_path, SAME, UNCHANGED, run="two")
    _, first, _, _, same, unchanged = read(tmp_path)
    for revisit in (same, unchanged):
        assert revisit.fields["WARC-Refers-To-Target-URI"] == PAGE.url
        assert revisit.fields["WARC-Refers-To-Date"] == first.fields["WARC-Date"]
        assert revisit.fields["WARC-Payload-Digest"] == first.fields["WARC-Payload-Digest"]
        assert revisit.body == b""
    assert same.fields["WARC-Profile"].endswith("/1.1/revisit/identical-payload-digest")
    assert unchanged.fields["WARC-Profile"].endswith("/1.1/revisit/server-not-modified")
    assert unchanged.status == "304"


def test_a_payload_that_no_warc_holds_is_written_in_full(tmp_path: Path) -> None:
    files = CaptureFiles(tmp_path, CaptureOptions("zero"))
    files.write([(Task(PAGE.url, "l"), PAGE)])
    files.close()
    write(tmp_path, SAME, UNCHANGED)
    _, response, unchanged = read(tmp_path)
    assert response.kind == "response"
    assert unchanged.kind == "revisit"


def test_what_was_not_kept_is_not_recorded(tmp_path: Path) -> None:
    write(tmp_path, Capture(1.0, "http://site.test/i.png", 200, None, response_headers=HEADERS))
    assert list((tmp_path / "warc").iterdir()) == []


def test_redirects_on_the_way_come_first(tmp_path: Path) -> None:
    write(tmp_path, FOLLOWED)
    _, hop, response = read(tmp_path)
    assert (hop.status, hop.fields["WARC-Target-URI"]) == ("302", "http://site.test/start")
    assert hop.http["Location"] == "/end"
    assert (response.status, response.fields["WARC-Target-URI"]) == ("200", FOLLOWED.final_url)


def test_files_are_rotated_by_size_and_each_says_who_wrote_it(tmp_path: Path) -> None:
    write(tmp_path, PAGE, MOVED, FOLLOWED, most_bytes=500)
    names = sorted(path.name for path in (tmp_path / "warc").glob("*.warc.gz"))
    assert names == [f"trawlnet-one-0000{n}.warc.gz" for n in (1, 2, 3)]
    assert [r.kind for r in read(tmp_path)].count("warcinfo") == 3
    check(tmp_path)


def test_with_zstd_each_record_is_a_frame_where_the_index_says(tmp_path: Path) -> None:
    files = CaptureFiles(
        tmp_path, CaptureOptions("one", warc=True, warc_zstd_level=3, warc_folder="w")
    )
    files.write([(Task(c.url, "l"), c) for c in (PAGE, MOVED)])
    files.close()
    raw = (tmp_path / "w" / "trawlnet-one-00001.warc.zst").read_bytes()
    whole = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read()
    records = ArchiveIterator(io.BytesIO(whole), check_digests="raise")
    kinds = [record.rec_type for record in records if record.content_stream().read() is not None]
    assert kinds == ["warcinfo", "response", "request", "response"]
    for line in (tmp_path / "w" / "index.cdxj").read_text().splitlines():
        entry = orjson.loads(line.split(" ", 2)[2])
        frame = raw[int(entry["offset"]) :][: int(entry["length"])]
        plain = zstandard.ZstdDecompressor().decompressobj().decompress(frame)
        assert f"WARC-Target-URI: {entry['url']}".encode() in plain


def test_a_file_is_called_open_until_it_is_complete(tmp_path: Path) -> None:
    files = CaptureFiles(tmp_path, CaptureOptions("one", warc=True))
    files.write([(Task("k", "l"), PAGE)])
    assert [path.name for path in (tmp_path / "warc").glob("trawl*")] == [
        "trawlnet-one-00001.warc.gz.open"
    ]
    files.close()
    assert len(read(tmp_path)) == 3


def test_the_index_leads_to_each_record(tmp_path: Path) -> None:
    write(tmp_path, PAGE, SAME, UNCHANGED, MOVED, FOLLOWED)
    lines = (tmp_path / "warc" / "index.cdxj").read_text().splitlines()
    assert lines == sorted(lines)
    assert [line.split(" ", 2)[:2] for line in lines] == [
        ["test,site)/a?b=2&z=1", "20231114221320"],
        ["test,site)/a?b=2&z=1", "20231114221322"],
        ["test,site)/b", "20231114221321"],
        ["test,site)/end", "20231114221324"],
        ["test,site)/old", "20231114221323"],
    ]
    for line in lines:
        entry = orjson.loads(line.split(" ", 2)[2])
        with (tmp_path / "warc" / entry["filename"]).open("rb") as stream:
            stream.seek(int(entry["offset"]))
            raw = stream.read(int(entry["length"]))
        path = tmp_path / "one-record.warc.gz"
        path.write_bytes(raw)
        with path.open("rb") as stream:
            [record] = ArchiveIterator(stream)
            assert record.rec_headers["WARC-Target-URI"] == entry["url"]
            assert (record.rec_type == "revisit") == (entry["mime"] == "warc/revisit")


def test_merging_a_tail_again_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cdxj, "_SORTED_AT_ONCE", 3)
    index, tail = tmp_path / "index.cdxj", tmp_path / "tail"
    merge_tail(index, tail)
    assert not index.exists()
    index.write_bytes(b"b 1\nd 1\n")
    tail.write_bytes(b"e 1\nc 1\na 1\nd 1\nb 2\nz torn")
    for _ in range(2):
        merge_tail(index, tail)
        assert index.read_bytes() == b"a 1\nb 1\nb 2\nc 1\nd 1\ne 1\n"


ODD = st.text(st.characters(exclude_categories=()), max_size=20)


@given(
    url=ODD.map("http://site.test/".__add__),
    headers=st.lists(st.tuples(st.text("abc-", min_size=1), ODD), max_size=3),
    phrase=ODD,
    body=st.binary(max_size=50),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_a_server_says_breaks_a_record(
    tmp_path: Path, url: str, headers: list[tuple[str, str]], phrase: str, body: bytes
) -> None:
    path = tmp_path / "odd.warc.gz"
    head = format.response_head(200, phrase, headers, len(body))
    digest = format.payload_digest(body)
    record_id = format.UUID(int=1)
    records = (
        format.info(record_id, 0.0, [("software", phrase)]),
        format.response(record_id, 0.0, url, head, body, digest),
        format.revisit(record_id, 0.0, url, head, format.SAME_PAYLOAD, None),
    )
    path.write_bytes(b"".join(map(format.gzip_member, records)))
    with path.open("rb") as stream:
        found = [
            (record.rec_type, record.content_stream().read())
            for record in ArchiveIterator(stream, check_digests="raise")
        ]
    assert found[1:] == [("response", body), ("revisit", b"")]


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://www.Example.com/A/b?Z=1&a=2#part", "com,example)/a/b?a=2&z=1"),
        ("http://www2.example.com", "com,example)/"),
        ("http://user:pass@example.com:80/", "com,example)/"),
        ("https://example.com:8443/x", "com,example:8443)/x"),
        ("http://127.0.0.1:8080/x y", "127.0.0.1:8080)/x%20y"),
        ("http://[::1]/", "::1)/"),
        ("no url\n", "no%20url%0A"),
        ("http://[bad/", "http://[bad/"),
    ],
)
def test_sort_keys(url: str, key: str) -> None:
    assert surt(url) == key


@given(ODD)
def test_a_sort_key_is_one_word(url: str) -> None:
    assert len(surt("http://" + url).split(" ")) == 1


def test_records_that_the_log_does_not_know_are_cut_when_a_file_is_finished(tmp_path: Path) -> None:
    files = WarcFiles(tmp_path / "warc", "one", {}, 1 << 30)
    known, unknown = (
        Capture(1.0, f"http://h/{n}", 200, content_type="text/html", body=b"page %d" % n)
        for n in (1, 2)
    )
    where = files.add(known, "a" * 64, None)
    files.flush()
    files.commit()
    files.add(unknown, "b" * 64, None)
    files.flush()
    files.close()
    (path,) = (tmp_path / "warc").iterdir()
    assert where is not None and path.stat().st_size == where.end
