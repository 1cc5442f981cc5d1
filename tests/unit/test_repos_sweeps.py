"""What a new sweep asks about again, and what is on record of accounts that are not visited."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.repos.made_segments import make_block
from trawlnet.archive.sink import SegmentSink
from trawlnet.crawlers.atproto.identity import resolve
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.reachable import check_reachable
from trawlnet.crawlers.repos.accounts import visit_planner
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.accounts.recheck import Rescue, reopen, stranded
from trawlnet.crawlers.repos.accounts.visit_planner import ListedAccount, VisitPlanner
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue, count_archived
from trawlnet.crawlers.repos.handler import ReposHandler
from trawlnet.crawlers.repos.listing import HostRules
from trawlnet.crawlers.repos.work import (
    LeftOutAccount,
    Listing,
    ListingKind,
    RepoVisit,
    did_of,
    read_task,
)
from trawlnet.engine.outcome import Outcome, Reason, Receipt
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.net.trouble import Trouble
from trawlnet.sim.virtual import SimClock
from trawlnet.stores.lmdb.notes import open_notes
from trawlnet.stores.memory import MemoryStore

DIDS = ["did:plc:" + letter * 24 for letter in "abcd"]
DEAD, ALIVE, PLC = "https://dead.example", "https://alive.example", "https://plc.example"
NOW = 1000.0


async def store_of(*failed: Task, reason: Reason) -> MemoryStore:
    store = MemoryStore(remember_done=False)
    await store.feed(Page(failed, "c"))
    await store.settle([Receipt(task, reason, at=NOW) for task in failed])
    return store


class Nothing:
    """An archive without a repository."""

    async def revs(self, dids: Any) -> dict[str, str]:
        return {}


class SomeMirror:
    def __init__(self, homes: Mapping[str, str]) -> None:
        self.homes = homes
        self.asked = 0

    async def states(self, dids: Sequence[str]) -> Mapping[str, RepoIdentity]:
        self.asked += 1
        found = {did: self.homes[did] for did in dids if did in self.homes}
        return {did: RepoIdentity(did, home, "k") for did, home in found.items()}


def census(mirror: SomeMirror, *skip: str) -> VisitPlanner:
    archive = cast(ArchiveCatalogue, Nothing())
    return VisitPlanner(archive, cast(Any, None), mirror, frozenset(skip), False, SimClock())


@pytest.mark.parametrize(
    "reason",
    [Reason.HTTP_ERROR, Reason.PARSE_ERROR, Reason.LOOP, Reason.TOO_LARGE, Reason.NOT_FOUND],
)
def test_a_listing_that_was_not_read_is_asked_for_by_the_next_sweep(reason: Reason) -> None:
    async def run() -> None:
        listing = Listing(ListingKind.REPOS, ALIVE).task()
        visit = RepoVisit(DIDS[0], ALIVE).task()
        store = await store_of(listing, visit, reason=reason)
        assert await reopen(store, before=NOW) == 1
        left = [failure.key async for failure in store.failures()]
        assert left == [DIDS[0]], "the answer for an account stands"

    asyncio.run(run())


def test_what_our_own_policy_forbade_is_looked_at_again() -> None:
    async def run() -> None:
        store = await store_of(RepoVisit(DIDS[0], ALIVE).task(), reason=Reason.REFUSED)
        assert await reopen(store, before=0.0) == 1

    asyncio.run(run())


@pytest.mark.parametrize("with_mirror", [True, False])
def test_whoever_left_a_dead_host_is_asked_about_elsewhere(with_mirror: bool) -> None:
    """With a mirror at once where they live; else through their directory."""

    async def run() -> None:
        store = await store_of(RepoVisit(DIDS[0], DEAD).task(), reason=Reason.TIMEOUT)
        await store.feed(Page([RepoVisit(did, DEAD).task() for did in DIDS[1:3]], "c"))
        await store.hold("dead.example", math.inf)
        mirror = SomeMirror({DIDS[0]: ALIVE, DIDS[1]: ALIVE, DIDS[2]: DEAD})
        lost = await stranded(store)
        await reopen(store, before=NOW)
        rescue = Rescue(
            store, mirror if with_mirror else None, lambda did: PLC, SimClock(), allow_private=False
        )
        await rescue(lost)
        lanes = {work.lane: work.open for work in await store.lanes(None, 9)}
        if with_mirror:
            assert lanes == {"dead.example": 1, "alive.example": 2}
        else:
            assert lanes == {"plc.example": 3}
        leased = await store.lease(dict.fromkeys(lanes, 9), NOW, 60.0)
        for task in leased.tasks:
            visit = read_task(task)
            assert isinstance(visit, RepoVisit)
            expected = mirror.homes[task.key] if with_mirror else DEAD
            assert visit.pds == expected

    asyncio.run(run())


def test_dids_that_are_not_visited_are_on_record_with_the_reason() -> None:
    async def run() -> None:
        mirror = SomeMirror({DIDS[0]: ALIVE, DIDS[1]: "", DIDS[2]: DEAD})
        known = census(mirror, "dead.example")
        tasks = await known.of_claims([ListedAccount(did, ALIVE) for did in DIDS[:3]])
        assert [did_of(task.key) for task in tasks] == DIDS[:3]
        visit, no_pds, skipped = map(read_task, tasks)
        assert isinstance(visit, RepoVisit)
        assert no_pds == LeftOutAccount(DIDS[1], Reason.NOT_FOUND, "its document names no PDS")
        assert skipped == LeftOutAccount(
            DIDS[2], Reason.REFUSED, f"its PDS is excluded by --skip-pds: {DEAD}"
        )
        handler = handler_of(known)
        assert [(await handler(task)).reason for task in tasks[1:]] == [
            Reason.NOT_FOUND,
            Reason.REFUSED,
        ]
        # The user no longer skips that server: the source names the account as any other.
        again = handler_of(census(mirror))
        assert (await again(tasks[2])).reason is Reason.OK

    asyncio.run(run())


def test_the_mirror_is_not_asked_about_an_account_that_it_has_just_named() -> None:
    async def run() -> None:
        mirror = SomeMirror({DIDS[0]: ""})
        known = census(mirror)
        (task,) = await known.of_identities([RepoIdentity(DIDS[0], "", "")])
        handler = handler_of(known)
        assert (await handler(task)).reason is Reason.NOT_FOUND
        assert mirror.asked == 0
        # The user wants it tried again: by now the directory may say something else.
        mirror.homes = {DIDS[0]: ALIVE}
        assert (await handler(task)).reason is Reason.OK
        assert mirror.asked == 1

    asyncio.run(run())


def test_an_account_is_visited_where_it_lives_whoever_lists_it() -> None:
    async def run() -> None:
        known = census(SomeMirror({DIDS[0]: ALIVE}))
        (task,) = await known.of_claims([ListedAccount(DIDS[0], DEAD, rev="3k")])
        assert task.lane == "alive.example"

    asyncio.run(run())


def test_only_so_many_are_put_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit_planner, "LEFT_OUT_AT_MOST", 2)

    async def run() -> None:
        known = census(SomeMirror(dict.fromkeys(DIDS, "")))
        tasks = await known.of_identities([RepoIdentity(did, "", "") for did in DIDS])
        assert len(tasks) == 2
        assert known.left_out["no_pds"] == 4, "all of them are counted"

    asyncio.run(run())


class Answering:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def get(self, url: str, **_: Any) -> Any:
        return self.answer


def handler_of(known: VisitPlanner, http: Any = None) -> ReposHandler:
    nobody = cast(Any, None)
    return ReposHandler(http, HostRules(), known, nobody, nobody, nobody, SimClock())


def test_a_server_at_an_address_that_we_may_not_ask_leaves_the_crawl_incomplete() -> None:
    """Its name resolves to a private network: nobody has said that there are no accounts."""
    trouble = Trouble(Reason.REFUSED, "10.0.0.1 port 443: private", url=ALIVE)
    handler = handler_of(census(SomeMirror({})), Answering(trouble))
    outcome = asyncio.run(handler(Listing(ListingKind.REPOS, ALIVE).task()))
    assert not outcome.reason.answer
    assert "private" in outcome.detail


def test_a_user_name_in_a_url_is_told_as_that() -> None:
    with pytest.raises(NotReady, match="user name or a password") as caught:
        check_reachable("https://me:secret@relay.example", allow_private=False)
    assert "private" not in caught.value.hint and "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("did", "why"),
    [
        ("did:web:127.0.0.1", "requests to its host are not allowed"),
        ("did:key:z6", "its DID method"),
    ],
)
def test_a_did_without_a_document_says_what_is_in_the_way(did: str, why: str) -> None:
    outcome = asyncio.run(resolve(cast(Any, None), did, PLC))
    assert isinstance(outcome, Outcome)
    assert outcome.reason is Reason.REFUSED and why in outcome.detail


def test_what_a_killed_crawl_had_archived_is_counted(tmp_path: Path) -> None:
    """Its notes were not written down."""
    archive, state = tmp_path / "archive", tmp_path / "notes"

    async def run() -> int:
        sink = await SegmentSink.open(archive, lambda: NOW, 1 << 30)
        notes = open_notes(state)
        archived = ArchiveCatalogue(notes, archive, SimClock())
        for number, did in enumerate(DIDS):
            await sink.write([(Task(did, "host"), [make_block(did)])])
            if number == 1:
                await archived.note(dict.fromkeys(DIDS[:2], "3k"))
                archived.close()  # That writes it down; there is no word of the rest.
        notes.close()
        counted = count_archived(state, archive)
        await sink.close()
        return counted

    assert asyncio.run(run()) == len(DIDS)
    assert count_archived(tmp_path / "nowhere", archive) == len(DIDS)
