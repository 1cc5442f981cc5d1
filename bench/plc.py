"""What mirroring the PLC directory costs: CPU of the mirror for each operation, from its start.

Run: python bench/plc.py [--peer SRC] [--operations N]
A process of its own serves a numbered export of made-up operations in pages of a thousand, as fast
as they are asked for. Each round mirrors it into fresh embedded tables, in a process whose CPU time
counts, all threads of it; with --peer a round by that other `src` follows. Rounds are interleaved;
the median of five counts. What is stored must be the same.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from record import record
from trawlnet.crawlers.atproto.mirror import PlcMirror
from trawlnet.crawlers.atproto.reader import Directory
from trawlnet.engine.gate import Gate
from trawlnet.engine.rules import Manners
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Query

ROUNDS = 5
PAGE = 1000
AGENT = "trawlnet-bench (+https://trawlnet.invalid/about)"
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_UPDATES = 0.4  # Of all operations.
_LARGE = [f"https://shard{n}.us-east.host.bsky.network" for n in range(80)]
_SMALL = [f"https://pds{n}.example.net" for n in range(3000)]
_BEGUN = 1_700_000_000_000  # Milliseconds.


def lines(count: int) -> list[bytes]:
    chance = random.Random(1)

    def word(letters: str, size: int) -> str:
        return "".join(chance.choices(letters, k=size))

    rotation = [f"did:key:zQ3sh{word(_BASE58, 44)}" for _ in range(2)]
    last: list[list[str]] = []  # DID and CID.
    out = []
    for seq in range(1, count + 1):
        cid, prev = f"bafyrei{word(_BASE32, 52)}", None
        if last and chance.random() < _UPDATES:
            account = last[chance.randrange(len(last))]
            did, prev = account
            account[1] = cid
        else:
            did = f"did:plc:{word(_BASE32, 24)}"
            last.append([did, cid])
        endpoint = chance.choice(_LARGE if chance.random() < 0.9 else _SMALL)
        operation = {
            "sig": word(_BASE58, 86),
            "prev": prev,
            "type": "plc_operation",
            "services": {
                "atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": endpoint}
            },
            "alsoKnownAs": [f"at://user{seq}.bsky.social"],
            "rotationKeys": rotation,
            "verificationMethods": {"atproto": f"did:key:zQ3sh{word(_BASE58, 44)}"},
        }
        moment = datetime.fromtimestamp((_BEGUN + 40 * seq) / 1000, UTC)
        created = moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        line = {"type": "sequenced_op", "seq": seq, "did": did, "operation": operation}
        out.append(orjson.dumps({**line, "cid": cid, "createdAt": created}))
    return out


def serve(pipe: Connection, count: int) -> None:
    log = lines(count)

    async def export(request: web.Request) -> web.Response:
        after = int(request.query["after"])
        return web.Response(body=b"\n".join(log[after : after + PAGE]))

    async def main() -> None:
        app = web.Application()
        app.router.add_get("/export", export)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pipe.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(main())


_CONTENTS = (
    "SELECT count(), sum(cityHash64(*)) FROM plc_operations FINAL",
    "SELECT count(), sum(cityHash64(*)) FROM plc_did_state FINAL",
)


async def mirror_once(url: str) -> dict[str, Any]:
    clock = SystemClock()
    gate = Gate(clock, Manners(rate=1e6, concurrency=1, block_at=1 << 30))
    guard = Guard(allow_private=True)
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder) / "tables") as tables:
            begun, wall = time.process_time(), time.monotonic()
            async with Http(gate, clock, AGENT, guard=guard) as http:
                directory = Directory(url, http, gate, clock, allow_private=False)
                mirror = PlcMirror(directory, tables, asyncio.Event())
                await mirror.run(lambda tally: None)
            taken, waited = time.process_time() - begun, time.monotonic() - wall
            held = [await tables.rows(Query("contents", sql)) for sql in _CONTENTS]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    digest = hashlib.sha256(repr(held).encode()).hexdigest()[:12]
    figures = {"operations": mirror.tally.operations, "cpu": taken, "wall": waited}
    return {**figures, "peak_mb": peak, "contents": digest}


def by(source: Path, url: str) -> dict[str, Any]:
    """A round in a process of its own, by the code of that folder."""
    command = [sys.executable, __file__, "--once", url]
    env = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--once", metavar="URL")
    given = parser.parse_args()
    if given.once:
        print(json.dumps(asyncio.run(mirror_once(given.once))))
        return
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    server = context.Process(target=serve, args=(theirs, given.operations), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ours.recv()}"
    ways = {"now": Path(__file__).parents[1] / "src"}
    if given.peer:
        ways["peer"] = given.peer
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    for _ in range(given.rounds):
        for name, source in ways.items():
            rounds[name].append(by(source, url))
    server.terminate()
    server.join()
    assert len({one["contents"] for all_of in rounds.values() for one in all_of}) == 1
    first = statistics.median(one["cpu"] for one in rounds["now"])
    for name, all_of in rounds.items():
        cpu = statistics.median(one["cpu"] for one in all_of)
        peak = max(one["peak_mb"] for one in all_of)
        each = cpu / given.operations * 1e6
        print(f"{name:5} {each:6.1f} us of CPU each, {cpu / first:5.2f} of now, {peak} MB at most")
        if name == "peer":
            record("plc", {"CPU of the code before / of rows in C, heads remembered": cpu / first})


if __name__ == "__main__":
    main()
