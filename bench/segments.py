"""A segment on disk: writing beside a plain file, counting beside unpacking, finding one repo.

Run: python bench/segments.py [size]      (64MB unless told; 1GB is what the figures are quoted for)
Repositories of about a thousand records each. Ways are interleaved; the median of five counts.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from record import record
from tests.support.repos.made_repos import make_car, make_record
from trawlnet.archive.format import rca, repoblock
from trawlnet.archive.lookup import look_up, records
from trawlnet.archive.segment_file import check
from trawlnet.archive.tally import inspect, tally
from trawlnet.archive.verify import verify_segment
from trawlnet.archive.writer import SegmentWriter
from trawlnet.crawlers.units import parse_size

ROUNDS = 5
BATCH = 64  # Repositories that are made durable together.
MOULDS = 32  # Different repositories; the DID makes each copy one of its own.
RECORDS = 1000
COLLECTIONS = ("app.bsky.feed.like", "app.bsky.feed.post", "app.bsky.graph.follow")


def make_mould(seed: int) -> list[rca.PackedCollection]:
    dice = random.Random(seed)
    paths = sorted(
        {f"{dice.choice(COLLECTIONS)}/3k{dice.randrange(10**9):09d}" for _ in range(RECORDS)}
    )
    content = repoblock.extract(make_car({path: make_record(dice) for path in paths}))
    block = repoblock.encode_content(content, pds="", crawled_at_us=1, zstd_level=3)
    head = rca.parse_block(block)
    return [
        rca.PackedCollection(one.name, one.records, block[one.start : one.end])
        for one in head.collections
    ]


def did_of(number: int) -> str:
    return f"did:plc:{random.Random(number).randrange(32**15):024d}"


def make_blocks(size: int) -> Iterator[bytes]:
    moulds = [make_mould(seed) for seed in range(MOULDS)]
    made = number = 0
    while made < size:
        block = rca.encode_block(
            did_of(number), "https://pds.example", "3lscuqc52or2x", number, moulds[number % MOULDS]
        )
        yield block
        made += len(block)
        number += 1


def batches(blocks: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(blocks), BATCH):
        yield blocks[start : start + BATCH]


def write_segment(folder: Path, blocks: list[bytes]) -> None:
    writer = SegmentWriter(folder, time.time, 1 << 40)
    for batch in batches(blocks):
        writer.append([check(block) for block in batch])
    writer.close()


def write_plain(folder: Path, blocks: list[bytes]) -> None:
    """What any writer has to pay that says done only when it is."""
    folder.mkdir()
    with (folder / "plain").open("wb", buffering=0) as file:
        for batch in batches(blocks):
            file.write(b"".join(batch))
            os.fsync(file.fileno())


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def median_of(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, call in ways.items():
            taken[name].append(seconds(call))
    return {name: statistics.median(times) for name, times in taken.items()}


def cpu_of(call: Callable[[], object]) -> float:
    """The median of rounds, which a busy machine changes little."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        call()
        taken.append(time.process_time() - begun)
    return statistics.median(taken)


def measure_writing(home: Path, blocks: list[bytes]) -> None:
    def fresh(write: Callable[[Path, list[bytes]], None]) -> Callable[[], None]:
        def run() -> None:
            folder = home / "written"
            write(folder, blocks)
            shutil.rmtree(folder)

        return run

    times = median_of({"segments": fresh(write_segment), "plain": fresh(write_plain)})
    size = sum(map(len, blocks)) / 1e6
    for name, taken in times.items():
        print(f"write {name:10} {size / taken:8.0f} MB/s   fsync every {BATCH} repos")
    print(f"segments / plain   {times['plain'] / times['segments']:8.2f}")


def cat(archive: Path, did: str) -> int:
    found = look_up(archive, did)
    assert found.block and found.segment
    return sum(1 for _ in records(found.segment, found.block, lambda name: True))


def command(*arguments: str) -> Callable[[], None]:
    def run() -> None:
        line = [sys.executable, "-m", "trawlnet", *arguments]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return run


def measure_reading(archive: Path, repos: int) -> None:
    path = archive / "segment_0001.rca"
    size = path.stat().st_size / 1e6
    dice = random.Random(5)
    wanted = [did_of(dice.randrange(repos)) for _ in range(ROUNDS * 20)]
    ways: dict[str, Callable[[], object]] = {
        "tally": lambda: tally(archive),
        "inspect": lambda: inspect(path),
        "verify": lambda: verify_segment(path),
        "find": lambda: look_up(archive, dice.choice(wanted)),
        "cat": lambda: cat(archive, dice.choice(wanted)),
        "version, as a command": command("version"),
        "tally, as a command": command("repos", "tally", str(archive)),
        "inspect, as a command": command("repos", "inspect", str(path)),
        "cat, as a command": command("repos", "cat", str(archive), "--did", wanted[0]),
    }
    times = median_of(ways)
    for name, taken in times.items():
        print(f"{name:24} {taken * 1000:10.2f} ms   {size / taken:10.0f} MB/s")
    print(f"tally / inspect          {times['inspect'] / times['tally']:10.0f} times as fast")
    ratio = times["inspect, as a command"] / times["tally, as a command"]
    told = "CPU of inspect, which unpacks / tally, which reads tables of contents"
    record("segments", {told: cpu_of(ways["inspect"]) / cpu_of(ways["tally"])})
    print(f"tally / inspect          {ratio:10.0f} times, as commands with their start")


def main() -> None:
    size = parse_size(sys.argv[1] if len(sys.argv) > 1 else "64MB")
    assert isinstance(size, int)
    home = Path(tempfile.mkdtemp(prefix="bench-segments-", dir="."))
    try:
        blocks = list(make_blocks(size))
        heads = [rca.parse_block(block) for block in blocks]
        count = sum(one.records for head in heads for one in head.collections)
        print(f"{size / 1e6:.0f} MB, {len(blocks):,} repos, {count:,} records")
        measure_writing(home, blocks)
        write_segment(home / "archive", blocks)
        repos = len(blocks)
        del blocks, heads
        measure_reading(home / "archive", repos)
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
