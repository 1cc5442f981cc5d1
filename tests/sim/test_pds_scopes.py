"""Which scan may withdraw which record: only one that looked at its collection, to the end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.support.pds.scan import COMMENT, EPRINT, LEASE, LIKE, TAG, bench, pdses_on, rkey, write
from tests.support.pds.sim_model import SimPds, eprint
from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.pds.discovery.cycle import DiscoverySources, discover
from trawlnet.crawlers.pds.discovery.finding import Finder
from trawlnet.crawlers.pds.records.routing import dids_in
from trawlnet.crawlers.pds.scanning.parts import ScanVerdict
from trawlnet.crawlers.pds.scanning.scan import scan_pds
from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.rules import PdsSource

FIRST = 3300  # Of the loopback addresses of this file.
FUTURE = "pub.chive.future.thing"


def scholar(first: int, *, repos: int = 1) -> SimPds:
    (pds,) = pdses_on(1, first)
    for number in range(repos):
        repo = pds.repo(f"{first}/{number}")
        for collection in (EPRINT, COMMENT, LIKE):
            write(repo, collection, 2)
    return pds


def test_a_scan_of_an_account_for_other_collections_withdraws_nothing(tmp_path: Path) -> None:
    pds = scholar(FIRST)
    (did,) = pds.repos

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            assert (await made.scan(pds)).complete
            other = await made.looking_for("app.bsky.*").scan_did(pds, did)
            assert other.complete and other.held == {LIKE: 2}
            assert len(await made.uris("eprints")) == 2
            assert len(await made.uris("reviews")) == 2
            assert len(await made.uris("records")) == 2

    asyncio.run(run())


def test_a_whole_scan_for_other_collections_withdraws_nothing(tmp_path: Path) -> None:
    pds = scholar(FIRST + 1, repos=3)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            await made.scan(pds)
            mistyped = await made.looking_for("pub.chvie.*").scan(pds)
            assert mistyped.verdict is ScanVerdict.COMPLETE and mistyped.held == {}
            assert len(await made.uris("eprints")) == 6
            # What a PDS holds is what is in the tables, whatever was looked for last.
            assert mistyped.all_held == 12

    asyncio.run(run())


def test_two_users_share_a_registry_and_each_has_its_records(tmp_path: Path) -> None:
    """Also where each needs several scans: neither begins anew because of the other."""
    pds = scholar(FIRST + 2, repos=12)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            mine, yours = made.looking_for("pub.chive.eprint.*"), made.looking_for("app.bsky.*")
            left = [mine, yours]
            for _ in range(60):
                left = [user for user in left if not (await user.scan(pds, records=3)).complete]
            assert not left
            assert len(await made.uris("eprints")) == len(await made.uris("records")) == 24
            # Nothing has changed for either of them.
            assert (await mine.scan(pds)).requests == (await yours.scan(pds)).requests == 1

    asyncio.run(run())


def test_each_user_sees_what_was_deleted_of_its_own(tmp_path: Path) -> None:
    pds = scholar(FIRST + 3, repos=2)
    first, second = pds.repos.values()

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            mine, yours = made.looking_for("pub.chive.*"), made.looking_for("app.bsky.*")
            await mine.scan(pds)
            await yours.scan(pds)
            first.delete(EPRINT, rkey(0))
            first.delete(LIKE, rkey(0))
            del pds.repos[second.did]
            await mine.scan(pds)
            assert await made.uris("eprints") == [f"at://{first.did}/{EPRINT}/{rkey(1)}"]
            assert len(await made.uris("records")) == 4  # Nobody looked.
            await yours.scan(pds)
            assert await made.uris("records") == [f"at://{first.did}/{LIKE}/{rkey(1)}"]

    asyncio.run(run())


def test_whoever_changes_collections_still_notices_what_went_before(tmp_path: Path) -> None:
    """What another scope has found is this one's business where it looks at the same collection."""
    pds = scholar(FIRST + 4, repos=3)
    emptied, gone, kept = pds.repos.values()

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            await made.scan(pds)
            for number in range(2):
                emptied.delete(EPRINT, rkey(number))
                emptied.delete(COMMENT, rkey(number))
            del pds.repos[gone.did]
            await made.looking_for(EPRINT).scan(pds)
            assert {uri.split("/")[2] for uri in await made.uris("eprints")} == {kept.did}
            assert len(await made.uris("reviews")) == 6  # Nobody looked at comments.

    asyncio.run(run())


def test_an_account_that_comes_back_has_its_records_again(tmp_path: Path) -> None:
    pds = scholar(FIRST + 5, repos=2)
    away, _ = pds.repos.values()

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            await made.scan(pds)
            del pds.repos[away.did]
            await made.scan(pds)
            assert len(await made.uris("eprints")) == 2
            pds.repos[away.did] = away
            await made.scan(pds)
            assert len(await made.uris("eprints")) == 4

    asyncio.run(run())


def test_what_is_listed_by_name_says_nothing_about_other_names(tmp_path: Path) -> None:
    """A PDS that lists repos by collection is asked for the names that are known, so that a record
    of another collection that fits the pattern is neither looked at nor withdrawn."""
    pds = scholar(FIRST + 6, repos=50)
    pds.lists_by_collection = True
    one = next(iter(pds.repos.values()))
    one.put(FUTURE, rkey(1), {"createdAt": "2026-01-02T03:04:05Z"})

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            await made.scan(pds, full_every=1)  # Describes every repo.
            assert await made.uris("records") == [f"at://{one.did}/{FUTURE}/{rkey(1)}"]
            for repo in pds.repos.values():
                write(repo, TAG, 1)
            assert pds.asked["listReposByCollection"] == 0
            await made.scan(pds)
            assert pds.asked["listReposByCollection"] > 0
            assert len(await made.uris("tags")) == 50
            assert len(await made.uris("records")) == 1

    asyncio.run(run())


def test_a_record_that_moved_with_its_account_survives_the_old_home(tmp_path: Path) -> None:
    """The old home may write last, with what it read before the account moved."""
    old, new = pdses_on(2, FIRST + 7)
    repo = old.repo("mover")
    write(repo, EPRINT, 2)

    async def run() -> None:
        async with bench([old, new], tmp_path / "r.db") as made:
            await made.scan(old)
            new.repos[repo.did] = repo
            made.world.homes[repo.did] = new
            await made.scan(new)
            # As if the old home's scan had been under way, and ended only now.
            url = made.world.url(old)
            await made.run(f"UPDATE eprints SET pds_url = '{url}'")
            del old.repos[repo.did]
            await made.scan(old)
            await made.scan(new)
            assert len(await made.uris("eprints")) == 2

    asyncio.run(run())


def test_a_process_that_slept_changes_nothing_when_it_wakes(tmp_path: Path) -> None:
    """Its scan is under way when another process takes the PDS over and ends the walk; then it goes
    on, and the next scan has to notice what changed meanwhile."""
    pds = scholar(FIRST + 10, repos=4)
    pds.ends_with_cursor = False
    asleep, woken = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            url = made.world.url(pds)
            registry = Registry(made.db, Terms(allow_private=True))
            await registry.register(url, PdsSource.USER, now=0.0)
            assert await registry.claim_one(url, 0.0, 10.0, "sleeper")
            sleepy = replace(made.parts, http=Sleepy(made.parts.http, asleep, woken))
            deadline = made.parts.clock.now() + 120.0
            sleeper = asyncio.create_task(scan_pds(sleepy, url, lease="sleeper", deadline=deadline))
            await asyncio.wait_for(asleep.wait(), 120.0)
            assert await registry.claim_one(url, 20.0, 4e9, LEASE)
            assert (await made.scan(pds)).complete
            before = await made.parts.tables.progress(made.key(pds))
            for repo in pds.repos.values():
                write(repo, EPRINT, 1, first=7)
            woken.set()
            late = await sleeper
            assert (late.verdict, late.reason) == (ScanVerdict.PUT_OFF, Reason.PARKED)
            assert await made.parts.tables.progress(made.key(pds)) == before
            heir = await made.scan(pds)
            assert heir.complete and heir.requests > 1
            assert len(await made.uris("eprints")) == 12

    asyncio.run(run())


@dataclass(frozen=True)
class Sleepy:
    """Falls asleep behind the answer to its third request."""

    http: Getter
    asleep: asyncio.Event
    woken: asyncio.Event
    asked: list[str] = field(default_factory=list)

    async def get(self, url: str, **more: Any) -> Any:
        answer = await self.http.get(url, **more)
        self.asked.append(url)
        if len(self.asked) == 3:
            self.asleep.set()
            await asyncio.wait_for(self.woken.wait(), 120.0)
        return answer


def test_accounts_that_records_name_lead_to_their_servers(tmp_path: Path) -> None:
    known, unknown = pdses_on(2, FIRST + 11)
    writer, author = known.repo("writer"), unknown.repo("author")
    named = eprint(writer.did, 1) | {"authors": [{"name": "A", "order": 1, "did": author.did}]}
    writer.put(EPRINT, rkey(1), named)

    async def run() -> None:
        async with bench([known, unknown], tmp_path / "r.db") as made:
            registry = Registry(made.db, Terms(allow_private=True))
            finder = Finder(registry, made.parts.http, made.gate, made.parts.clock)
            await made.scan(known)
            assert await made.column("scan_mentions", "did") == []  # Nobody asked for them.
            await made.looking_for("pub.*", takes_mentions=True).scan(known)
            assert await made.column("scan_mentions", "did") == [author.did]
            sources = DiscoverySources(made.world.plc, False, tmp_path, mentions=True)
            tally = (await discover(finder, sources))[PdsSource.DID]
            assert (tally.new, tally.known) == (1, 0)
            row = await registry.get(made.world.url(unknown))
            assert row is not None and row.discovery_source is PdsSource.DID
            # Each is looked up once in a while.
            lookups = made.world.lookups
            await discover(finder, sources)
            assert made.world.lookups == lookups

    asyncio.run(run())


def test_names_of_accounts_are_found_wherever_they_are_written() -> None:
    plc, web = "did:plc:" + "a" * 24, "did:web:village.social"
    raw = f'{{"a": ["{plc}", "at://{web}/x.y.z/1"], "b": "see {plc}. Or did:plc:short, did:key:z"}}'
    assert dids_in(raw) == {plc, web}
    assert dids_in(f'"{plc}bbb" "did:web:-" "xdid:web:a.b"') == set()
    many = " ".join(f"did:web:a{number}.social" for number in range(900))
    assert len(dids_in(many)) == 200
