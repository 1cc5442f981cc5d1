"""Records from a decompressed collection into chDB: our columns of bytes beside the usual ways.

All of them in one process, interleaved, median of five; CPU seconds of the whole process, so that
the engine's own threads count.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa

from trawlnet.archive.format.rca import iter_records
from trawlnet.crawlers.repos.replay.unpack import unpack
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import statement
from trawlnet.tables.clickhouse.records import RecordBatch, RepoRow

ROWS = 100_000
ROUNDS = 5
REPO = RepoRow("did:plc:ewvi7nxzyoun6zhxrhs64oiz", "https://pds.social", "3jui", ROWS, 10**15)
NAMES = ("repo", "collection", "rkey", "operation", "record_json", "created_at", "time_us")


def made_entries() -> bytes:
    rng = random.Random(1)
    parts = []
    for number in range(ROWS):
        text = " ".join(rng.choices(("one", "two", "three", "four"), k=20))
        record = {"$type": "app.bsky.feed.post", "text": text, "createdAt": "2024-01-01T00:00:00Z"}
        body = orjson.dumps(record | {"n": rng.getrandbits(60)})
        parts.append(struct.pack("<H", 13) + f"3k{number:011}".encode())
        parts.append(struct.pack("<I", len(body)) + body)
    return b"".join(parts)


def native(entries: bytes) -> bytes:
    batch = RecordBatch()
    for piece in unpack(entries, ROWS):
        batch.add(REPO, "app.bsky.feed.post", piece)
    return batch.block()


def json_rows(entries: bytes) -> bytes:
    fixed = (REPO.repo, "app.bsky.feed.post")
    values = (
        (*fixed, rkey, "create", body.decode(), REPO.time_us / 1e6, REPO.time_us)
        for rkey, body in iter_records(entries, ROWS)
    )
    return b"\n".join(orjson.dumps(dict(zip(NAMES, row, strict=True))) for row in values)


def arrow(entries: bytes) -> bytes:
    rows = list(iter_records(entries, ROWS))
    columns = {
        "repo": pa.array([REPO.repo] * ROWS),
        "collection": pa.array(["app.bsky.feed.post"] * ROWS),
        "rkey": pa.array([row.rkey for row in rows]),
        "operation": pa.array(["create"] * ROWS),
        "record_json": pa.array([row.json for row in rows], pa.binary()),
        "created_at": pa.array([REPO.time_us] * ROWS, pa.timestamp("us")),
        "time_us": pa.array([REPO.time_us] * ROWS, pa.int64()),
    }
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


WAYS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "columns of bytes (ours)": (native, "Native"),
    "Arrow": (arrow, "ArrowStream"),
    "JSON rows": (json_rows, "JSONEachRow"),
}


async def main() -> None:
    entries = made_entries()
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder) / "tables") as tables:
            session = tables._session  # The other ways need formats that our contract leaves out.
            for _ in range(ROUNDS):
                for name, (make, layout) in WAYS.items():
                    begun = time.process_time()
                    body = make(entries)
                    made = time.process_time()
                    with session.send_insert(statement("insert_repo_records").text, layout) as one:
                        one.append(body)
                        one.finish()
                    spent[name].append((made - begun, time.process_time() - made))
    print(f"{'records per CPU-second':<26} {'build':>12} {'insert':>12} {'both':>12}")
    for name, rounds in spent.items():
        build = statistics.median(one for one, _ in rounds)
        insert = statistics.median(two for _, two in rounds)
        figures = (ROWS / seconds for seconds in (build, insert, build + insert))
        print(f"{name:<26}" + "".join(f" {figure:>12,.0f}" for figure in figures))


if __name__ == "__main__":
    asyncio.run(main())
