"""Producers and consumers of a spool for the nursery: sound ones, and one that acks too early."""

from __future__ import annotations

import asyncio
import os
import random
import time
import zlib
from contextlib import aclosing
from pathlib import Path

from trawlnet.queues import spool_reader
from trawlnet.queues.queue import Delivery, QueueOptions
from trawlnet.queues.spool import Spool
from trawlnet.storage import files

OPTIONS = QueueOptions(segment_bytes=20_000, backlog_bytes=60_000, poll=0.002)


async def produce(folder: Path) -> None:
    """Batch after batch; what is about to be published and what was is noted in two logs."""
    files.write_all = write_in_pieces
    spool = Spool(folder / "finds", "finds", OPTIONS)
    first = 1 + max(read_log(folder / "attempted"), default=-1)
    while True:
        keys = range(first, first + random.randint(1, 6))
        first = keys.stop
        note(folder / "attempted", keys)
        await spool.publish([message(key) for key in keys])
        note(folder / "published", keys)


async def consume(folder: Path, drain: bool = False, eager: bool = False) -> None:
    """Work and then ack, out of order; the eager one acks, and is killed before it works."""
    spool_reader.SAVE_EVERY = 1
    spool = Spool(folder / "finds", "finds", OPTIONS)
    held: list[Delivery] = []
    async with aclosing(spool.consume(drain=drain)) as deliveries:
        async for delivery in deliveries:
            held.append(delivery)
            if len(held) == 3 or drain:
                random.shuffle(held)
                for each in held:
                    if not eager:
                        work(folder, each)
                    await each.ack()
                if eager:
                    await asyncio.sleep(3600)
                held.clear()


def work(folder: Path, delivery: Delivery) -> None:
    whole = delivery.body == message(delivery.body["key"])
    note(folder / ("worked" if whole else "broken"), [delivery.body["key"]])


def message(key: int) -> dict[str, object]:
    return {"key": key, "body": f"{zlib.crc32(str(key).encode()):08x}" * (key % 50)}


def write_in_pieces(fd: int, data: bytes) -> None:
    """The kernel may take a write in parts: with slow small ones most kills tear a line."""
    for at in range(0, len(data), 97):
        os.write(fd, data[at : at + 97])
        time.sleep(0.0003)


def note(path: Path, keys: object) -> None:
    """In the page cache at once, so it survives the death of the process that wrote it."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, "".join(f"{key}\n" for key in keys).encode())  # type: ignore[attr-defined]
    os.close(fd)


def read_log(path: Path) -> list[int]:
    return [int(line) for line in path.read_bytes().split()] if path.exists() else []


ROLES = {
    "producer": produce,
    "consumer": consume,
    "eager": lambda folder: consume(folder, eager=True),
    "last": lambda folder: consume(folder, drain=True),
}
