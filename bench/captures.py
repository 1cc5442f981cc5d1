"""What writing a capture costs: processor time and rate, with and without WARC, beside warcio.

    python bench/captures.py [--captures 1024] [--batch 64] [--rounds 5]

Pages of 17 KB of words with 30 links, batches as the engine makes them, all durable. The rounds of
all ways are interleaved; medians are printed. The peer writes the same responses with warcio, as
one file without syncing, so it is to be compared with what WARC adds.
"""

from __future__ import annotations

import argparse
import io
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from record import record
from trawlnet.captures.capture import Capture, CapturedLink
from trawlnet.captures.files import CaptureFiles, CaptureOptions
from trawlnet.engine.task import Task

HEADERS = [("Content-Type", "text/html; charset=utf-8"), ("Server", "nginx"), ("ETag", '"abc"')]
WORDS = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text().split()
PAGE_BYTES = 17_000

WAYS: dict[str, Callable[[str], CaptureOptions]] = {
    "bodies": lambda run: CaptureOptions(run, edges=False),
    "bodies, edges": CaptureOptions,
    "zstd bodies, edges": lambda run: CaptureOptions(run, zstd_level=3),
    "bodies, edges, WARC gzip": lambda run: CaptureOptions(run, warc=True),
    "bodies, edges, WARC zstd": lambda run: CaptureOptions(run, warc=True, warc_zstd_level=3),
}


PEER = "(peer) warcio, WARC gzip only"


def pages(count: int) -> list[Capture]:
    dice = random.Random(1)
    links = [CapturedLink(f"http://127.0.0.1:8080/{n}.html", f"page number {n}") for n in range(30)]
    return [
        Capture(
            1_700_000_000.0 + n / 1000,
            f"http://127.0.0.1:8080/{n}.html",
            200,
            " ".join(dice.choices(WORDS, k=PAGE_BYTES // 6)).encode()[:PAGE_BYTES],
            page_type="page",
            depth=2,
            referrer="http://127.0.0.1:8080/",
            content_type="text/html; charset=utf-8",
            response_headers=HEADERS,
            simhash=dice.getrandbits(64),
            links=links,
        )
        for n in range(count)
    ]


def ours(captures: list[Capture], batch: int, options: CaptureOptions) -> tuple[float, float]:
    """Processor time and wall time per capture, in microseconds."""
    workspace = Path(tempfile.mkdtemp())
    files = CaptureFiles(workspace, options)
    tasks = [(Task(capture.url, "lane"), capture) for capture in captures]
    cpu, wall = time.process_time(), time.perf_counter()
    for first in range(0, len(tasks), batch):
        files.write(tasks[first : first + batch])
    spent = time.process_time() - cpu, time.perf_counter() - wall
    files.close()
    shutil.rmtree(workspace)
    return spent[0] / len(captures) * 1e6, spent[1] / len(captures) * 1e6


def peer(captures: list[Capture]) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    with tempfile.TemporaryFile() as file:
        writer = WARCWriter(file, gzip=True, warc_version="1.1")
        for capture in captures:
            head = StatusAndHeaders("200 OK", HEADERS, protocol="HTTP/1.1")
            body = io.BytesIO(capture.body or b"")
            writer.write_record(
                writer.create_warc_record(
                    capture.url, "response", payload=body, length=PAGE_BYTES, http_headers=head
                )
            )
    spent = time.process_time() - cpu, time.perf_counter() - wall
    return spent[0] / len(captures) * 1e6, spent[1] / len(captures) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    captures = pages(asked.captures)
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(asked.rounds):
        for way, options in WAYS.items():
            found.setdefault(way, []).append(ours(captures, asked.batch, options("bench")))
        found.setdefault(PEER, []).append(peer(captures))
    print(f"{'':32s}{'us cpu':>8s}{'min':>8s}{'per s':>8s}")
    for way, rounds in found.items():
        cpu = [one[0] for one in rounds]
        wall = statistics.median(one[1] for one in rounds)
        print(f"{way:32s}{statistics.median(cpu):8.0f}{min(cpu):8.0f}{1e6 / wall:8.0f}")
    medians = {way: statistics.median(one[0] for one in rounds) for way, rounds in found.items()}
    ratios = {
        f"CPU of warcio, WARC alone / ours, {way}": medians[PEER] / medians[way] for way in WAYS
    }
    record("captures", ratios)


if __name__ == "__main__":
    main()
