"""Writers of segments for the nursery: the right one, and three that break a rule on purpose."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from tests.support.repos.made_segments import make_block
from trawlnet.archive import segment_file, writer
from trawlnet.archive.sink import SegmentSink
from trawlnet.engine.task import Task

SEGMENT_BYTES = 20_000
BATCH = 7
EXPOSED = "exposed"


def did_of(number: int) -> str:
    return f"did:plc:{number:06d}"


def make(number: int) -> bytes:
    dice = random.Random(number)
    rows = {
        f"k{n:03d}": b'{"n":"%s"}' % dice.randbytes(20).hex().encode() for n in range(number % 9)
    }
    return make_block(did_of(number), number + 1, {"a.b.c": rows} if rows else {})


def acknowledged(folder: Path) -> list[int]:
    """Whole lines only; a kill may have torn the last one."""
    path = folder / "acknowledged"
    text = path.read_text() if path.exists() else ""
    return [int(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


async def sound(folder: Path, *, ack_first: bool = False) -> None:
    """Write on behind what is acknowledged, as a crawl does behind what is settled."""
    sink = await SegmentSink.open(folder / "archive", time.time, SEGMENT_BYTES)
    first = next_number = max(acknowledged(folder), default=-1) + 1
    stop = folder / "stop"
    fd = os.open(folder / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while not stop.exists():
        numbers = range(next_number, next_number + BATCH)
        lines = "".join(f"{number}\n" for number in numbers).encode()
        if ack_first:
            os.write(fd, lines)
            if next_number > first:  # The first may be there: written by the one before us.
                exposed(folder)
        await sink.write([(Task(did_of(n), "lane"), [make(n)]) for n in numbers])
        if not ack_first:
            os.write(fd, lines)
        next_number += BATCH
    await sink.close()


def exposed(folder: Path) -> None:
    """Say that harm is done unless somebody goes on here, and wait for the kill."""
    (folder / EXPOSED).touch()
    time.sleep(3600)


async def acknowledge_first(folder: Path) -> None:
    """Breaks "done only when written"."""
    await sound(folder, ack_first=True)


async def start_over(folder: Path) -> None:
    """Breaks "never overwrite": segments are emptied on opening, as if they were new."""
    for path in (folder / "archive").glob("*.rca"):
        os.truncate(path, 64)
        with path.open("r+b") as file:
            file.seek(20)
            file.write(bytes(12))
    exposed(folder)


async def header_first(folder: Path) -> None:
    """Breaks "the header points to an index that is there": it is rewritten before the index."""

    def finalise(self: segment_file.SegmentFile) -> None:
        header = segment_file.rca.Header(1, len(self.entries), self.size)
        os.pwrite(self._fd, segment_file.rca.encode_header(header), 0)
        exposed(folder)

    segment_file.SegmentFile.finalise = finalise  # type: ignore[method-assign]
    assert writer.SegmentFile is segment_file.SegmentFile
    await sound(folder)


ROLES = {
    "sound": sound,
    "acknowledge_first": acknowledge_first,
    "start_over": start_over,
    "header_first": header_first,
}
