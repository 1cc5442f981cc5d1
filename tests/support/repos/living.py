"""Repositories that change, and the blocks that each change leaves in an archive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.support.repos.made_repos import DID, ODD_RECORDS, make_record
from tests.support.repos.made_segments import NOW, PDS, write
from tests.support.repos.provable import KEY, provable_block
from tests.support.repository.reading import parse_commit
from trawlnet.archive.format.content import ExtractOptions
from trawlnet.archive.format.folding import ArchivedState, encode_state, make_delta
from trawlnet.archive.format.proof import key_bytes
from trawlnet.archive.format.record_text import record_text
from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.tid import tid
from trawlnet.native.zstd import FrameWriter
from trawlnet.sim.repository.repo import build_repo_of_blocks

KEY_BYTES = key_bytes(KEY.public)
RECORDS = list(ODD_RECORDS.values())
_SECOND_US = 1_000_000


def pack(state: ArchivedState) -> bytes:
    return encode_state(state, FrameWriter(1, False).frame)


class LivingRepo:
    """A repository that changes. `past` has its records at each of its revs."""

    def __init__(self, seed: int, size: int = 12, did: str = DID, odd: float = 0.3) -> None:
        self.did = did
        self.odd = odd  # Share of records that JSON does not give back, or that are left out.
        self.rng = Random(seed)
        self.truth = {self.path(): self.record() for _ in range(size)}
        self.now_us = int(NOW * 1e6)
        self.rev = tid(self.now_us)
        self.past = {self.rev: self.truth}
        self.full = self.signed_block()

    def path(self) -> str:
        return f"{self.rng.choice(['a.b.c', 'a.b.c.e', 'x.y.z'])}/{self.rng.randrange(60)}"

    def record(self) -> bytes:
        return self.rng.choice(RECORDS) if self.rng.random() < self.odd else make_record(self.rng)

    def signed_block(self, options: ExtractOptions | None = None) -> bytes:
        car = build_repo_of_blocks(self.did, self.truth, KEY, self.rev).car()
        return provable_block(car, options or ExtractOptions(proof=True), at_us=self.now_us)

    def change(self) -> ArchivedState:
        changed = {self.path(): self.record() for _ in range(self.rng.randrange(1, 5))}
        known = sorted(self.truth.keys() - changed.keys())
        deleted = self.rng.sample(known, min(len(known), self.rng.randrange(3)))
        self.truth = {k: v for k, v in (self.truth | changed).items() if k not in deleted}
        since = self.rev
        self.next_rev()
        repo = build_repo_of_blocks(self.did, self.truth, KEY, self.rev)
        commit = parse_commit(dict(repo.blocks)[repo.head])
        return make_delta(
            (self.did, PDS),
            (self.rev, self.now_us),
            (KEY_BYTES, commit.sig),
            since=since,
            changed=changed,
            deleted=deleted,
        )

    def next_rev(self) -> None:
        self.now_us += _SECOND_US
        self.rev = tid(self.now_us)
        self.past[self.rev] = self.truth

    def head(self) -> Cid:
        """Of the commit as it is now."""
        return build_repo_of_blocks(self.did, self.truth, KEY, self.rev).head

    def root(self) -> bytes:
        """CID of the tree as it is now."""
        repo = build_repo_of_blocks(self.did, self.truth, KEY, self.rev)
        return parse_commit(dict(repo.blocks)[repo.head]).data.raw

    def cids(self, rev: str = "") -> dict[bytes, bytes]:
        records: Mapping[str, bytes] = self.past[rev or self.rev]
        return {path.encode(): cid_of(data).raw for path, data in records.items()}


def cids(state: ArchivedState) -> dict[bytes, bytes]:
    return {path: record.cid for path, record in state.records.items()} | dict(state.left_out)


def texts(records: Mapping[str, bytes]) -> dict[str, bytes]:
    """What readers show of a repository: JSON by path, of all that has some."""
    shown = {path: record_text(data) for path, data in records.items()}
    return {path: text for path, text in shown.items() if isinstance(text, bytes)}


def did_of(number: int) -> str:
    return f"did:plc:{number:024}"


class LivingArchive:
    """An archive of several lives over several segments, some of their deltas twice, and in an
    order of their own."""

    def __init__(self, folder: Path, seed: int = 1, count: int = 8, odd: float = 0.3) -> None:
        self.folder = folder
        self.dice = Random(seed)
        self.lives = [LivingRepo(seed * 100 + n, 9, did_of(n), n % 2 * odd) for n in range(count)]
        write(folder, [life.full for life in self.lives])
        for _ in range(3):
            self.go_on()

    def go_on(self) -> None:
        blocks = []
        for life in self.dice.sample(self.lives, len(self.lives) // 2 + 1):
            made = [pack(life.change()) for _ in range(self.dice.randrange(1, 4))]
            blocks += made + made[-1:] * self.dice.randrange(2)  # Killed before it was settled.
        write(self.folder, blocks, segment_bytes=4000)
