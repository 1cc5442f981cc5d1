"""A crawl of repositories from sockets to synced segments: `trawlnet repos crawl`, and a peer.

    .venv/bin/python bench/repos.py [--rounds 5] [--repos 600] [--records 5000]

A server in its own process holds the repositories in memory, so that it costs both sides little.
Ours is the command as people run it, full verification included (hashes, tree, signature). The
peer is what a competent user writes with libipld, orjson and zstandard: two processes, each with
aiohttp and eight requests under way, writing the same blocks and syncing every sixteen; it
verifies nothing. Interleaved, medians; wall time includes the start of Python on both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

import aiohttp
import zstandard
from aiohttp import web

from repo_block import BASE32, CRAWLED_AT_US, LEVEL, made_record, peer_block
from trawlnet.formats.dagcbor import encode
from trawlnet.formats.keys import Curve, PrivateKey
from trawlnet.formats.repo import build_repo_of_blocks
from trawlnet.formats.tid import tid

PEERS = 2
UNDER_WAY = 8  # Requests of one peer process.
SYNC_EVERY = 16  # Blocks.
SIGNER = PrivateKey(Curve.P256, 1234567)


@dataclass(frozen=True)
class Served:
    base: str
    dids: list[str]
    size: int  # Bytes of all repositories.


def made_world(repos: int, records: int) -> dict[str, bytes]:
    """DID to CAR. Records differ between repositories only in part: they are costly to make."""
    rng = random.Random(records)
    pool = [made_record(rng, n) for n in range(records)]
    packed = [(collection, encode(value)) for collection, value in pool]
    world = {}
    for number in range(repos):
        did = "did:plc:" + "".join(rng.choices(BASE32, k=24))
        keyed = {
            f"{collection}/{tid(CRAWLED_AT_US - n * 977_131 - number)}": data
            for n, (collection, data) in enumerate(packed)
        }
        repo = build_repo_of_blocks(did, keyed, SIGNER, tid(CRAWLED_AT_US))
        world[did] = repo.car(rng)
    return world


def serve(repos: int, records: int, ready: multiprocessing.Queue[Served]) -> None:
    world = made_world(repos, records)

    async def repository(request: web.Request) -> web.Response:
        car = world[request.query["did"]]
        return web.Response(body=car, content_type="application/vnd.ipld.car")

    async def document(request: web.Request) -> web.Response:
        did = request.match_info["did"]
        key = {
            "id": f"{did}#atproto",
            "type": "Multikey",
            "controller": did,
            "publicKeyMultibase": SIGNER.public.multibase,
        }
        service = {
            "id": "#atproto_pds",
            "type": "AtprotoPersonalDataServer",
            "serviceEndpoint": f"http://{request.host}",
        }
        return web.json_response({"id": did, "verificationMethod": [key], "service": [service]})

    async def main() -> None:
        app = web.Application()
        app.router.add_get("/xrpc/com.atproto.sync.getRepo", repository)
        app.router.add_get("/{did}", document)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.put(Served(base, list(world), sum(map(len, world.values()))))
        await asyncio.Event().wait()

    asyncio.run(main())


@contextmanager
def serving(repos: int, records: int) -> Iterator[Served]:
    # Spawned, and the world made there: a forked child's peak would count this process's memory.
    spawn = multiprocessing.get_context("spawn")
    ready: multiprocessing.Queue[Served] = spawn.Queue()
    server = spawn.Process(target=serve, args=(repos, records, ready), daemon=True)
    server.start()
    try:
        yield ready.get()
    finally:
        server.kill()
        server.join()


def peer_process(base: str, dids: list[str], output: Path) -> None:
    """One of the two: fetch, decode, compress, append, sync."""

    async def main() -> None:
        compressor = zstandard.ZstdCompressor(level=LEVEL)
        queue = iter(dids)
        unsynced = 0
        with output.open("wb") as file:

            async def fetch(session: aiohttp.ClientSession) -> None:
                nonlocal unsynced
                for did in queue:
                    url = f"{base}/xrpc/com.atproto.sync.getRepo?did={did}"
                    async with session.get(url) as response:
                        car = await response.read()
                    file.write(peer_block(car, compressor, verify=False, keep_cids=False))
                    unsynced += 1
                    if unsynced == SYNC_EVERY:
                        file.flush()
                        os.fsync(file.fileno())
                        unsynced = 0

            async with aiohttp.ClientSession() as session:
                await asyncio.gather(*(fetch(session) for _ in range(UNDER_WAY)))
            file.flush()
            os.fsync(file.fileno())

    asyncio.run(main())


@dataclass(frozen=True)
class Run:
    wall: float
    cpu: float
    peak: int  # Bytes; the largest process.


def timed(commands: list[list[str]]) -> Run:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    started = [
        subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for command in commands
    ]
    peak = 0
    for process in started:
        assert process.stderr
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise SystemExit(f"{' '.join(process.args)}\n{said.decode()}")
        peak = max(peak, usage.ru_maxrss * 1024)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall, cpu, peak)


def ours(base: str, dids: Path, folder: Path) -> Run:
    flags = [
        *("--source", "file", "--dids", str(dids), "--allow-private-hosts"),
        # The directory is a host of its own, as in life.
        *("--plc-url", base.replace("127.0.0.1", "localhost")),
        *("--plc-rps", "1000", "--default-pds-rps", "1000", "--small-pds-rps", "1000"),
        *("--large-pds-rps", "1000", "--pds-concurrency", "8"),
    ]
    workspace = str(folder / "ours")
    return timed([[sys.executable, "-m", "trawlnet", "repos", "crawl", "-w", workspace, *flags]])


def peer(base: str, dids: Path, folder: Path) -> Run:
    me = str(Path(__file__).resolve())
    return timed(
        [
            [sys.executable, me, "--peer", base, str(dids), str(n), str(folder / f"peer{n}.rca")]
            for n in range(PEERS)
        ]
    )


def check(folder: Path, repos: int, records: int) -> None:
    """A result counts only if it is right."""
    told = subprocess.run(
        [
            sys.executable,
            "-m",
            "trawlnet",
            "repos",
            "tally",
            str(folder / "ours/archive"),
            "--json",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=True,
    )
    tally = json.loads(told.stdout.splitlines()[-1])
    if (tally["repos"], tally["records"]) != (repos, repos * records):
        raise SystemExit(f"wrong result: {tally}")


def main() -> None:
    if sys.argv[1:2] == ["--peer"]:
        base, dids, number, output = sys.argv[2:]
        mine = Path(dids).read_text().split()[int(number) :: PEERS]
        peer_process(base, mine, Path(output))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repos", type=int, default=600)
    parser.add_argument("--records", type=int, default=5000)
    arguments = parser.parse_args()
    total = arguments.repos * arguments.records
    runs: dict[str, list[Run]] = {"ours": [], "peer": []}
    with serving(arguments.repos, arguments.records) as world:
        print(
            f"{arguments.repos} repositories of {arguments.records} records, "
            f"{world.size / 1e6:.0f} MB"
        )
        for _ in range(arguments.rounds):
            folder = Path(tempfile.mkdtemp(prefix="trawlnet-bench-"))
            try:
                dids = folder / "dids.txt"
                dids.write_text("\n".join(world.dids) + "\n")
                runs["ours"].append(ours(world.base, dids, folder))
                check(folder, arguments.repos, arguments.records)
                runs["peer"].append(peer(world.base, dids, folder))
            finally:
                shutil.rmtree(folder)
    print(f"load average {os.getloadavg()[0]:.1f}, median of {arguments.rounds}, interleaved")
    print(f"{'':6}{'records/s':>12}{'per CPU-second':>16}{'wall s':>8}{'CPU s':>8}{'peak MB':>9}")
    middle = {}
    for name, taken in runs.items():
        wall, cpu = median(run.wall for run in taken), median(run.cpu for run in taken)
        peak = max(run.peak for run in taken) / 1e6
        middle[name] = (wall, cpu)
        print(f"{name:6}{total / wall:12,.0f}{total / cpu:16,.0f}{wall:8.2f}{cpu:8.2f}{peak:9.0f}")
    walls, cpus = zip(middle["peer"], middle["ours"], strict=True)
    print(f"ours is {walls[0] / walls[1]:.1f}x the peer by wall, {cpus[0] / cpus[1]:.1f}x by CPU")


if __name__ == "__main__":
    main()
