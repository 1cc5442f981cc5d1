"""Memory of a crawl over time: 50 workers, repositories of about 10,000 records, slow bodies.

    .venv/bin/python bench/repos_memory.py [--seconds 240] [--memory-limit 256MB] [--body-seconds 1]

A server in its own process sends each body over `--body-seconds`, so that every worker holds one.
Repositories share their trees and records, made once; each has a commit and a signature of its
own, so that none is refused. Between 8,000 and 12,000 records each: equal sizes would hide how a
heap frays. Figures are of the crawl's process, twice a second: anonymous memory, which nobody else
can use, apart from files that are mapped, which the system takes back when it needs them. Growth
is the last third of the run against the first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from zlib import crc32

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

from aiohttp import web

from repo_block import BASE32, CRAWLED_AT_US, made_record
from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import Curve
from trawlnet.atproto.tid import tid
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.repository.car import car_frame, car_header
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.repo import build_repo_of_blocks

SIGNER = PrivateKey(Curve.P256, 1234567)
REV = tid(CRAWLED_AT_US)
VARIANTS = 8
PIECES = 16  # In which a body is sent.
RESOLVED_PER_SECOND = 200  # More than can be fetched.
SAMPLE_EVERY = 0.5
TENTHS = 10
SETTLING_IN = 0.05  # Of the run, before it counts: imports, the first pages, the first bodies.


@dataclass(frozen=True)
class Variant:
    root: Cid  # Of the tree.
    frames: bytes  # All but the commit's.


def made_variant(number: int, records: int) -> Variant:
    rng = random.Random(number)
    keyed = {}
    for n in range(records * (80 + number * 40 // (VARIANTS - 1)) // 100):
        collection, value = made_record(rng, n)
        keyed[f"{collection}/{tid(CRAWLED_AT_US - n * 977_131)}"] = encode(value)
    repo = build_repo_of_blocks("did:web:none.example", keyed, SIGNER, REV)
    blocks = [block for block in repo.blocks if block.cid != repo.head]
    rng.shuffle(blocks)
    return Variant(repo.commit.data, b"".join(car_frame(*block) for block in blocks))


def serve(records: int, body_seconds: float, ready: multiprocessing.Queue[str]) -> None:
    """A PDS and, on another port and so another lane, a directory; `ready` gets its URL."""
    variants = [made_variant(number, records) for number in range(VARIANTS)]

    async def repository(request: web.Request) -> web.StreamResponse:
        did = request.query["did"]
        variant = variants[crc32(did.encode()) % VARIANTS]
        commit = Commit(did, variant.root, REV).signed(SIGNER).encode()
        head = car_header([cid_of(commit)]) + car_frame(cid_of(commit), commit)
        response = web.StreamResponse()
        response.content_length = len(head) + len(variant.frames)
        await response.prepare(request)
        await response.write(head)
        frames, step = memoryview(variant.frames), -(-len(variant.frames) // PIECES)
        for start in range(0, len(frames), step):
            await asyncio.sleep(body_seconds / PIECES)
            await response.write(frames[start : start + step])
        return response

    async def document(request: web.Request) -> web.Response:
        did = request.match_info["did"]
        key = {"id": f"{did}#atproto", "type": "Multikey", "controller": did}
        key["publicKeyMultibase"] = SIGNER.public.multibase
        service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer"}
        service["serviceEndpoint"] = pds
        return web.json_response({"id": did, "verificationMethod": [key], "service": [service]})

    async def opened(path: str, handler: Callable[..., Awaitable[web.StreamResponse]]) -> str:
        app = web.Application()
        app.router.add_get(path, handler)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def main() -> None:
        nonlocal pds
        pds = await opened("/xrpc/com.atproto.sync.getRepo", repository)
        ready.put(await opened("/{did}", document))
        await asyncio.Event().wait()

    pds = ""
    asyncio.run(main())


@dataclass(frozen=True)
class Sample:
    anonymous: int  # Bytes.
    mapped: int


def sampled(pid: int) -> Sample | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if line.startswith("Rss"))
    if not fields:
        return None  # It has ended, and nobody has asked how.
    kilobytes = {name: int(value.split()[0]) for name, value in fields.items()}
    return Sample(kilobytes["RssAnon"] << 10, (kilobytes["RssFile"] + kilobytes["RssShmem"]) << 10)


def watched(command: list[str], output: Path) -> tuple[list[Sample], float]:
    """Samples of a command until it ends, and its CPU seconds."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    samples = []
    with output.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
        while sample := sampled(process.pid):
            samples.append(sample)
            time.sleep(SAMPLE_EVERY)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 4):
        raise SystemExit(f"the crawl failed:\n{output.read_text()[-1000:]}")
    return samples, usage.ru_utime + usage.ru_stime


def third(values: Sequence[int]) -> str:
    return f"median {median(values) / 1e6:.0f}, most {max(values) / 1e6:.0f} MB"


def told(output: Path) -> dict[str, int]:
    """What the crawl said last of what it had brought in."""
    rows = [json.loads(line) for line in output.read_text().splitlines() if line[:1] == "{"]
    return next(row["yields"] for row in reversed(rows) if "yields" in row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--memory-limit", default="1GB")
    parser.add_argument("--body-seconds", type=float, default=1.0)
    parser.add_argument("--zstd-level", type=int, default=3)
    wanted = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    ready: multiprocessing.Queue[str] = spawn.Queue()
    arguments = (wanted.records, wanted.body_seconds, ready)
    server = spawn.Process(target=serve, args=arguments, daemon=True)
    server.start()
    folder = Path(tempfile.mkdtemp(prefix="trawlnet-bench-"))
    try:
        base = ready.get()
        rng = random.Random(1)
        accounts = int(wanted.seconds * RESOLVED_PER_SECOND)
        dids = folder / "dids.txt"
        dids.write_text(
            "".join(f"did:plc:{''.join(rng.choices(BASE32, k=24))}\n" for _ in range(accounts))
        )
        rates = [f"--{size}-pds-rps=1000" for size in ("default", "small", "large")]
        samples, cpu = watched(
            [
                *(sys.executable, "-m", "trawlnet", "repos", "crawl", "-w", str(folder / "net")),
                *("--json", "--source", "file", "--dids", str(dids), "--plc-url", base),
                *(
                    "--plc-rps",
                    str(RESOLVED_PER_SECOND),
                    "--allow-private-hosts",
                    "--page-size",
                    "5000",
                    *rates,
                ),
                *("--workers", str(wanted.workers), "--pds-concurrency", str(wanted.workers)),
                *("--memory-limit", wanted.memory_limit, "--max-seconds", str(wanted.seconds)),
                *("--zstd-level", str(wanted.zstd_level)),
            ],
            folder / "told.jsonl",
        )
        counts = told(folder / "told.jsonl")
    finally:
        server.kill()
        server.join()
        shutil.rmtree(folder, ignore_errors=True)
    samples = samples[int(len(samples) * SETTLING_IN) :]
    anonymous, part = [sample.anonymous for sample in samples], len(samples) // 3
    print(
        f"load average {os.getloadavg()[0]:.1f}; {wanted.workers} workers, about {wanted.records} "
        f"records each, --memory-limit {wanted.memory_limit}, {len(samples) * SAMPLE_EVERY:.0f} s"
    )
    print(
        f"{counts['repos']} repositories, {counts['records']} records, "
        f"{counts.get('spilled', 0)} spilled, {cpu:.0f} s CPU"
    )
    print(
        f"anonymous: peak {max(anonymous) / 1e6:.0f} MB; "
        f"with mapped files {max(s.anonymous + s.mapped for s in samples) / 1e6:.0f} MB"
    )
    print(f"first third: {third(anonymous[:part])}; last third: {third(anonymous[-part:])}")
    tenth = len(anonymous) // TENTHS
    middles = [median(anonymous[n * tenth : (n + 1) * tenth]) for n in range(TENTHS)]
    print("median of each tenth, MB:", *(f"{middle / 1e6:.0f}" for middle in middles))


if __name__ == "__main__":
    main()
