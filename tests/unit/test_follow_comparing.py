"""A listing is compared with what was published while the stream goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.atproto.made_commits import DID, NOW, rev_at, some_changes
from tests.support.program import PATIENCE
from tests.unit.test_follow_publishing import (
    HOME,
    RELAY,
    Witness,
    follower_over,
    known_repo,
)
from trawlnet.crawlers.repos.accounts.visit_planner import ListedAccount
from trawlnet.crawlers.repos.following.follower import Follower
from trawlnet.crawlers.repos.following.live_state import LiveState, Standing
from trawlnet.crawlers.repos.following.live_store import LiveChange, LiveStore
from trawlnet.engine.threads import Threads

OLD, NEW = rev_at(-900), rev_at(-800)
SINCE = int(NOW) - 3600


class SlowArchive:
    """It has accounts that no stream has named, and reads none of them before it may."""

    def __init__(self, *dids: str) -> None:
        self.revs = dict.fromkeys(dids, OLD)
        self.home = HOME
        self.read: list[str] = []
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.at_work, self.most_at_work = 0, 0
        self._lock = threading.Lock()

    def rev(self, did: str) -> str | None:
        return self.revs.get(did)

    def glance(self, did: str) -> LiveState | None:
        rev = self.revs.get(did)
        return None if rev is None else LiveState(rev, pds=self.home, archived=rev)

    def live_state(self, did: str) -> LiveState | None:
        if did not in self.revs:
            return None
        with self._lock:
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
        self.begun.set()
        assert self.may_go_on.wait(PATIENCE)
        with self._lock:
            self.at_work -= 1
        self.read.append(did)
        return LiveState(self.revs[did], b"root", "did:key:z", self.home, archived=self.revs[did])


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveStore]:
    store = LiveStore.open(tmp_path)
    yield store
    store.close()


def follower_with(live: LiveStore, archived: SlowArchive) -> Follower:
    follower = follower_over(live, Witness())
    parts: Any = follower.parts
    object.__setattr__(parts, "archived", archived)
    object.__setattr__(parts, "pool", Threads(2, "check"))
    return follower


def account(number: int) -> str:
    return f"did:plc:{number:024}"


def listed(*dids: str, rev: str = NEW) -> list[ListedAccount]:
    return [ListedAccount(did, HOME, rev) for did in dids]


async def begun(archived: SlowArchive) -> None:
    assert await asyncio.to_thread(archived.begun.wait, PATIENCE)


def test_the_stream_goes_on_while_archived_accounts_are_read(live: LiveStore) -> None:
    """And what it publishes meanwhile counts in the comparison."""

    async def main() -> None:
        repo, _ = known_repo(live)
        archived = SlowArchive(*map(account, range(50)))
        follower = follower_with(live, archived)
        running = asyncio.ensure_future(follower.run(Any))
        event = repo.commit(some_changes(repo, Random(3), 4), rev_at(-60))
        claims = listed(*map(account, range(50))) + listed(DID, rev=event.rev)
        pages = [asyncio.ensure_future(follower.compare(claims, SINCE)) for _ in range(3)]
        await begun(archived)
        async with asyncio.timeout(PATIENCE):
            batch = await follower.check(RELAY, [event.frame(9)], 5)
            await follower.publish(batch)
        assert live.states([DID])[DID].rev == event.rev
        assert not any(page.done() for page in pages)
        archived.may_go_on.set()
        await asyncio.gather(*pages)
        running.cancel()
        assert archived.most_at_work == 1, "one thread is left to check frames"
        asked = {visit.did for visit in live.first_due(1000)}
        assert asked == set(map(account, range(50))), "all but who is up to date by now"
        assert len(archived.read) == 50, "once, and not page by page"

    asyncio.run(main())


def test_accounts_that_did_not_change_are_not_read(live: LiveStore) -> None:
    async def main() -> None:
        archived = SlowArchive(*map(account, range(5)))
        archived.may_go_on.set()
        follower = follower_with(live, archived)
        claims = listed(account(0), account(1), rev=OLD) + listed(account(2))
        claims += [ListedAccount(account(3), HOME, OLD, active=False)]
        claims += [ListedAccount(account(4), HOME, "")]
        await follower.compare(claims, SINCE)
        assert archived.read == [account(2), account(3), account(4)]
        assert {visit.did for visit in live.first_due(9)} == set(archived.read)
        named = live.roll.named(map(account, range(5)))
        assert set(named.values()) == {SINCE}, "and yet they were named"

    asyncio.run(main())


def test_a_server_names_none_that_live_elsewhere(live: LiveStore) -> None:
    async def main() -> None:
        archived = SlowArchive(account(0))
        archived.home = "https://other.example"
        await follower_with(live, archived).compare(listed(account(0), rev=OLD), SINCE)
        assert live.roll.named([account(0)]) == {account(0): 0}

    asyncio.run(main())


def test_an_account_that_is_archived_anew_meanwhile_is_looked_at_again(live: LiveStore) -> None:
    async def main() -> None:
        archived = SlowArchive(account(0), account(1))
        follower = follower_with(live, archived)
        claims = listed(account(0), rev=OLD) + listed(account(1))
        page = asyncio.ensure_future(follower.compare(claims, SINCE))
        await begun(archived)
        archived.revs[account(0)] = rev_at(-950)  # As an older archive would tell.
        archived.may_go_on.set()
        await page
        assert archived.read == [account(1), account(0)]

    asyncio.run(main())


def test_an_account_that_a_stream_has_first_named_meanwhile_is_as_published(
    live: LiveStore,
) -> None:
    async def main() -> None:
        archived = SlowArchive(account(0), account(1))
        follower = follower_with(live, archived)
        claims = listed(account(0), rev=OLD) + listed(account(1))
        page = asyncio.ensure_future(follower.compare(claims, SINCE))
        await begun(archived)
        gone = LiveState(pds=HOME, standing=Standing.INACTIVE, withdrawn_us=7)
        live.apply(LiveChange({account(0): gone}))
        archived.may_go_on.set()
        await page
        assert live.states([account(0)])[account(0)].needs_visit, "it is listed as active"

    asyncio.run(main())


def test_only_wanted_accounts_are_read(live: LiveStore) -> None:
    async def main() -> None:
        archived = SlowArchive(account(0), account(1))
        archived.may_go_on.set()
        follower = follower_with(live, archived)
        follower.wanted = {account(1)}
        await follower.compare(listed(account(0), account(1)), SINCE)
        assert archived.read == [account(1)]

    asyncio.run(main())
