"""The report of an archive beside `tally` and beside unpacking alone; and its memory by size.

Run: python bench/report.py [records]      (1,000,000 unless told)
Repositories of about a thousand records each, in segments of 4 MB. Ways are interleaved, each in
a process of its own so that memory is its own; the median of five counts. Seconds of CPU, so
that a busy machine changes them little; starting Python is left out. "plain" is the report where
no C was compiled.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import orjson

from tests.support.repos.made_segments import pack
from trawlnet.archive.format import rca
from trawlnet.archive.reader import find_segments, open_segment, read_collection
from trawlnet.archive.segment_file import check
from trawlnet.archive.survey import survey
from trawlnet.archive.tally import Tally, sound_blocks, tally
from trawlnet.archive.writer import SegmentWriter

ROUNDS = 5
RECORDS = 1000  # Of one repository.
MOULDS = 16
SEGMENT_BYTES = 4 << 20
COLLECTIONS = ("app.bsky.feed.like", "app.bsky.feed.post", "app.bsky.graph.follow")
LANGUAGES = ("en", "pt-BR", "ja", "de")


def report(folder: Path) -> int:
    return survey(folder).tally.records


def counted(folder: Path) -> int:
    return tally(folder).records


def unpacked(folder: Path) -> int:
    """Every block read and decompressed, and not looked at."""
    records = 0
    for path in find_segments(folder):
        segment = open_segment(path)
        with segment.open() as fd:
            for block in sound_blocks(segment, fd, Tally()):
                for collection in block.head.collections:
                    read_collection(fd, block, collection)
                    records += collection.records
    return records


WAYS: dict[str, Callable[[Path], int]] = {
    "report": report,
    "plain": report,
    "tally": counted,
    "unpacking": unpacked,
}


def make_mould(seed: int) -> list[rca.PackedCollection]:
    dice = random.Random(seed)
    words = [f"word{dice.randrange(5000)}" for _ in range(500)]
    made: dict[str, dict[str, bytes]] = {name: {} for name in COLLECTIONS}
    for number in range(RECORDS):
        name = dice.choice(COLLECTIONS)
        day = f"{dice.randrange(2023, 2026)}-{dice.randrange(1, 13):02}-11T08:00:00.000Z"
        record = {"$type": name, "createdAt": day}
        if "post" in name:
            text = " ".join(dice.choices(words, k=20))
            record |= {"text": text, "langs": [dice.choice(LANGUAGES)]}
        else:
            record |= {"subject": f"did:plc:{dice.randrange(32**15):024d}"}
        made[name][f"3k{number:09d}"] = orjson.dumps(record)
    return [pack(name, records) for name, records in made.items()]


def make_archive(folder: Path, records: int) -> None:
    moulds = [make_mould(seed) for seed in range(MOULDS)]

    def blocks() -> Iterator[bytes]:
        for number in range(records // RECORDS):
            did = f"did:plc:{random.Random(number).randrange(32**15):024d}"
            host = f"https://pds{number % 40}.example"
            yield rca.encode_block(did, host, "3lscuqc52or2x", 1, moulds[number % MOULDS])

    writer = SegmentWriter(folder, time.time, SEGMENT_BYTES)
    batch: list[bytes] = []
    for block in blocks():
        batch.append(block)
        if len(batch) == 64:
            writer.append([check(one) for one in batch])
            batch = []
    writer.append([check(one) for one in batch])
    writer.close()


def run_one(way: str, folder: Path) -> None:
    begun = time.process_time()
    records = WAYS[way](folder)
    seconds = time.process_time() - begun
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"seconds": seconds, "records": records, "peak_kb": int(peak.split()[1])}))


def measure(way: str, folder: Path) -> dict[str, float]:
    words = [sys.executable, __file__, "--way", way, str(folder)]
    environment = os.environ | {"TRAWLNET_NATIVE": "0" if way == "plain" else "require"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(records: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, small = Path(place, "whole"), Path(place, "tenth")
        make_archive(folder, records)
        make_archive(small, records // 10)
        size = sum(path.stat().st_size for path in folder.glob("*.rca"))
        print(f"{records:,} records in {size / 2**20:.0f} MB, {len(list(folder.iterdir()))} files")
        found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, seen in found.items():
                seen.append(measure(way, folder))
        assert len({row["records"] for rows in found.values() for row in rows}) == 1
        middle = {
            way: statistics.median(row["seconds"] for row in rows) for way, rows in found.items()
        }
        for way, seconds in middle.items():
            print(f"{way:10} {seconds:7.3f} s   {records / seconds / 1e6:6.2f} M records/s")
        print(f"report / unpacking {middle['report'] / middle['unpacking']:.2f}")
        print(f"report / tally     {middle['report'] / middle['tally']:.0f}")
        both = middle["report"] / (middle["tally"] + middle["unpacking"])
        print(f"report / (tally + unpacking) {both:.2f}")
        peaks = [
            statistics.median(measure("report", where)["peak_kb"] for _ in range(3))
            for where in (small, folder)
        ]
        print(f"peak memory of the report: {peaks[0] / 1024:.1f} MB at a tenth of the archive,"
              f" {peaks[1] / 1024:.1f} MB at all of it")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--way"]:
        run_one(sys.argv[2], Path(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
