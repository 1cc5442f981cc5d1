"""Repositories, built on demand: a few are cached, of the rest only the heads."""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from trawlnet.atproto.cid import Cid
from trawlnet.sim.atproto.accounts import Account
from trawlnet.sim.atproto.population import Population
from trawlnet.sim.atproto.records import Writings, record_counts, write_records
from trawlnet.sim.repository.car import write_car
from trawlnet.sim.repository.repo import Repo, build_repo

_BLOCKS_AT_HAND = 30_000  # Some 40 MB, whether in many small repositories or few large ones.
_CID_SIZE = 36
_DUPLICATES_SHARE = 0.25  # Of repositories whose export tells some blocks twice.


@dataclass(frozen=True, slots=True)
class Volume:
    account: Account
    did: str
    writings: Writings
    repo: Repo


class RepoShelf:
    def __init__(
        self,
        population: Population,
        blocks_at_hand: int = _BLOCKS_AT_HAND,
        *,
        keep_exports: bool = False,
    ) -> None:
        """With `keep_exports` every repository is built once, whatever memory that takes."""
        self._population = population
        self._exports: dict[int, bytes] | None = {} if keep_exports else None
        self._seed = population.plan.seed
        self._limit = blocks_at_hand
        self._blocks = 0
        self._volumes: OrderedDict[int, Volume] = OrderedDict()
        # Listings tell head and rev of every repository; 49 bytes each save building it again.
        self._heads: dict[int, bytes] = {}
        self._rewritten: dict[int, Volume] = {}  # Since the world began: cannot be built again.

    def rewrite(self, volume: Volume) -> None:
        """A repository as it is from now on."""
        index = volume.account.index
        self._rewritten[index] = volume
        self._heads[index] = volume.repo.head.raw + volume.repo.commit.rev.encode()
        if self._exports is not None:
            self._exports.pop(index, None)

    def counts(self, account: Account) -> Mapping[str, int]:
        """Records per collection; of a repository that nobody rewrote, without building it."""
        rewritten = self._rewritten.get(account.index)
        if rewritten is None:
            return record_counts(account)
        return Counter(path.partition("/")[0] for path in rewritten.writings.records)

    def volume(self, account: Account) -> Volume:
        if account.index in self._rewritten:
            return self._rewritten[account.index]
        cached = self._volumes.get(account.index)
        if cached is not None:
            self._volumes.move_to_end(account.index)
            return cached
        made = self._build(account)
        self._volumes[account.index] = made
        self._heads[account.index] = made.repo.head.raw + made.repo.commit.rev.encode()
        self._blocks += len(made.repo.blocks)
        while self._blocks > self._limit and len(self._volumes) > 1:
            _, dropped = self._volumes.popitem(last=False)
            self._blocks -= len(dropped.repo.blocks)
        return made

    def head(self, account: Account) -> Cid:
        return Cid(self._head_and_rev(account)[:_CID_SIZE])

    def rev(self, account: Account) -> str:
        return self._head_and_rev(account)[_CID_SIZE:].decode()

    def _head_and_rev(self, account: Account) -> bytes:
        if account.index not in self._heads:
            self.volume(account)
        return self._heads[account.index]

    def knows_head(self, account: Account) -> bool:
        """Whether `head` and `rev` cost nothing."""
        return account.index in self._heads

    def car(self, account: Account) -> bytes:
        if self._exports is None:
            return self._export(account)
        if account.index not in self._exports:
            self._exports[account.index] = self._export(account)
        return self._exports[account.index]

    def _export(self, account: Account) -> bytes:
        volume = self.volume(account)
        order = random.Random(f"{self._seed}/{account.index}/order")
        twice = order.random() < _DUPLICATES_SHARE
        return volume.repo.car(order, duplicates=1 + len(volume.repo.blocks) // 50 if twice else 0)

    def car_since(self, account: Account, since: str) -> bytes:
        """Only what is newer than a revision; nothing but the header when nothing is."""
        volume = self.volume(account)
        writings = volume.writings
        if since >= writings.rev:
            return write_car([volume.repo.head], [])
        if since < writings.former_rev:
            return self.car(account)
        old = {block.cid for block in self._former(volume).blocks}
        return write_car(
            [volume.repo.head], [block for block in volume.repo.blocks if block.cid not in old]
        )

    def _build(self, account: Account) -> Volume:
        did = self._population.dids[account.index]
        writings = write_records(self._seed, account, did, self._population.dids)
        repo = build_repo(did, writings.records, account.keys[0], writings.rev)
        return Volume(account, did, writings, repo)

    def _former(self, volume: Volume) -> Repo:
        writings = volume.writings
        before = {
            path: value for path, value in writings.records.items() if path not in writings.recent
        }
        return build_repo(volume.did, before, volume.account.keys[0], writings.former_rev)
