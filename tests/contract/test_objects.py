"""Objects in S3 and in a shared folder keep the same promises; segments in S3 read like files."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from tests.support.program import at_once, trawlnet
from tests.support.repos.made_segments import make_block, write
from tests.support.servers import S3Server, free_port, require_package, s3_server
from trawlnet.archive.lookup import look_up
from trawlnet.archive.reader import NoArchive, find_segments, open_segment
from trawlnet.archive.remote import RangeFile, Remote
from trawlnet.archive.survey import survey
from trawlnet.archive.tally import tally
from trawlnet.archive.verify import verify_segment
from trawlnet.storage.objects import FolderObjects, Objects, check_archive
from trawlnet.storage.s3 import ObjectsError, S3Objects, s3_options

require_package("obstore")
names = itertools.count()
AGENT = "Bot/1.0 (+https://example.org/bot)"


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["s3", "folder"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "folder":
        return FolderObjects(tmp_path / "shared")
    return _bucket(request.getfixturevalue("s3"))


@pytest.fixture
def bucket(s3: S3Server) -> S3Objects:
    return _bucket(s3)


def _bucket(server: S3Server) -> S3Objects:
    url = server.make_bucket(f"bucket-{next(names)}")
    return S3Objects(f"{url}/some/folder", server.options)


def test_what_was_put_is_there_whole(objects: Objects) -> None:
    objects.put("parts/a.part", b"hello")
    objects.put("parts/b.part", (bytes([n]) * (3 << 20) for n in range(5)))
    assert objects.get("parts/a.part") == b"hello"
    assert objects.get("parts/b.part") == b"".join(bytes([n]) * (3 << 20) for n in range(5))
    assert objects.sizes("parts") == {"a.part": 5, "b.part": 15 << 20}
    assert objects.sizes("") == {} == objects.sizes("nowhere")


def test_what_was_deleted_is_gone_and_may_be_deleted_again(objects: Objects) -> None:
    objects.put("parts/a", b"1")
    objects.put("parts/b", b"2")
    objects.delete(["parts/a", "parts/never"])
    assert objects.sizes("parts") == {"b": 1}
    with pytest.raises(FileNotFoundError):
        objects.get("parts/a")


def test_an_upload_that_breaks_off_leaves_nothing(objects: Objects) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x" * (9 << 20)
        raise RuntimeError("the reader of the parts failed")

    with pytest.raises((RuntimeError, ObjectsError)):
        objects.put("segment_0001.rca", pieces())
    assert objects.sizes("") == {}


def test_ranges_are_read_in_few_requests(bucket: S3Objects, monkeypatch) -> None:
    data = bytes(range(256)) * (40 << 10)
    bucket.put("big", data)
    asked: list[tuple[int, int]] = []
    read = S3Objects.read

    def counted(self: S3Objects, name: str, size: int, offset: int) -> bytes:
        asked.append((size, offset))
        return read(self, name, size, offset)

    monkeypatch.setattr(S3Objects, "read", counted)
    file = RangeFile(bucket, "big")
    for at in range(0, len(data), 4096):
        assert file.pread(4096, at) == data[at : at + 4096]
    assert len(asked) < 10
    assert file.pread(10, 5) == data[5:15] and file.pread(99, len(data) - 9) == data[-9:]
    assert file.pread(1, len(data)) == b""


def upload(folder: Path, bucket: S3Objects) -> None:
    for path in folder.glob("*.rca"):
        bucket.put(path.name, path.read_bytes())


def test_a_segment_in_s3_reads_like_a_file(bucket: S3Objects, tmp_path: Path) -> None:
    dids = [f"did:plc:{n:024d}" for n in range(300)]
    write(tmp_path, [make_block(did) for did in dids], segment_bytes=20_000)
    upload(tmp_path, bucket)
    there, here = Remote(bucket), tmp_path
    assert [path.name for path in find_segments(there)] == [p.name for p in find_segments(here)]
    far, near = tally(there), tally(here)
    assert (far.repos, far.records, far.bytes) == (near.repos, near.records, near.bytes)
    assert far.repos == 300
    for path in find_segments(there):
        assert verify_segment(path).sound and verify_segment(path).finalised
    found = look_up(there, dids[123])
    assert found.block is not None and found.block.head.did == dids[123]


def test_a_report_of_an_archive_in_s3_is_that_of_the_folder(
    s3: S3Server, bucket: S3Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = {"1": b'{"createdAt":"2024-03-09","langs":["en"],"text":"a"}', "2": b"{}"}
    blocks = [make_block(f"did:plc:{n:024d}", 1, {"a.b.c": post}) for n in range(60)]
    write(tmp_path, [*blocks, make_block(f"did:plc:{7:024d}", 2)], segment_bytes=3_000)
    upload(tmp_path, bucket)
    far, near = survey(Remote(bucket)), survey(tmp_path)
    assert far == near and far.tally.repos == 60 and far.tally.superseded == 1
    assert far.records_by_month["2024-03"] == 59
    page = tmp_path / "report.html"
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    assert at_once("repos", "report", bucket.url, "-o", page).code == 0
    text = page.read_text().replace("<wbr>", "")  # Names may be broken between their parts.
    assert "app.bsky.feed.post" in text and bucket.url in text


def test_a_segment_that_was_read_keeps_little_of_it(bucket: S3Objects, tmp_path: Path) -> None:
    noise = {f"{n:05}": b'{"x":"%s"}' % Random(n).randbytes(400).hex().encode() for n in range(999)}
    write(tmp_path, [make_block(f"did:plc:{n:024d}", 1, {"a.b.c": noise}) for n in range(3)])
    upload(tmp_path, bucket)
    segment = open_segment(Remote(bucket) / "segment_0001.rca")
    with segment.open() as file:
        assert len(list(segment.blocks(file, check=True))) == 3
        assert not isinstance(file, int) and file.held > 200_000
    assert file.held <= 64 << 10
    assert [entry.did[-1:] for entry in segment.entries()] == [b"0", b"1", b"2"]


def test_damage_in_s3_is_named_with_its_url(bucket: S3Objects, tmp_path: Path) -> None:
    write(tmp_path, [make_block("did:plc:" + "a" * 24), make_block("did:plc:" + "b" * 24)])
    data = bytearray((tmp_path / "segment_0001.rca").read_bytes())
    data[150] ^= 1
    bucket.put("segment_0001.rca", bytes(data))
    (path,) = find_segments(Remote(bucket))
    damage = verify_segment(path).damage
    assert damage and str(damage[0]).startswith(f"{bucket.url}/segment_0001.rca@64: ")


@pytest.mark.parametrize("kind", ["s3", "folder"])
def test_only_segments_in_the_manifest_count(kind: str, bucket: S3Objects, tmp_path: Path) -> None:
    objects: Objects = bucket if kind == "s3" else FolderObjects(tmp_path / "shared")
    for name in ("segment_0001", "segment_0002"):
        objects.put(f"{name}.rca", b"")
    place = Remote(bucket) if kind == "s3" else tmp_path / "shared"
    assert len(find_segments(place)) == 2
    objects.put("manifest/segment_0002.json", b"{}")
    assert [path.name for path in find_segments(place)] == ["segment_0002.rca"]


def test_an_empty_bucket_is_no_archive(bucket: S3Objects) -> None:
    with pytest.raises(NoArchive, match=bucket.url):
        find_segments(Remote(bucket))


def test_the_verbs_read_s3(
    s3: S3Server, bucket: S3Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did = "did:plc:" + "c" * 24
    write(tmp_path, [make_block(did)])
    upload(tmp_path, bucket)
    rows = trawlnet("repos", "cat", bucket.url, "--did", did, **s3.environ).rows
    assert {row["collection"] for row in rows} == {"app.bsky.feed.post", "app.bsky.actor.profile"}
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    assert at_once("repos", "tally", bucket.url, "--json").rows[0]["repos"] == 1
    assert at_once("repos", "verify", bucket.url).code == 0
    assert at_once("repos", "inspect", f"{bucket.url}/segment_0001.rca").code == 0


def test_a_store_that_does_not_answer_is_told_without_its_keys(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    env = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY_FILE": str(secret),
    }
    assert s3_options(env)["secret_access_key"] == "hush"
    with pytest.raises(ObjectsError) as trouble:
        S3Objects("s3://bucket/x", s3_options(env), patience=0.2).get("a")
    assert "s3://bucket/x/a" in str(trouble.value) and "hush" not in str(trouble.value)


def test_a_bucket_that_is_not_there_is_named(s3: S3Server) -> None:
    with pytest.raises(ObjectsError, match="s3://never/parts: there is no such bucket"):
        S3Objects("s3://never", s3.options).sizes("parts")


def test_an_archive_that_can_be_used_is_left_as_it_was(objects: Objects, s3: S3Server) -> None:
    objects.put("manifest/a.json", b"{}")
    check_archive(objects.url, s3.options)
    assert objects.sizes("") == {} and objects.sizes("manifest") == {"a.json": 2}


def test_what_killed_writers_left_half_written_is_deleted_when_nobody_can_be_at_it(
    tmp_path: Path,
) -> None:
    objects = FolderObjects(tmp_path)
    objects.put("parts/s000-00000001.000001.rca", b"whole")
    left = tmp_path / "parts" / ".s000-00000001.000002.rca.4121.tmp"
    growing = tmp_path / ".segment_0001.rca.4122.tmp"
    now = time.time()
    for path, hours in ((left, 25), (growing, 23), (tmp_path / "parts" / "kept.tmp", 999)):
        path.write_bytes(b"ha")
        os.utime(path, (now, now - hours * 3600))
    check_archive(str(tmp_path), {})
    found = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"s000-00000001.000001.rca", growing.name, "kept.tmp"}


class _Forbids(BaseHTTPRequestHandler):
    """A store that lets nobody write."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def forbidding() -> Iterator[dict[str, str]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Forbids) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield {"endpoint": f"http://127.0.0.1:{server.server_port}", "region": "us-east-1"} | {
            "access_key_id": "someone",
            "secret_access_key": "hush",
        }
        server.shutdown()


def test_a_bucket_that_is_missing_or_closed_is_told_from_an_outage(s3: S3Server) -> None:
    with pytest.raises(ObjectsError, match="there is no such bucket") as missing:
        check_archive("s3://nobodys/archive", s3.options)
    assert missing.value.hint.startswith("create it: aws s3 mb s3://nobodys;")
    with forbidding() as options, pytest.raises(ObjectsError, match="forbids it") as closed:
        check_archive("s3://theirs/archive", options)
    assert "PutObject" in closed.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("crawler", ["repos", "web"])
def test_a_fleet_with_nowhere_to_archive_is_refused_before_it_asks_anybody(
    crawler: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    # Nobody listens at either address: whoever asked them first would say so.
    nowhere = f"http://127.0.0.1:{free_port()}"
    flags: tuple[object, ...] = ("--fleet", "local", "--archive", "s3://nobodys/x", "-w", tmp_path)
    flags += ("--store", f"redis://127.0.0.1:{free_port()}/0", "--allow-private-hosts")
    named = ("--relay", nowhere) if crawler == "repos" else ("--user-agent", AGENT, nowhere)
    ran = at_once(crawler, "crawl", *flags, *named, "--json")
    assert ran.code == 12 and "there is no such bucket" in ran.error["error"], ran.err
    assert ran.error["hint"].startswith("create it")
