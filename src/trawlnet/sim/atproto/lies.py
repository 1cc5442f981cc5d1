"""How a lying server answers for a repository: each lie is caught by one check and no other."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum

from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.identity.keys import ORDER
from trawlnet.sim.atproto.accounts import Account
from trawlnet.sim.atproto.population import Population
from trawlnet.sim.atproto.shelf import RepoShelf
from trawlnet.sim.repository.car import CarBlock, header_end, read_frames, write_car


class RepoLie(StrEnum):
    OTHER_REPO = "other_repo"  # A true repository, of somebody else.
    WRONG_SIGNATURE = "wrong_signature"  # All true, signed by a key that is not the account's.
    HIGH_S = "high_s"  # The true signature's twin, which must not be accepted.
    WRONG_HASH = "wrong_hash"  # One byte of one block changed.
    MISSING_BLOCK = "missing_block"  # Cut between two blocks: it parses, but is not whole.


def lie_about(account: Account) -> RepoLie:
    """Which lie a lying server tells about this account."""
    return tuple(RepoLie)[account.index % len(RepoLie)]


def lying_car(shelf: RepoShelf, population: Population, account: Account) -> bytes:
    return _TELLERS[lie_about(account)](shelf, population, account)


def _other_repo(shelf: RepoShelf, population: Population, account: Account) -> bytes:
    victim = (account.index + 1) % population.plan.accounts
    if victim == account.index:
        return _wrong_signature(shelf, population, account)
    return shelf.car(population.account(victim))


def _wrong_signature(shelf: RepoShelf, population: Population, account: Account) -> bytes:
    stranger = next(key for key in population.keyring if key not in account.keys)
    repo = shelf.volume(account).repo
    return _with_commit(shelf, account, repo.commit.signed(stranger).encode())


def _high_s(shelf: RepoShelf, population: Population, account: Account) -> bytes:
    commit = shelf.volume(account).repo.commit
    key = account.keys[0]
    s = ORDER[key.secret.curve] - int.from_bytes(commit.sig[32:], "big")
    return _with_commit(
        shelf, account, replace(commit, sig=commit.sig[:32] + s.to_bytes(32, "big")).encode()
    )


def _with_commit(shelf: RepoShelf, account: Account, commit: bytes) -> bytes:
    repo = shelf.volume(account).repo
    head = CarBlock(cid_of(commit), commit)
    others = [block for block in repo.blocks if block.cid != repo.head]
    return write_car([head.cid], [*others, head])


def _wrong_hash(shelf: RepoShelf, population: Population, account: Account) -> bytes:
    car = bytearray(shelf.car(account))
    frames = list(read_frames(bytes(car), header_end(bytes(car))))
    frame = random.Random(account.index).choice(frames)
    car[frame.end - 1] ^= 1
    return bytes(car)


def _missing_block(shelf: RepoShelf, population: Population, account: Account) -> bytes:
    repo = shelf.volume(account).repo
    # The root of the tree is in every repository, so that even an empty one can lack a block.
    blocks = [block for block in repo.blocks if block.cid != repo.commit.data]
    return write_car([repo.head], blocks)


_TELLERS: dict[RepoLie, Callable[[RepoShelf, Population, Account], bytes]] = {
    RepoLie.OTHER_REPO: _other_repo,
    RepoLie.WRONG_SIGNATURE: _wrong_signature,
    RepoLie.HIGH_S: _high_s,
    RepoLie.WRONG_HASH: _wrong_hash,
    RepoLie.MISSING_BLOCK: _missing_block,
}
