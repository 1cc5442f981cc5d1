"""What happens in a simulated network while it is served: each act changes the truth, and the
servers concerned tell of it."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.tid import tid, tid_time_us
from trawlnet.sim.atproto.accounts import Account, AccountStatus, Story, created_ms
from trawlnet.sim.atproto.history import iso_time
from trawlnet.sim.atproto.live.commits import CommitStory, RepoState, commit_of
from trawlnet.sim.atproto.live.event_log import FirehoseLog
from trawlnet.sim.atproto.population import Population
from trawlnet.sim.atproto.records import Writings, write_one
from trawlnet.sim.atproto.shelf import RepoShelf, Volume
from trawlnet.sim.habits import Habit
from trawlnet.sim.repository.car import CarBlock
from trawlnet.sim.repository.repo import Repo

_MOST_OPS = 12
_NO_SLASH = 0.05  # Luck above this: its endpoint is spelt the same in every operation.


@dataclass(frozen=True, slots=True)
class RepoTruth:
    """What a perfect follower knows of an account."""

    status: str
    pds: str
    rev: str
    records: Mapping[str, str]  # CIDs by path.


class Life:
    """Acts on accounts, one at a time, chosen by the seed; `now` is Unix seconds."""

    def __init__(
        self, population: Population, shelf: RepoShelf, now: Callable[[], float], seed: int
    ) -> None:
        self._population = population
        self._shelf = shelf
        self._now = now
        self._chance = random.Random(f"{seed}/life")
        self.counts = shelf.counts
        self.logs = [FirehoseLog(first=1 + 1000 * host.index) for host in population.plan.hosts]
        self._touched: set[int] = set()
        self._able = [
            index for index in range(len(population)) if self._is_able(population.account(index))
        ]
        self._first_able = len(self._able)
        self._acts: Sequence[tuple[Callable[[Account], object], float]] = (
            (self.write, 0.86),
            (self.pause, 0.04),
            (self.resume, 0.04),
            (self.move, 0.02),
            (self.rotate, 0.015),
            (self.sync, 0.015),
            (self.leave, 0.01),
        )

    def _is_able(self, account: Account) -> bool:
        host = self._population.plan.hosts[account.host]
        return account.status is AccountStatus.ACTIVE and host.habit is Habit.GOOD

    def act(self) -> None:
        """One thing happens to one account, unless there is none. Half of them stay, however long
        this goes on."""
        if not self._able:
            return
        index = self._able[int(self._chance.random() * len(self._able))]
        acts, weights = zip(*self._acts, strict=True)
        act = self._chance.choices(acts, weights)[0]
        if act == self.leave and 2 * len(self._able) <= self._first_able:
            act = self.write
        act(self._population.account(index))

    def write(self, account: Account, ops: int | None = None) -> CommitStory | None:
        """Records come, change and go in one commit."""
        if account.status is not AccountStatus.ACTIVE:
            return None
        volume = self._shelf.volume(account)
        records = dict(volume.writings.records)
        for _ in range(ops or 1 + int(self._chance.random() ** 4 * _MOST_OPS)):
            self._edit(volume.did, records)
        return self.replace_records(account, records)

    def replace_records(self, account: Account, records: Mapping[str, Any]) -> CommitStory:
        """A commit that makes these an account's records."""
        story = self._commit(account, records)
        self._tell(account, "#commit", story.payload())
        return story

    def sync(self, account: Account) -> None:
        """The server says what it has, without saying what changed."""
        if account.status is AccountStatus.ACTIVE:
            self._sync(account, self._commit(account, self._shelf.volume(account).writings.records))

    def pause(self, account: Account) -> None:
        if account.status is AccountStatus.ACTIVE:
            self._become(account, AccountStatus.DEACTIVATED)

    def resume(self, account: Account) -> None:
        if account.status is AccountStatus.DEACTIVATED:
            self._become(account, AccountStatus.ACTIVE)

    def leave(self, account: Account) -> None:
        """The account is deleted; its server forgets its messages, and lists it no longer."""
        self._able.remove(account.index)
        did = self._population.dids[account.index]
        self.logs[account.host].erase(did)
        self._population.members[account.host].remove(account.index)
        self._become(account, AccountStatus.DELETED)

    def rotate(self, account: Account) -> None:
        """The account gets another signing key."""
        if account.story is not Story.PLAIN or account.status is not AccountStatus.ACTIVE:
            return
        ring = self._population.keyring
        new = ring[(ring.index(account.keys[0]) + 7) % len(ring)]
        keys = (new, account.keys[0], *account.keys[2:])
        at = int(self._now() * 1000)
        changed = replace(account, story=Story.ROTATED, keys=keys, changed_ms=at)
        self._population.enter(changed)
        self._tell(changed, "#identity", self._identity(changed))
        self._sync(changed, self._commit(changed, self._shelf.volume(account).writings.records))

    def move(self, account: Account) -> None:
        """The account goes to another server, which tells of it from then on."""
        hosts = [one for one in self._population.plan.hosts if one.habit is Habit.GOOD]
        others = [one for one in hosts if one.index != account.host]
        is_plain = account.story is Story.PLAIN and account.luck > _NO_SLASH
        if not others or not is_plain or account.status is not AccountStatus.ACTIVE:
            return
        to = self._chance.choice(others)
        self._tell(account, "#account", {"active": False, "status": "deactivated"})
        at = int(self._now() * 1000)
        moved = replace(account, story=Story.MOVED, former_host=account.host, host=to.index)
        moved = replace(moved, changed_ms=at)
        self._population.enter(moved)
        self._settle_in(moved)
        self._tell(moved, "#identity", self._identity(moved))
        self._tell(moved, "#account", {"active": True})
        self._sync(moved, self._commit(moved, self._shelf.volume(account).writings.records))

    def truth(self) -> Iterator[tuple[str, RepoTruth]]:
        """Of every account that anything happened to."""
        for index in sorted(self._touched):
            yield self._population.dids[index], self.truth_of(index)

    def truth_of(self, index: int) -> RepoTruth:
        account = self._population.account(index)
        volume = self._shelf.volume(account)
        pds = self._population.plan.hosts[account.host].url
        cids = {path: str(cid_of(encode(it))) for path, it in volume.writings.records.items()}
        return RepoTruth(account.status.value, pds, volume.repo.commit.rev, cids)

    def _edit(self, did: str, records: dict[str, Any]) -> None:
        what = self._chance.random()
        if what < 0.6 or not records:
            path, value = write_one(
                self._chance, did, self._population.dids, int(self._now() * 1e6)
            )
            records[path] = value
            return
        path = self._chance.choice(sorted(records))
        if what < 0.8:
            del records[path]
        else:
            records[path] = {**records[path], "edited": int(self._now() * 1e6)}

    def _commit(self, account: Account, records: Mapping[str, Any]) -> CommitStory:
        volume = self._shelf.volume(account)
        head = volume.repo.commit
        old = {path: encode(value) for path, value in volume.writings.records.items()}
        before = RepoState(volume.did, old, head.rev, head.data)
        # A server's clock may stand still or go back; its revs do not.
        now_us = max(int(self._now() * 1e6), tid_time_us(head.rev) + 1)
        encoded = {path: encode(value) for path, value in records.items()}
        story = commit_of(
            before, encoded, tid(now_us, self._chance.randrange(1024)), account.keys[0]
        )
        self._shelf.rewrite(_volume(account, story, records, head.rev))
        self._touched.add(account.index)
        return story

    def _sync(self, account: Account, story: CommitStory) -> None:
        self._tell(account, "#sync", story.sync_payload())

    def _become(self, account: Account, status: AccountStatus) -> None:
        changed = replace(account, status=status)
        self._population.changed[account.index] = changed
        self._touched.add(account.index)
        active = status is AccountStatus.ACTIVE
        said: dict[str, Any] = {"active": active}
        self._tell(changed, "#account", said if active else {**said, "status": status.value})

    def _identity(self, account: Account) -> dict[str, Any]:
        return {"handle": account.handle}

    def _tell(self, account: Account, kind: str, payload: Mapping[str, Any]) -> None:
        did = self._population.dids[account.index]
        whose = {} if kind == "#commit" else {"did": did}
        time = iso_time(int(self._now() * 1000))
        self.logs[account.host].add(did, kind, {**whose, **payload, "time": time})

    def _settle_in(self, account: Account) -> None:
        members = self._population.members[account.host]
        dids = self._population.dids

        def place(index: int) -> tuple[int, str]:
            return created_ms(index), dids[index]

        at = bisect_left(members, place(account.index), key=place)
        if at == len(members) or members[at] != account.index:
            members.insert(at, account.index)


def _volume(
    account: Account, story: CommitStory, records: Mapping[str, Any], former_rev: str
) -> Volume:
    blocks = {cid_of(data): data for data in story.after.records.values()}
    blocks |= dict(story.nodes) | {story.head.cid: story.head.data}
    listed = [CarBlock(*item) for item in blocks.items()]
    repo = Repo(story.commit, story.head.cid, listed)
    recent = frozenset(path for path in story.changed() if path in records)
    ordered = dict(sorted(records.items()))
    writings = Writings(ordered, recent, story.after.rev, former_rev)
    return Volume(account, story.after.did, writings, repo)
