"""Bodies under their sha256: whole, once, healed when torn; and the index that names them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.full_disk import FullDisk
from trawlnet.captures import blobs
from trawlnet.captures.blobs import BlobStore, read_blob
from trawlnet.captures.records import RecordSink, latest, read_index
from trawlnet.engine.task import Task
from trawlnet.storage.errors import SinkBusy, SinkError
from trawlnet.storage.files import sync_filesystem

SOURCE = Path(__file__).parents[2] / "src"


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.fixture(params=[None, 3], ids=["plain", "zstd"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
    store = BlobStore(tmp_path / "html", ".html", zstd_level=request.param)
    yield store
    store.close()


def stored_files(store: BlobStore) -> list[Path]:
    return sorted(p for p in store._root.rglob("*") if p.is_file())


def test_a_body_lies_under_two_shards_of_its_sha256(tmp_path: Path) -> None:
    name = sha256(b"page")
    for level, suffix in ((None, ".html"), (3, ".html.zst")):
        store = BlobStore(tmp_path, ".html", zstd_level=level)
        blob = asyncio.run(store.put(b"page"))
        assert blob.path == tmp_path / name[:2] / name[2:4] / f"{name}{suffix}"
        assert (blob.sha256, blob.size) == (name, 4)
        assert blob.path.exists()
        store.close()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=8))
def test_what_was_put_comes_back(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes]
) -> None:
    for level in (None, 1):
        store = BlobStore(tmp_path_factory.mktemp("blobs"), zstd_level=level)
        blobs = asyncio.run(store.put_many(bodies))
        assert [asyncio.run(store.get(blob.sha256)) for blob in blobs] == bodies
        assert len(stored_files(store)) == len(set(bodies))
        assert list(store.verify()) == []
        store.close()


def test_the_same_content_is_written_once(store: BlobStore) -> None:
    first = asyncio.run(store.put_many([b"a" * 100, b"a" * 100]))
    before = first[0].path.stat()
    asyncio.run(store.put(b"a" * 100))
    assert first[0] == first[1]
    assert first[0].path.stat().st_ino == before.st_ino
    assert len(stored_files(store)) == 1


def test_what_another_store_wrote_is_found(tmp_path: Path) -> None:
    numbers = []
    for _ in range(2):
        store = BlobStore(tmp_path)
        blob = asyncio.run(store.put(b"page"))
        store.close()
        numbers.append(blob.path.stat().st_ino)
    assert numbers[0] == numbers[1]
    assert len(stored_files(store)) == 1


@pytest.mark.parametrize("bodies", [[b"one"], [b"%d" % n for n in range(20)]], ids=["one", "many"])
def test_a_shard_that_somebody_took_away_is_made_again(
    store: BlobStore, bodies: list[bytes]
) -> None:
    for blob in asyncio.run(store.put_many(bodies)):
        shutil.rmtree(blob.path.parent.parent, ignore_errors=True)
    asyncio.run(store.put_many(bodies))
    assert len(stored_files(store)) == len(bodies)
    assert list(store.verify()) == []


@pytest.mark.parametrize("left", [0, 1, -1, "zeros", "longer", "flipped"])
def test_a_file_torn_by_a_power_cut_is_healed(store: BlobStore, left: int | str) -> None:
    body = os.urandom(5000)
    blob = asyncio.run(store.put(body))
    whole = blob.path.read_bytes()
    match left:
        case "zeros":
            torn = bytes(len(whole) - 1)
        case "flipped":  # One bit, as disks lose them: the length is right.
            torn = whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:]
        case "longer":
            torn = whole + b"\0"
        case int():
            torn = whole[:left]
    blob.path.write_bytes(torn)
    assert [damage.path for damage in store.verify()] == [blob.path]
    with pytest.raises(SinkError):
        asyncio.run(store.get(blob.sha256))
    asyncio.run(store.put(body))
    assert blob.path.read_bytes() == whole
    assert list(store.verify()) == []


def test_verify_names_what_does_not_belong(store: BlobStore) -> None:
    blob = asyncio.run(store.put(b"x"))
    stray = blob.path.with_name("notes.txt")
    stray.write_text("hello")
    blob.path.write_bytes(b"y" * 40)
    found = {damage.path: damage.what for damage in store.verify()}
    assert set(found) == {stray, blob.path}
    assert found[stray] == "not a blob of this store"


def test_an_unknown_body_is_a_key_error_and_a_name_cannot_leave_the_store(store: BlobStore) -> None:
    with pytest.raises(KeyError):
        asyncio.run(store.get(sha256(b"absent")))
    for name in ("../../etc/passwd", "", "A" * 64, sha256(b"x") + "\n"):
        with pytest.raises(ValueError, match="not a sha256"):
            store.path(name)


def test_many_writers_of_the_same_content_agree(tmp_path: Path) -> None:
    bodies = [bytes([n]) * 1000 for n in range(20)]
    stores = [BlobStore(tmp_path) for _ in range(3)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda store: store.put_many_blocking(bodies), stores * 4))
    assert list(stores[0].verify()) == []
    for store in stores:
        store.close()
    assert len(stored_files(stores[0])) == 20


def test_names_and_content_are_synced_before_put_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BlobStore(tmp_path)
    bodies = [b"one", b"two", b"three"]
    events: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(fd: int) -> None:
        events.append(("fsync", os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def noted_rename(temp: str, target: str) -> None:
        assert ("fsync", temp) in events, "renamed before its content was durable"
        events.append(("rename", target))
        rename(temp, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    blobs = asyncio.run(store.put_many(bodies))
    last_rename = max(n for n, (what, _) in enumerate(events) if what == "rename")
    synced_after = [path for what, path in events[last_rename:] if what == "fsync"]
    wanted = {str(p) for b in blobs for p in (b.path.parent, b.path.parent.parent, tmp_path)}
    assert sorted(synced_after) == sorted(wanted), "each directory once"
    store.close()


def test_a_large_batch_is_synced_with_its_file_system_before_and_after_it_gets_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BlobStore(tmp_path)
    named_at_sync: list[int] = []

    def noted_sync(path: Path) -> bool:
        named_at_sync.append(len(list(tmp_path.glob("[0-9a-f][0-9a-f]/*/*"))))
        return sync_filesystem(path)

    monkeypatch.setattr(blobs, "sync_filesystem", noted_sync)
    stored = store.put_many_blocking([b"body %d" % n for n in range(100)])
    assert named_at_sync == [0, 100]
    assert all(blob.path.read_bytes() == b"body %d" % n for n, blob in enumerate(stored))
    store.close()


def test_a_full_disk_is_one_clear_error_and_leaves_nothing_half(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [os.urandom(1000) for _ in range(5)]
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", FullDisk(2500))
        with pytest.raises(SinkError, match="No space left") as caught:
            asyncio.run(store.put_many(bodies))
    assert "free some space" in caught.value.hint
    assert stored_files(store) == []
    asyncio.run(store.put_many(bodies))
    assert len(stored_files(store)) == 5


KILLED = """
import os, sys
from pathlib import Path
from trawlnet.captures import blobs
from trawlnet.captures.blobs import BlobStore
from trawlnet.captures import blobs

store = BlobStore(Path(sys.argv[1]))
store.put_many_blocking([b"kept"])
write_new, written = blobs.write_new, []

def dying(path, data, permissions):
    if len(written) == 3:
        Path(path).write_bytes(data[:5])
        print("dying", flush=True)
        os.kill(os.getpid(), 9)
    written.append(path)
    write_new(path, data, permissions)

blobs.write_new = dying
store.put_many_blocking([b"body %d" % n for n in range(10)])
"""


def test_a_kill_in_the_middle_leaves_whole_bodies_and_the_next_opening_cleans(
    tmp_path: Path,
) -> None:
    survivor = BlobStore(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], env=environment, capture_output=True
    )
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"dying\n"), killed.stderr
    assert len(stored_files(survivor)) == 5, "one body and the four unfinished files"
    assert list(survivor.verify()) == []
    store = BlobStore(tmp_path)
    assert [path.name for path in stored_files(store)] == [sha256(b"kept")]
    asyncio.run(survivor.put(b"still at work"))  # Its scratch directory was not taken away.
    asyncio.run(store.put_many([b"body %d" % n for n in range(10)]))
    assert len(stored_files(store)) == 12
    survivor.close()
    store.close()


def task(key: str) -> Task:
    return Task(key, "lane")


def test_the_record_sink_has_each_key_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = BlobStore(tmp_path / "store")
        sink = RecordSink(store, tmp_path / "index.jsonl")
        await sink.write([(task("a"), [b"1", b"2"]), (task("b"), [b"3"]), (task("none"), [])])
        await sink.write([(task("a"), [b"1", b"new"]), (task("lone \ud800"), [b""])])
        await sink.write([])
        assert len(list(read_index(tmp_path / "index.jsonl"))) == 4
        for _ in range(2):
            records = latest(tmp_path / "index.jsonl")
            assert list(records) == ["a", "b", "lone \ud800"]
            bodies = [await store.get(body.sha256) for body in records["a"].bodies]
            assert bodies == [b"1", b"new"]
            await sink.compact()
            assert len(list(read_index(tmp_path / "index.jsonl"))) == 3
        await sink.write([(task("c"), [b"after"])])
        assert list(latest(tmp_path / "index.jsonl"))[-1] == "c"
        sink.close()
        store.close()

    asyncio.run(scenario())


def test_a_torn_index_line_is_not_a_record_and_is_cut_by_the_next_writer(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, index = BlobStore(tmp_path / "store"), tmp_path / "index.jsonl"
        sink = RecordSink(store, index)
        await sink.write([(task("a"), [b"1"])])
        with pytest.raises(SinkBusy):
            RecordSink(store, index)
        sink.close()
        with index.open("ab") as file:
            file.write(b'{"key":"tor')
        assert list(latest(index)) == ["a"]
        sink = RecordSink(store, index)
        await sink.write([(task("b"), [b"2"])])
        assert list(latest(index)) == ["a", "b"]
        sink.close()
        store.close()

    asyncio.run(scenario())


def test_an_index_on_a_full_disk_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        store, index = BlobStore(tmp_path / "store"), tmp_path / "index.jsonl"
        sink = RecordSink(store, index)
        await sink.write([(task("a"), [b"1"])])
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", FullDisk(20))
            with pytest.raises(SinkError, match="writing index"):
                await sink.write([(task("b"), [b"1"])])
        await sink.write([(task("b"), [b"1"])])
        assert list(latest(index)) == ["a", "b"]
        sink.close()
        store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("level", [None, 3])
def test_a_body_is_read_by_its_path_only_if_it_is_what_the_name_says(
    tmp_path: Path, level: int | None
) -> None:
    store = BlobStore(tmp_path, zstd_level=level)
    first, second = store.put_many_blocking([b"the page", b"another"])
    store.close()
    assert read_blob(Path(first.file)) == b"the page"
    Path(first.file).write_bytes(Path(second.file).read_bytes())
    with pytest.raises(ValueError, match="does not match its name"):
        read_blob(Path(first.file))
