"""A crawl's content side for the nursery: visits are written, then noted as settled.

Visit n is a page, or, for every fifth one, a revisit that finds its page unchanged.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from pathlib import Path

from tests.support.web.captures import open_discoveries
from trawlnet.captures import derived
from trawlnet.captures.capture import Capture, CapturedLink, Hop
from trawlnet.captures.files import CaptureOptions
from trawlnet.captures.sink import CaptureSink
from trawlnet.captures.warc import files as warc
from trawlnet.engine.task import Task
from trawlnet.storage import files

START = 1_700_000_000.0
BACK = 24
HEADERS = [("Content-Type", "text/html"), ("Content-Encoding", "gzip"), ("X-Odd", "a\udcffb")]


async def crawl(folder: Path) -> None:
    """Batch after batch, until killed."""
    for module in (files, warc, derived):
        module.write_all = write_in_pieces
    await work(folder, itertools.count())


async def last(folder: Path) -> None:
    """What was begun and not settled, and a few more; then a clean end."""
    await work(folder, range(max(settled(folder), default=0) + 40))


async def work(folder: Path, visits: itertools.count[int] | range) -> None:
    queue = await open_discoveries(folder, segment_bytes=10_000)
    sink = await CaptureSink.open(folder, options(folder), queue)
    done = settled(folder)
    todo = (n for n in visits if n not in done)
    while batch := list(itertools.islice(todo, random.randint(1, 12))):
        await sink.write([(task(n), [capture(n)]) for n in batch])
        note(folder, batch)
    await sink.close()
    await queue.close()


def options(folder: Path) -> CaptureOptions:
    """Everything is rotated often; every process is a run of its own."""
    started = folder / "started"
    run = len(started.read_bytes()) if started.exists() else 0
    with started.open("ab") as file:
        file.write(b".")
    return CaptureOptions(
        run=f"r{run:04d}",
        warc=True,
        zstd_level=3 if run % 2 else None,
        warc_bytes=9_000,
        csv_bytes=3_000,
        log_bytes=9_000,
        checkpoint_captures=20,
        checkpoint_every=1_000.0,
    )


def task(n: int) -> Task:
    return Task(url(n), "site.test", due=float(n) if is_revisit(n) else 0.0)


def capture(n: int) -> Capture:
    if is_revisit(n):
        return Capture(START + n, url(n), 304, metadata={"n": n}, response_headers=HEADERS)
    return Capture(
        START + n,
        url(n),
        200,
        body(n),
        hops=[Hop(url(n) + "?from", 301, [("Location", url(n))])] if n % 7 == 0 else (),
        page_type="page",
        depth=n % 4,
        referrer=url(0),
        content_type="text/html; charset=utf-8",
        etag=f'"{n}"',
        metadata={"n": n, "title": '=cmd, "quoted"\r\nand more \udc80\0'},
        request_headers=[("Host", "site.test")],
        response_headers=HEADERS,
        simhash=n * 0x9E3779B97F4A7C15 % 2**64,
        links=[CapturedLink(url(n + 1), "next,\npage")],
    )


def is_revisit(n: int) -> bool:
    return n % 5 == 4 and n >= BACK


def page(n: int) -> int:
    """Which page a visit is for: a revisit is for one of an earlier batch."""
    return n - BACK if is_revisit(n) else n


def url(n: int) -> str:
    return f"http://www.site.test/{page(n)}"


def body(n: int) -> bytes:
    """Every third page has the content of the one before."""
    same = n - 1 if n % 3 == 2 and not is_revisit(n - 1) else n
    return b"<title>%d</title>" % same + random.Random(same).randbytes(same % 900)


def settled(folder: Path) -> set[int]:
    path = folder / "settled"
    return {int(line) for line in path.read_bytes().split()} if path.exists() else set()


def note(folder: Path, numbers: list[int]) -> None:
    with (folder / "settled").open("ab") as file:
        file.write(b"".join(b"%d\n" % n for n in numbers))


def write_in_pieces(fd: int, data: bytes) -> None:
    """Slowly, so that a kill meets a half-written batch."""
    middle = random.randint(0, len(data))
    os.write(fd, data[:middle])
    time.sleep(random.choice([0, 0, 0.002]))
    os.write(fd, data[middle:])


ROLES = {"crawl": crawl, "last": last}
