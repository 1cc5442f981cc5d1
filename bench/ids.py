"""How fast one process keeps up with ids: requests over loopback, answers published durably.

A server of fixed bodies of 2 KB in a process of its own, the real `trawlnet ids crawl` in another.
Every item is published (preset json), or one in twenty (preset pgcr).

    python bench/ids.py                        60,000 ids of each preset: about two minutes
    python bench/ids.py --ids 2000000 --preset pgcr    resident memory and ledger over 2 million
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import orjson

from trawlnet.sim.ids.bodies import SimReport, pgcr

FIRST = 15_000_000_000
RATE = 50.0  # Ids a second at which the backlog came to be.
AHEAD = 1_000_000  # Ids that are left: near the head the pace is that of the head.
RAID_EVERY = 20
HOLE_EVERY = 2000  # As many holes as the real API has.
TEXT = "x" * 1900  # Makes an item of 2 KB.


class Fixed(asyncio.Protocol):
    """The least that speaks HTTP: the server must not be what is measured."""

    began = time.time()
    count = 0
    bodies: ClassVar[dict[bool, bytes]] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for request in data.split(b"\r\n\r\n")[:-1]:
            self.transport.write(self.answer(request.split(b" ", 2)[1]))

    def answer(self, path: bytes) -> bytes:
        number = int(path.strip(b"/").rsplit(b"/", 1)[1].removesuffix(b".json"))
        past = number - FIRST
        report = path.startswith(b"/Platform")
        if not 0 <= past < self.count or past % HOLE_EVERY == 1234:
            if report:
                return response(b"404 Not Found", b'{"ErrorCode":1653,"ErrorStatus":"x"}')
            return response(b"200 OK", b"null")
        ended = self.began - (self.count - past) / RATE
        if report:
            body = self.bodies[past % RAID_EVERY == 0]
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ended - 600)).encode()
            body = body.replace(b"15000000000", b"%d" % number).replace(b"PERIOD", stamp)
        else:
            body = b'{"id":%d,"time":%d,"text":"%s"}' % (number, ended, TEXT.encode())
        return response(b"200 OK", body)


def response(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


def report_of(raid: bool) -> bytes:
    """A report of about 2 KB, with places for the id and the time."""
    value = orjson.loads(pgcr(SimReport(next(_seeds(raid)), FIRST, 1.7e9, raid)))
    value["Response"]["period"] = "PERIOD"
    return orjson.dumps(value)


def _seeds(raid: bool) -> Any:
    """One player: two kilobytes."""
    for seed in range(1000):
        entries = orjson.loads(pgcr(SimReport(seed, FIRST, 1.7e9, raid)))["Response"]["entries"]
        if len(entries) == 1:
            yield seed


async def serve(count: int) -> None:
    Fixed.count, Fixed.bodies = count, {raid: report_of(raid) for raid in (True, False)}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Fixed, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def resident(pid: int) -> int:
    """Bytes of memory."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, IndexError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def crawl(port: int, preset: str, count: int, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "trawlnet", "ids", "crawl", "-w", folder]
    command += ["--base-url", f"http://127.0.0.1:{port}", "--allow-private-hosts"]
    command += ["--preset", preset, "--target", FIRST, "--buffer", 0, "--anchor", "none"]
    command += ["--max-rps", 50_000, "--max-workers", 64]
    begun = time.monotonic()
    program = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
    memory: list[int] = []
    # Not until the watermark has passed: it waits half an hour for the first hole.
    while program.poll() is None and beyond(folder) < FIRST + count:
        time.sleep(0.5)
        memory.append(resident(program.pid))
        shorten(folder)
    seconds = time.monotonic() - begun
    program.terminate()
    program.wait()
    done = int(status(folder)["done"])
    return {
        "preset": preset,
        "ids": done,
        "seconds": round(seconds, 1),
        "ids_per_s": round(done / seconds),
        "rss_mb": [round(one / 2**20) for one in memory[:: max(1, len(memory) // 10)]],
        "ledger_bytes": (folder / "state/ids/ledger/data.mdb").stat().st_size,
        "intervals": intervals(folder),
    }


def shorten(folder: Path) -> None:
    """A crawl of millions leaves many segments: those that are full are no use here."""
    for segment in sorted(folder.glob("spool/*/*.jsonl"))[:-1]:
        segment.unlink()


def beyond(folder: Path) -> int:
    try:
        return int(json.loads((folder / "state/ids/now.json").read_bytes())["beyond"])
    except (FileNotFoundError, ValueError, KeyError):
        return FIRST


def status(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "trawlnet", "ids", "status", "-w", str(folder), "--json"]
    row: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True).stdout)
    return row


def intervals(folder: Path) -> int:
    from trawlnet.stores.lmdb.spans import SpanFile

    file = SpanFile(folder / "state/ids/ledger", readonly=True)
    try:
        return file.count()
    finally:
        file.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ids", type=int, default=60_000)
    parser.add_argument("--preset", choices=("json", "pgcr"))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        import uvloop

        uvloop.run(serve(given.ids))
        return
    for preset in (given.preset,) if given.preset else ("json", "pgcr"):
        folder = Path(tempfile.mkdtemp(prefix="ids-bench-"))
        server = subprocess.Popen(
            [sys.executable, __file__, "--serve", "--ids", str(given.ids + AHEAD)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            print(json.dumps(crawl(port, preset, given.ids, folder / "w")), flush=True)
        finally:
            server.kill()
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
