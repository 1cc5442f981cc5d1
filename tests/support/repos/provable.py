"""Repositories that can be proven, as blocks and archives of version 2."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from tests.support.repos.made_repos import DID, ODD_RECORDS, REV, make_record
from tests.support.repos.made_segments import PDS, write
from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.format import rca, repoblock
from trawlnet.archive.format.content import ExtractOptions
from trawlnet.archive.format.proof import key_bytes
from trawlnet.archive.proving.proofs import ProofVerdict, prove_block
from trawlnet.archive.reader import open_segment
from trawlnet.atproto.identity.keys import Curve
from trawlnet.native.zstd import FrameWriter
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.repository.repo import build_repo_of_blocks

KEY = PrivateKey(Curve.K256, 4711)
PROVABLE = ExtractOptions(proof=True)


def some_records(seed: int, count: int = 40) -> dict[str, bytes]:
    rng = random.Random(seed)
    names = ["app.bsky.feed.like", "app.bsky.feed.post", "a.b.c", "a.b.c.e", "a.b-c.d"]
    return {f"{rng.choice(names)}/3k{n:05}": make_record(rng) for n in range(count)}


def odd_records() -> dict[str, bytes]:
    return {f"a.b.c/{n}": data for n, data in enumerate(ODD_RECORDS.values())}


def signed_car(records: Mapping[str, bytes], did: str = DID, key: PrivateKey = KEY) -> bytes:
    return build_repo_of_blocks(did, records, key, REV).car()


def provable_block(
    car: bytes, options: ExtractOptions = PROVABLE, key: PrivateKey | None = KEY, at_us: int = 1
) -> bytes:
    content = repoblock.extract(car, options)
    return repoblock.encode_content(
        content,
        pds=PDS,
        crawled_at_us=at_us,
        zstd_level=3,
        key=key_bytes(key.public) if key else b"",
    )


def proven_in(folder: Path, block: bytes) -> ProofVerdict:
    """What the proof of one block comes to, once it is in an archive."""
    write(folder, [block])
    segment = open_segment(max(folder.glob("*.rca")))
    with segment.open() as fd:
        (found,) = segment.blocks(fd, check=False)
        assert isinstance(found, FoundBlock)
        return prove_block(fd, found)


def forged(block: bytes, change: dict[bytes, bytes]) -> bytes:
    """The block with bytes of its records replaced, and every CRC as it has to be."""
    head = rca.parse_block(block)
    packed = []
    for collection in head.collections:
        entries = rca.decompress(block, collection)
        for before, after in change.items():
            assert len(before) == len(after)
            entries = entries.replace(before, after)
        frame = FrameWriter(3, False).frame(entries)
        packed.append(rca.PackedCollection(collection.name, collection.records, frame))
    proof = block[head.proof_start :]
    return rca.encode_block(head.did, head.pds, head.rev, head.crawled_at_us, packed, proof)
