"""Coming back to an archive: what changed is fetched, what is gone gets a tombstone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.repos.run import (
    FAST,
    Crawled,
    SimMirror,
    Truth,
    archived,
    blocks_written,
    put_up_mirror,
    run,
    run_relay,
)
from trawlnet.archive.tombstones import read_tombstones
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.build import open_parts
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.work import RepoVisit
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Page
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.atproto import directory, pds, tenancy
from trawlnet.sim.atproto.accounts import Account, AccountStatus
from trawlnet.sim.atproto.plan import SimHost
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.stores.lmdb.notes import open_notes

T = TypeVar("T")
OLD = "2222222222222"


@pytest.fixture
def mirrored(monkeypatch: pytest.MonkeyPatch) -> Callable[[AtprotoWorld], SimMirror]:
    return lambda world: put_up_mirror(world, monkeypatch)


def in_world(use: Callable[[AtprotoWorld], Awaitable[T]]) -> T:
    async def main() -> T:
        world = await serve_atproto(3, accounts=120, hosts=4, habits=())
        try:
            return await use(world)
        finally:
            await world.close()

    return asyncio.run(main())


def pretend_old(workspace: Path, dids: Sequence[str]) -> None:
    """As if these had been archived at an earlier rev."""
    notes = open_notes(workspace / "state" / "repos" / "notes")
    archive = ArchiveCatalogue(notes, workspace / "archive", SystemClock())
    asyncio.run(archive.note(dict.fromkeys(dids, OLD)))
    archive.close()
    notes.close()


def switch_off(monkeypatch: pytest.MonkeyPatch, world: AtprotoWorld, dids: Sequence[str]) -> None:
    gone = {world.population.index[did] for did in dids}
    before = tenancy.state_on

    def state_on(host: SimHost, account: Account) -> AccountStatus:
        return AccountStatus.DEACTIVATED if account.index in gone else before(host, account)

    for module in (tenancy, pds):
        monkeypatch.setattr(module, "state_on", state_on)


def asked(world: AtprotoWorld) -> int:
    return sum(world.served.turns.values())


def test_the_mirror_leads_to_every_repository_without_another_request(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror]
) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth, int]:
        mirrored(world)
        return await run(world, tmp_path), Truth.of(world), asked(world)

    crawled, truth, requests = in_world(use)
    assert archived(tmp_path) == truth.archivable(in_plc=True)
    gone = dict.fromkeys(truth.with_status("deleted"), Reason.NOT_FOUND)
    assert crawled.reasons == gone | truth.with_status("deactivated", "takendown", "suspended")
    # One for each account: keys come with the page, and nothing is listed or resolved.
    assert requests == len(archived(tmp_path)) + len(crawled.failures)
    assert crawled.counts.remembered == len(crawled.failures), "what is archived is not remembered"


def test_a_rerun_asks_nothing_and_a_new_account_is_found(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror]
) -> None:
    async def use(world: AtprotoWorld) -> list[int]:
        mirror = mirrored(world)
        newcomer = mirror.rows.pop(next(iter(Truth.of(world).archivable(in_plc=True))))
        figures = []
        for step in range(3):
            before = asked(world)
            await run(world, tmp_path)
            figures.append(asked(world) - before)
            if step == 1:
                rows = {**mirror.rows, newcomer.did: newcomer}
                mirror.rows = dict(sorted(rows.items()))
        return figures

    first, again, later = in_world(use)
    assert (first > 50, again, later) == (True, 0, 1)
    assert set(blocks_written(tmp_path).values()) == {1}


def test_inactive_accounts_are_asked_again_when_their_answer_is_old(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror]
) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, int, int]:
        mirrored(world)
        first = await run(world, tmp_path)
        before = asked(world)
        await run(world, tmp_path, recheck_inactive=0)
        return first, before, asked(world)

    first, before, after = in_world(use)
    assert after - before == len(first.failures) > 0


def test_an_update_fetches_what_changed_and_nothing_else(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror]
) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth, list[str], int]:
        mirrored(world)
        await run(world, tmp_path)
        changed = list(Truth.of(world).archivable(in_plc=True))[:7]
        await asyncio.to_thread(pretend_old, tmp_path, changed)
        before = asked(world)
        return (
            await run(world, tmp_path, update=True),
            Truth.of(world),
            changed,
            asked(world) - before,
        )

    crawled, truth, changed, requests = in_world(use)
    everyone = truth.archivable(in_plc=True)
    assert archived(tmp_path) == everyone
    assert {did for did, n in blocks_written(tmp_path).items() if n == 2} == set(changed)
    assert crawled.tally == {Reason.OK: 7, Reason.NOT_MODIFIED: len(everyone) - 7}
    assert requests == len(everyone) + 7


def test_an_update_by_listing_asks_only_for_what_changed(tmp_path: Path) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, list[str]]:
        await run_relay(world, tmp_path)
        changed = list(Truth.of(world).archivable(on_relay=True))[:5]
        await asyncio.to_thread(pretend_old, tmp_path, changed)
        return await run_relay(world, tmp_path, update=True), changed

    crawled, changed = in_world(use)
    assert {did for did, n in blocks_written(tmp_path).items() if n == 2} == set(changed)
    assert crawled.metrics.yields["repos"] == 5


def test_whoever_is_gone_gets_a_tombstone_and_comes_back_without_it(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(world: AtprotoWorld) -> tuple[list[str], dict[str, Any], dict[str, Any], Crawled]:
        mirror = mirrored(world)
        await run(world, tmp_path)
        quiet, *_, buried = Truth.of(world).archivable(in_plc=True)
        kept = mirror.rows.pop(buried)
        with monkeypatch.context() as patch:
            switch_off(patch, world, [quiet])
            await run(world, tmp_path, update=True)
        gone = archived(tmp_path)
        mirror.rows = dict(sorted({**mirror.rows, buried: kept}.items()))
        back = await run(world, tmp_path, update=True, recheck_inactive=0)
        return [quiet, buried], gone, archived(tmp_path), back

    (quiet, buried), gone, after, back = in_world(use)
    stones = {stone.did: stone.reason for stone in read_tombstones(tmp_path / "archive")}
    assert stones == {quiet: "deactivated"}, "the directory itself still knows the other one"
    assert quiet not in gone and buried in gone
    assert quiet in after and quiet not in back.failures
    assert blocks_written(tmp_path)[quiet] == 2


def test_an_account_that_the_directory_buried_gets_a_tombstone(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(world: AtprotoWorld) -> tuple[str, Crawled]:
        mirror = mirrored(world)
        await run(world, tmp_path)
        *_, buried = Truth.of(world).archivable(in_plc=True)
        del mirror.rows[buried]
        monkeypatch.setitem(
            directory._VIEWS, "/", lambda people, account: directory._not_available(buried)
        )
        return buried, await run(world, tmp_path, update=True)

    buried, crawled = in_world(use)
    (stone,) = read_tombstones(tmp_path / "archive")
    assert (stone.did, stone.reason) == (buried, "not_found")
    assert crawled.failures[f"resolve:{buried}"].reason is Reason.NOT_FOUND
    assert buried not in archived(tmp_path)


def test_the_notes_can_be_lost_and_are_read_from_the_archive_again(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(world: AtprotoWorld) -> tuple[int, int]:
        mirrored(world)
        await run(world, tmp_path)
        quiet, *_ = Truth.of(world).archivable(in_plc=True)
        with monkeypatch.context() as patch:
            switch_off(patch, world, [quiet])
            await run(world, tmp_path, update=True)
        for file in (tmp_path / "state" / "repos" / "notes").iterdir():
            file.write_bytes(b"rubbish" * 1000)
        before = asked(world)
        again = await run(world, tmp_path)
        notes = open_notes(tmp_path / "state" / "repos" / "notes")
        archive = ArchiveCatalogue(notes, tmp_path / "archive", SystemClock())
        assert archive.rev(quiet) is None
        archive.close()
        notes.close()
        return asked(world) - before, again.metrics.yields["repos"]

    assert in_world(use) == (0, 0)


def test_what_servers_claim_is_checked_against_the_mirror(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror]
) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth, int]:
        mirrored(world)
        before = world.served.turns["127.0.0.1"]
        crawled = await run_relay(world, tmp_path)
        return crawled, Truth.of(world), world.served.turns["127.0.0.1"] - before

    crawled, truth, directory_asked = in_world(use)
    assert archived(tmp_path) == truth.archivable(on_relay=True)
    assert any(did.startswith("did:web:") for did in archived(tmp_path)), "no mirror has those"
    assert directory_asked == 0
    moved = sum(
        "former_pds" in row and truth.hosts[row["former_pds"]]["on_relay"]
        for row in truth.rows.values()
        if row["status"] not in ("deleted", "tombstoned", "junk")
    )
    # Whoever has moved is archived from where they live, and nobody is left out for it.
    assert moved > 0
    assert "lives_elsewhere" not in crawled.text
    assert crawled.reasons == truth.with_status("deactivated", "takendown", "suspended")


def test_another_source_in_the_same_workspace_begins_its_own_sweep(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror]
) -> None:
    async def use(world: AtprotoWorld) -> Truth:
        truth = Truth.of(world)
        dids = tmp_path / "dids"
        dids.write_text("\n".join(sorted(truth.archivable())[-5:]))
        await run(world, tmp_path, dids=str(dids))
        await run_relay(world, tmp_path)
        mirrored(world)
        await run(world, tmp_path)
        return truth

    truth = in_world(use)
    assert archived(tmp_path).keys() >= truth.archivable(in_plc=True).keys()
    assert set(blocks_written(tmp_path).values()) == {1}


def test_a_directory_that_is_gone_costs_no_server_its_good_name(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror]
) -> None:
    async def use(world: AtprotoWorld) -> Crawled:
        mirror = mirrored(world)
        # Every key is out of date, so that each repository needs a second look.
        mirror.rows = {did: RepoIdentity(did, row.pds, "") for did, row in mirror.rows.items()}
        more = {"plc_url": "http://127.0.0.1:9", "retry_base": 0.01}
        return await run(world, tmp_path, **more)

    crawled = in_world(use)
    assert not crawled.counts.blocked
    assert set(crawled.reasons.values()) >= {Reason.UNAVAILABLE, Reason.DEACTIVATED}
    assert archived_nothing(tmp_path)


def archived_nothing(workspace: Path) -> bool:
    return not list((workspace / "archive").glob("*.rca"))


def test_an_account_that_moved_is_followed(
    tmp_path: Path, mirrored: Callable[[AtprotoWorld], SimMirror]
) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Crawled, set[str]]:
        mirror, truth = mirrored(world), Truth.of(world)
        now, moved = dict(mirror.rows), set()
        for did in truth.archivable(in_plc=True):
            if (former := truth.rows[did].get("former_pds")) is not None:
                mirror.rows[did] = RepoIdentity(did, former, now[did].key)
                moved.add(did)
        first = await run(world, tmp_path)
        mirror.rows = now
        return first, await run(world, tmp_path, recheck_inactive=0), moved

    first, again, moved = in_world(use)
    assert moved and {first.reasons[did] for did in moved} == {Reason.DEACTIVATED}
    assert not moved & again.failures.keys()
    assert archived(tmp_path).keys() >= moved


def test_what_is_archived_is_written_down_soon_not_only_in_thousands(tmp_path: Path) -> None:
    """`status` reads it from another process while a slow crawl goes on for hours."""

    async def main() -> list[int]:
        clock, seen = SimClock(), []
        notes = open_notes(tmp_path / "notes")
        archive = ArchiveCatalogue(notes, tmp_path / "archive", clock)
        for number in range(4):
            await archive.note({f"did:plc:{number}": "3kaaaaaaaaa2a"})
            with notes.reading(notes.table("revs")) as txn:
                seen.append(txn.stat(notes.table("revs"))["entries"])
            await clock.sleep(20.0)
        archive.close()
        notes.close()
        return seen

    assert run_sim(main()) == [1, 1, 3, 3]


def test_a_second_task_for_an_account_does_not_fetch_it_again(tmp_path: Path) -> None:
    """A task that was put back and one from a listing may both name it, and a crawl may be killed
    between writing a block and settling its task."""

    async def crawl_twice(world: AtprotoWorld) -> tuple[Crawled, int]:
        await run_relay(world, tmp_path)
        rows = {did: Truth.of(world).rows[did] for did in archived(tmp_path)}
        tasks = [RepoVisit(did, row["pds"]).task() for did, row in rows.items()]
        config = ReposConfig(**FAST | {"plc_url": world.plc, "relay": (world.relay,)})
        clock = SystemClock()
        async with open_parts(config, tmp_path, clock, CrawlMetrics("repos", clock)) as parts:
            await parts.store.feed(Page(tasks, "relay " + world.relay))
        return await run_relay(world, tmp_path), len(tasks)

    crawled, repos = in_world(crawl_twice)
    assert crawled.tally["not_modified"] == repos > 0
    assert set(blocks_written(tmp_path).values()) == {1}
