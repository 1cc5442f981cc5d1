"""What a repository was at a revision, as the archive has it. Blocking, and for one thread at a
time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trawlnet.archive.blocks import FoundBlock, HeldFile
from trawlnet.archive.changes.finder import BlockFinder
from trawlnet.archive.changes.lineage import ORPHAN
from trawlnet.archive.changes.states import QUICK
from trawlnet.archive.format import rca
from trawlnet.archive.format.folding import ArchivedState, encode_state, fold, parse_state
from trawlnet.archive.proving.proofs import NO_KEY, prove_block
from trawlnet.archive.reader import Damage
from trawlnet.atproto.cbor_items import SHA256_LINK
from trawlnet.native.zstd import FrameWriter


class UnreadableState(Exception):
    """There are blocks of the repository, and they are damaged, or do not make one."""


@dataclass(frozen=True, slots=True)
class PastState:
    state: ArchivedState
    root: bytes | None  # CID of its tree; None where what is archived does not give the one signed.


@dataclass(frozen=True, slots=True)
class PastBlocks:
    """What a repository at a revision is made of; that takes long, and any thread may do it."""

    full: bytes
    deltas: Sequence[bytes]  # The oldest first.
    rev: str
    damage: str

    def state(self) -> PastState:
        """Raises UnreadableState."""
        return _folded(self.full, self.deltas, self.rev, self.damage)


class StateFinder:
    """To be asked again and again while the archive is written to, by this process or another:
    what was learned about a segment is kept, about one byte for each of its repositories."""

    def __init__(self, folder: Path) -> None:
        self._finder = BlockFinder(folder)

    def at(self, did: str, rev: str) -> PastState | None:
        """As of that revision, or of the newest before it, which `state.rev` tells; None: there was
        none. A chain that breaks on the way there leaves the state `incomplete`. Tombstones are
        not looked at. Raises UnreadableState."""
        blocks = self.blocks_at(did, rev)
        return None if blocks is None else blocks.state()

    def home_at(self, did: str, rev: str) -> str:
        """The PDS that it was read from; empty where no sound block tells."""
        for found in self._finder.newest_first(did):
            if not isinstance(found, Damage):
                head = rca.parse_block(found)
                if head.rev <= rev:
                    return head.pds
        return ""

    def blocks_at(self, did: str, rev: str) -> PastBlocks | None:
        """The same as `at`, not yet put together."""
        deltas: list[bytes] = []
        damage = ""
        for found in self._finder.newest_first(did):
            if isinstance(found, Damage):
                damage = damage or str(found)
                continue
            head = rca.parse_block(found)
            if head.rev > rev:
                continue
            if head.form is not rca.Form.DELTA:
                # Whatever was written before it is older.
                return PastBlocks(found, deltas[::-1], rev, damage)
            deltas.append(found)
        if damage or deltas:
            raise UnreadableState(damage or ORPHAN)
        return None


def _folded(full: bytes, deltas: Sequence[bytes], rev: str, damage: str) -> PastState:
    try:
        first = parse_state(full)
        state = fold(first, [parse_state(block) for block in deltas])
    except rca.RcaError as error:
        raise UnreadableState(error.what) from None
    if state.rev != rev and damage and not state.incomplete:
        state = replace(state, incomplete=damage)
    if state.rev == first.rev:
        return PastState(state, _root(full))
    return PastState(state, None if state.is_pruned else _root(_packed(state)))


def _packed(state: ArchivedState) -> bytes:
    return encode_state(state, FrameWriter(QUICK, False).frame)


def _root(block: bytes) -> bytes | None:
    verdict = prove_block(HeldFile(block), FoundBlock(0, rca.parse_block(block), 0))
    if verdict.signed is None or any(one.what != NO_KEY for one in verdict.misfits):
        return None
    return SHA256_LINK + verdict.signed.data
