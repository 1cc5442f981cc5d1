"""zstd, linked and by Python's own: each reads what the other wrote.

Promised about bytes: every frame is one that any zstd reads, holds exactly what was put in,
declares its size, and has a checksum where one was asked for. Not promised: that two versions of
zstd compress alike.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from random import Random
from types import ModuleType

import pytest
import zstandard

from tests.support.child import ROOT
from trawlnet.native import loader, zstd, zstd_plain

KINDS = [pytest.param(zstd_plain, id="plain")]
if loader.has_zstd:
    KINDS.append(pytest.param(loader.native, id="linked"))
needs_linked = pytest.mark.skipif(not loader.has_zstd, reason="zstd is not linked")
every_kind = pytest.mark.parametrize("kind", KINDS)

TEXT = b" ".join(Random(7).choices([b"alpha", b"beta", b"gamma", b"delta"], k=60_000))
BODIES = [b"", b"x", TEXT[:700], TEXT, bytes(3 << 20), Random(1).randbytes(400_000)]


def streamed(kind: ModuleType, parts: list[bytes], level: int = 3) -> bytes:
    writer = kind.FrameWriter(level, False)
    return b"".join([*map(writer.add, parts), writer.end()])


def read(kind: ModuleType, data: bytes, step: int, most: int) -> bytes:
    reader, found = kind.FrameReader(27), []
    for start in range(0, len(data), step):
        found.append(reader.feed(data[start : start + step], most))
        while not (reader.eof or reader.needs_input):
            found.append(reader.feed(b"", most))
    assert reader.eof and max(map(len, found)) <= most
    return b"".join(found)


@every_kind
@pytest.mark.parametrize("level", [1, 3, 9, 19])
def test_a_frame_holds_what_was_put_in_and_says_how_much(kind: ModuleType, level: int) -> None:
    writer = kind.FrameWriter(level, False)
    for body in BODIES:
        frame = writer.frame(body)
        assert zstandard.frame_content_size(frame) == kind.frame_size(frame) == len(body)
        assert zstandard.get_frame_parameters(frame).has_checksum is False
        assert zstd_plain.unpack(frame, len(body)) == body
        assert zstd.read_frame(frame, len(body)) == body
        assert read(kind, frame, 50_000, 65_536) == body


@every_kind
def test_a_checksum_is_written_where_it_was_asked_for(kind: ModuleType) -> None:
    frame = kind.FrameWriter(3, True).frame(TEXT)
    assert zstandard.get_frame_parameters(frame).has_checksum is True
    spoilt = frame[:-1] + bytes([frame[-1] ^ 1])
    with pytest.raises(kind.ZstdError):
        kind.unpack(spoilt, len(TEXT))


@every_kind
def test_a_frame_may_be_written_and_read_in_pieces(kind: ModuleType) -> None:
    frame = streamed(kind, [TEXT[:10], b"", TEXT[10:100_000], TEXT[100_000:]])
    assert kind.frame_size(frame) is None
    assert read(kind, frame, 1, 1000) == TEXT
    assert b"".join(zstd.read_pieces(frame)) == zstd.read_frame(frame, len(TEXT)) == TEXT
    with pytest.raises(zstd.ZstdError, match="more than"):
        zstd.read_frame(frame, len(TEXT) - 1)


@every_kind
def test_what_follows_a_frame_is_kept_apart(kind: ModuleType) -> None:
    frame = kind.FrameWriter(3, False).frame(TEXT)
    reader = kind.FrameReader(27)
    assert reader.feed(frame + b"next", 1 << 20) == TEXT
    assert (reader.eof, reader.unused_data) == (True, b"next")
    with pytest.raises((ValueError, EOFError)):
        reader.feed(b"", 1)
    with pytest.raises(kind.ZstdError, match="follow"):
        kind.unpack(frame + b"next", len(TEXT))


@every_kind
@pytest.mark.parametrize("size", [0, 10, len(TEXT) - 1])
def test_a_frame_that_is_longer_than_it_should_be_is_an_error(kind: ModuleType, size: int) -> None:
    with pytest.raises(kind.ZstdError):
        kind.unpack(kind.FrameWriter(3, False).frame(TEXT), size)


@every_kind
def test_damage_is_an_error_and_never_other_bytes(kind: ModuleType) -> None:
    dice, frame = Random(3), kind.FrameWriter(3, True).frame(TEXT[:5000])
    for _ in range(300):
        bent = bytearray(frame)
        bent[dice.randrange(len(bent))] ^= 1 << dice.randrange(8)
        cut = bytes(bent[: dice.randrange(len(bent) + 1)])
        for spoilt in (bytes(bent), cut):
            try:
                found = kind.unpack(spoilt, 5000)
            except kind.ZstdError:
                continue
            assert found == TEXT[:5000]  # Bits that mean nothing.
    with pytest.raises(kind.ZstdError):
        kind.frame_size(b"no frame at all")


@every_kind
def test_a_window_beyond_the_limit_is_refused(kind: ModuleType) -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=24)
    data = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    frame = data.compress(bytes(1 << 20)) + data.flush()
    with pytest.raises(kind.ZstdError):
        kind.FrameReader(23).feed(frame, 1 << 20)
    assert kind.FrameReader(24).feed(frame, 2 << 20) == bytes(1 << 20)


def test_a_cut_frame_is_an_error_in_pieces_too() -> None:
    frame = streamed(zstd_plain, [TEXT])
    with pytest.raises(zstd.ZstdError, match="cut off"):
        list(zstd.read_pieces(frame[:-5]))
    with pytest.raises(zstd.ZstdError, match="follow"):
        list(zstd.read_pieces(frame + b"x"))


@needs_linked
def test_a_writer_serves_one_thread_at_a_time() -> None:
    writer, made, refused = zstd.FrameWriter(19, False), list[bytes](), 0

    def write() -> None:
        written = len(made)
        while len(made) == written:
            with suppress(ValueError):
                made.append(writer.frame(TEXT))

    while not refused:
        worker = threading.Thread(target=write)
        worker.start()
        while worker.is_alive():
            try:
                writer.frame(b"")
            except ValueError as error:
                refused += "another thread" in str(error)
        worker.join()
    assert {zstd.read_frame(frame, len(TEXT)) for frame in made} == {TEXT}


_LOADED = """
import json, shutil, sys
python_s_own = set(sys.modules)  # shutil of Python 3.14 loads one to know whether there is one.
import trawlnet.archive.format.repoblock, trawlnet.captures.blobs, trawlnet.captures.parts
import trawlnet.captures.warc.records, trawlnet.fleet.telling, trawlnet.net.client.inflate
names = ("zstandard", "backports.zstd", "compression.zstd")
print(json.dumps([name for name in names if name in sys.modules.keys() - python_s_own]))
"""


@pytest.mark.slow
@needs_linked
def test_one_zstd_in_a_process() -> None:
    ran = subprocess.run([sys.executable, "-c", _LOADED], cwd=ROOT, capture_output=True, check=True)
    assert json.loads(ran.stdout) == []
