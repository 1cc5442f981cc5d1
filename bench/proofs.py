"""`repos verify --proofs` beside plain `verify`, and version 2 beside version 1: size and packing.

Run: python bench/proofs.py [records]      (1000000 unless told)
Two archives: of large repositories (1,000 records each), and of small ones (20) with a fifth of the
records. There is one signature per repository, by a key of its own, as accounts have: it counts for
little in the first, and more than the records in the second. Each command runs as a user types it;
its CPU seconds count, starting Python included, from bytecode as an installation has it. Ways are
interleaved; the median of three counts.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from record import record
from tests.support.repos.made_repos import make_record
from tests.support.repos.provable import KEY
from trawlnet.archive.format import rca, repoblock
from trawlnet.archive.format.content import ExtractOptions, PackJob, RepoContent
from trawlnet.archive.format.proof import KEY_BYTES, SIGNATURE_BYTES, key_bytes
from trawlnet.archive.format.repoblock import pack
from trawlnet.archive.segment_file import check
from trawlnet.archive.writer import SegmentWriter
from trawlnet.atproto.identity.keys import Curve
from trawlnet.atproto.tid import tid
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.repository.repo import build_repo_of_blocks

ROUNDS = 3
PACKINGS = 15  # Rounds of packing,
PACKED = 100_000  # records in each.
ROOM = 1 << 26  # Bytes that a repository may take as JSON.
ZSTD_LEVEL = 3
SIZES = {"large": (1000, 100), "small": (20, 20)}  # Records of a repository, percent of all.
COLLECTIONS = ("app.bsky.feed.like", "app.bsky.feed.post", "app.bsky.graph.follow")
NOW_US = 1_700_000_000_000_000
PDS = "https://morel.us-east.host.bsky.network"
BATCH = 256
MOULDS = 16  # Different repositories of each size.
SIGNED = KEY_BYTES + SIGNATURE_BYTES
VERSIONS = {1: ExtractOptions(keep_cids=True), 2: ExtractOptions(proof=True)}


def make_mould(size: int, seed: int) -> bytes:
    dice = random.Random(seed)
    rows = {
        f"{dice.choice(COLLECTIONS)}/{tid(NOW_US - dice.randrange(10**14))}": make_record(dice)
        for _ in range(size)
    }
    return build_repo_of_blocks(did_of(seed), rows, KEY, tid(NOW_US)).car()


def did_of(number: int) -> str:
    dice = random.Random(number)
    return "did:plc:" + "".join(dice.choices("abcdefghijklmnopqrstuvwxyz234567", k=24))


def make_archives(folder: Path, size: int, repos: int) -> None:
    """The DID makes each copy of a mould a repository of its own, and it is signed as that."""
    moulds = [make_mould(size, seed) for seed in range(MOULDS)]
    for version, options in VERSIONS.items():
        made = [Mould(repoblock.extract(car, options)) for car in moulds]
        writer = SegmentWriter(folder / str(version), lambda: 1.7e9)
        for start in range(0, repos, BATCH):
            some = range(start, min(start + BATCH, repos))
            writer.append([check(made[n % MOULDS].block(MOULDS + n)) for n in some])
        writer.close()


class Mould:
    """A repository that is packed once, and whose DID, key and signature change."""

    def __init__(self, content: RepoContent) -> None:
        self._content = content
        block = repoblock.encode_content(
            content, pds=PDS, crawled_at_us=NOW_US, zstd_level=ZSTD_LEVEL
        )
        head = rca.parse_block(block)
        self._packed = [
            rca.PackedCollection(one.name, one.records, block[one.start : one.end])
            for one in head.collections
        ]
        self._proof = block[head.proof_start :] if head.form else None

    def block(self, number: int) -> bytes:
        did, proof = did_of(number), self._proof
        if proof is not None:
            proof = self._signed(did, PrivateKey(Curve.K256, number)) + proof[SIGNED:]
        return rca.encode_block(did, PDS, self._content.rev, NOW_US, self._packed, proof)

    def _signed(self, did: str, key: PrivateKey) -> bytes:
        unsigned, before = self._content.unsigned_commit, self._content.did.encode()
        return key_bytes(key.public) + key.sign(unsigned.replace(before, did.encode()))


def cpu_of(archive: Path, *flags: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "trawlnet", "repos", "verify", str(archive), *flags]
    # Where no bytecode may be written, every start would compile all modules anew.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{archive}.pyc"}
    quiet = subprocess.DEVNULL
    subprocess.run(command, check=True, stdout=quiet, stderr=quiet, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.rca"))


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    ratios: dict[str, float] = {}
    for name, (size, share) in SIZES.items():
        packed = packing_ratio(size)
        print(f"{name}: packing a CAR for version 2 takes {packed:.3f} of version 1 with cids")
        ratios[f"CPU of packing version 2 / version 1 with cids, {name} repositories"] = packed
        with tempfile.TemporaryDirectory() as folder:
            repos = max(1, records * share // 100 // size)
            make_archives(Path(folder), size, repos)
            first, second = Path(folder) / "1", Path(folder) / "2"
            print(f"{name}: {repos:,} repositories of {size} records")
            spent = measured(second)
            for way, seconds in spent.items():
                rate, each = repos * size / seconds, seconds / repos * 1e6
                print(f"  {way:<8} {rate:>10,.0f} records/CPU s, {each:,.0f} µs a repository")
            grown = (bytes_in(second) - bytes_in(first)) / repos
            ratio = bytes_in(second) / bytes_in(first)
            print(f"  version 2 is {ratio:.4f} of version 1 with cids, {grown:.0f} bytes more each")
            ratios[f"CPU of verify --proofs / verify, {name} repositories"] = (
                spent["--proofs"] / spent["verify"]
            )
            ratios[f"bytes of version 2 / version 1 with cids, {name} repositories"] = ratio
    record("proofs", ratios)


def packing_ratio(size: int) -> float:
    """From a CAR to a finished block, without the check of the signature."""
    jobs = [PackJob(make_mould(size, seed), ROOM, PDS, NOW_US) for seed in range(MOULDS)]
    spent: dict[int, list[float]] = {version: [] for version in VERSIONS}
    again = max(1, PACKED // (size * MOULDS))
    for _ in range(PACKINGS):
        for version, options in VERSIONS.items():
            before = time.process_time()
            for _ in range(again):
                pack(jobs, options, ZSTD_LEVEL)
            spent[version].append(time.process_time() - before)
    return statistics.median(spent[2]) / statistics.median(spent[1])


def measured(archive: Path) -> dict[str, float]:
    """CPU seconds of both ways."""
    ways: dict[str, list[float]] = {"verify": [], "--proofs": []}
    cpu_of(archive, "--proofs")  # Leaves the bytecode of all that is loaded.
    for _ in range(ROUNDS):
        ways["verify"].append(cpu_of(archive))
        ways["--proofs"].append(cpu_of(archive, "--proofs"))
    return {way: statistics.median(seconds) for way, seconds in ways.items()}


if __name__ == "__main__":
    main()
