"""A repository of an archive as a CAR: root is the signed commit, blocks are made again."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from trawlnet.archive.blocks import File, FoundBlock
from trawlnet.archive.format.proof import ExceptionKind, iter_exceptions
from trawlnet.archive.format.proving_plain import car_frame
from trawlnet.archive.proving.proofs import read_parts, rebuild
from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.varint import encode_varint, read_varint

_LEFT_OUT = (ExceptionKind.LEFT_OUT, ExceptionKind.SUBTREE, ExceptionKind.UNSEEN)


class NotWhole(Exception):
    """Some records were left out when the repository was archived."""


def repo_car(fd: File, block: FoundBlock) -> bytes:
    """Raises Disproof for a block that gives no tree, NotWhole for one that gives no whole CAR."""
    parts = read_parts(fd, block)
    exceptions = list(iter_exceptions(parts.proof.exceptions))
    left_out = sum(one.kind in _LEFT_OUT for one in exceptions)
    if left_out:
        raise NotWhole("records were left out of the archive, by --collections or as malformed")
    repo = rebuild(parts, car=True)
    nodes = [one.data for one in exceptions if one.kind is ExceptionKind.NODE]
    blocks = dict(_blocks(repo.recomputed.car))
    if nodes:
        # The tree that was kept stands in the place of the one that the records would have.
        records = set(_digests(repo.recomputed.digests))
        blocks = {digest: frame for digest, frame in blocks.items() if digest in records}
    for block_data in (*nodes, repo.commit):
        digest = sha256(block_data).digest()
        blocks[digest] = car_frame(digest, block_data)
    header = encode({"roots": [cid_of(repo.commit)], "version": 1})
    return b"".join((encode_varint(len(header)), header, *reversed(blocks.values())))


def _blocks(frames: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Digests and frames; the same block may stand under many keys."""
    at = 0
    while at < len(frames):
        size, start = read_varint(frames, at)
        yield frames[start + 4 : start + 36], frames[at : start + size]
        at = start + size


def _digests(joined: bytes) -> Iterator[bytes]:
    return (joined[at : at + 32] for at in range(0, len(joined), 32))
