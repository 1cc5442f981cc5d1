"""The report of a web crawl beside parsing its capture log alone; and its memory by size.

Run: python bench/report_web.py [captures]      (200,000 unless told; a million take 1.1 GB of disk)
Pages with eight links each, most of them to pages that nobody else links to. Ways are interleaved,
each in a process of its own; the median of three counts. Seconds of CPU without starting Python.
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from trawlnet.captures.capture import CapturedLink
from trawlnet.captures.files import LOG
from trawlnet.captures.line import CaptureLine, pack
from trawlnet.captures.log import SEGMENT_BYTES, files_of
from trawlnet.crawlers.web.survey import survey_captures

ROUNDS = 3
LINKS = 8
HOSTS = 500
LINKED_HOSTS = 5000


def report(workspace: Path) -> int:
    return survey_captures(workspace, lambda done: None).captures


def parsed(workspace: Path) -> int:
    """Every line made into objects by a general parser, and not looked at."""
    captures = 0
    for path in sorted((workspace / LOG).iterdir()):
        with path.open("rb") as file:
            for line in file:
                orjson.loads(line)
                captures += 1
    return captures


WAYS: dict[str, Callable[[Path], int]] = {"report": report, "parsing": parsed}


def make_line(number: int, captures: int, dice: random.Random) -> CaptureLine:
    def url(host: int, page: int) -> str:
        return f"https://site{host}.example/section{page % 50}/page-{page}"

    here, own = url(number % HOSTS, number), number % HOSTS
    targets = (
        url(dice.randrange(LINKED_HOSTS) if dice.random() < 0.2 else own, dice.randrange(captures))
        for _ in range(LINKS)
    )
    return CaptureLine(
        batch=number // 50,
        run="run",
        visit=f"{number:032x}",
        timestamp=1.7e9 + number / 10,
        url=here,
        http_status=200,
        final_url=here,
        page_type="page",
        depth=dice.randrange(8),
        content_type="text/html; charset=utf-8",
        content_sha256=hashlib.sha256(b"%d" % (number % (captures * 9 // 10))).hexdigest(),
        content_bytes=dice.randrange(200, 90_000),
        stored_path="store/html/aa/bb/page.html",
        fetch_latency_ms=12.5,
        links=[CapturedLink(to, "words", "words around a link") for to in targets],
    )


def make_log(workspace: Path, captures: int) -> int:
    """Its size."""
    files, dice, number, written = files_of(workspace / LOG), random.Random(1), 0, 0
    (workspace / LOG).mkdir(parents=True)
    segment = 1
    while number < captures:
        with files.segment(segment).open("wb") as file:
            while number < captures and file.tell() < SEGMENT_BYTES:
                written += file.write(pack(make_line(number, captures, dice)))
                number += 1
        segment += 1
    return written


def run_one(way: str, workspace: Path) -> None:
    begun = time.process_time()
    captures = WAYS[way](workspace)
    seconds = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "captures": captures, "peak_kb": peak}))


def measure(way: str, workspace: Path) -> dict[str, float]:
    words = [sys.executable, __file__, "--way", way, str(workspace)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(captures: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        whole, small = Path(place, "whole"), Path(place, "tenth")
        size = make_log(whole, captures)
        make_log(small, captures // 10)
        print(f"{captures:,} captures with {LINKS} links each, a log of {size / 2**20:.0f} MB")
        found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, rows in found.items():
                rows.append(measure(way, whole))
        assert {row["captures"] for rows in found.values() for row in rows} == {captures}
        middle = {
            way: statistics.median(row["seconds"] for row in rows) for way, rows in found.items()
        }
        for way, seconds in middle.items():
            print(f"{way:8} {seconds:7.2f} s   {captures / seconds:10,.0f} captures/s")
        print(f"report / parsing {middle['report'] / middle['parsing']:.2f}")
        peaks = [measure("report", where)["peak_kb"] / 1024 for where in (small, whole)]
        print(f"peak memory of the report: {peaks[0]:.0f} MB at a tenth, {peaks[1]:.0f} MB at all")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--way"]:
        run_one(sys.argv[2], Path(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
