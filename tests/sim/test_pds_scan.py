"""Scans of well-behaved PDSes: everything found once, at the price that was promised."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from tests.support.pds.scan import (
    COMMENT,
    ENDORSEMENT,
    EPRINT,
    LEASE,
    LIKE,
    TAG,
    Bench,
    bench,
    bench_for,
    claim,
    pdses_on,
    rkey,
    write,
)
from tests.support.pds.sim_model import SimPds
from trawlnet.crawlers.pds.records.lexicon_files import load_lexicons
from trawlnet.crawlers.pds.scanning.named import before_next, joined
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanResult, ScanVerdict
from trawlnet.engine.outcome import Reason
from trawlnet.engine.rules import Manners
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.pds import PdsMeter
from trawlnet.sim.atproto import serve_atproto

FIRST = 3000  # Of the loopback addresses of this file.
C = 5  # Collections of the preset.


def village(repos: int, scholars: int, *, first: int = FIRST) -> SimPds:
    """A PDS of so many repos, of which some have an eprint and a comment each."""
    (pds,) = pdses_on(1, first)
    for number in range(repos):
        repo = pds.repo(f"{first}/{number}")
        write(repo, LIKE, 1)
        if number < scholars:
            write(repo, EPRINT, 1)
            write(repo, COMMENT, 1)
    return pds


@pytest.mark.parametrize("ends_with_cursor", [False, True], ids=["bare_end", "cursor_at_end"])
@pytest.mark.parametrize(("repos", "scholars"), [(1, 1), (10, 1), (200, 1), (30, 30)])
def test_a_first_scan_costs_what_describing_every_repo_costs(
    tmp_path: Path, repos: int, scholars: int, ends_with_cursor: bool
) -> None:
    pds = village(repos, scholars)
    pds.ends_with_cursor = ends_with_cursor
    extra = int(ends_with_cursor)  # One empty page after each listing.

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            result = await made.scan(pds)
            assert result.verdict is ScanVerdict.COMPLETE
            assert result.indexed == 2 * scholars == result.held_total
            pages = 1 + extra
            asked_in_vain = int(repos > C + 30)
            price = pages + repos + 2 * scholars * (1 + extra) + asked_in_vain
            assert result.requests == made.world.requests(pds) == price
            assert result.lookups == made.world.lookups == scholars

    asyncio.run(run())


@pytest.mark.slow
@pytest.mark.parametrize(("repos", "pages"), [(1, 1), (999, 1), (2500, 3)])
def test_a_rescan_of_an_idle_pds_costs_one_request_per_thousand_repos(
    tmp_path: Path, repos: int, pages: int
) -> None:
    pds = village(repos, 1)
    pds.lists_by_collection = True  # Only to make the first scan short.

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            await made.scan(pds)
            pds.asked.clear()
            again = await made.scan(pds)
            assert again.complete and again.held_total == 2 and again.found == 0
            assert again.requests == pages
            assert pds.asked == {"listRepos": pages}

    asyncio.run(run())


def test_a_pds_that_lists_by_collection_is_not_asked_repo_by_repo(tmp_path: Path) -> None:
    pds = village(200, 3)
    pds.lists_by_collection, pds.ends_with_cursor = True, False

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            result = await made.scan(pds)
            assert result.complete and result.indexed == 6
            assert result.requests == 1 + C + 3 * 2
            assert "describeRepo" not in pds.asked

    asyncio.run(run())


def test_that_a_method_is_missing_is_remembered(tmp_path: Path) -> None:
    pds = village(50, 1)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            await made.scan(pds)
            for number in range(50):
                write(pds.repo(f"{FIRST}/{number}"), LIKE, 1)
            await made.scan(pds)
            assert pds.asked["listReposByCollection"] == 1

    asyncio.run(run())


def test_only_changed_repos_are_read_again(tmp_path: Path) -> None:
    pds = village(40, 5)
    pds.ends_with_cursor = False

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            await made.scan(pds)
            write(pds.repo(f"{FIRST}/0"), EPRINT, 1, first=7)
            write(pds.repo(f"{FIRST}/39"), LIKE, 1, first=7)
            pds.asked.clear()
            result = await made.scan(pds)
            assert result.held_total == 11
            assert pds.asked == {"listRepos": 1, "describeRepo": 2, "listRecords": 2}

    asyncio.run(run())


def test_every_so_often_everything_is_read_again(tmp_path: Path) -> None:
    pds = village(3, 1)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            described = []
            for _ in range(6):
                pds.asked.clear()
                await made.scan(pds, full_every=3)
                described.append(pds.asked["describeRepo"])
            assert described == [3, 0, 3, 0, 0, 3]

    asyncio.run(run())


def test_records_are_told_apart_and_kept(tmp_path: Path) -> None:
    (pds,) = pdses_on(1, FIRST + 1)
    repo = pds.repo("scholar")
    write(repo, EPRINT, 2)
    write(repo, COMMENT, 1)
    write(repo, ENDORSEMENT, 1)
    write(repo, TAG, 3)
    repo.put(EPRINT, rkey(99), {"title": "No document"})
    repo.put("pub.chive.discovery.settings", "self", {"anything": [1, {"goes": True}]})

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            result = await made.scan(pds)
            counts = (result.found, result.indexed, result.skipped, result.failed)
            assert counts == (9, 5, 3, 1)
            assert result.tally.skipped == {TAG: 3}
            assert result.tally.found["pub.chive.*"] == 1
            assert result.held_total == 9 and result.indexed_held == 5
            for table, size in {"eprints": 2, "reviews": 1, "endorsements": 1, "tags": 3}.items():
                assert len(await made.uris(table)) == size
            assert await made.uris("records") == [
                f"at://{repo.did}/pub.chive.discovery.settings/self"
            ]
            assert await made.column("tags", "indexed_at") == [None] * 3
            (problem,) = await made.column("invalid_records", "problem")
            assert problem == "document: is missing"
            raw = {json.loads(text)["title"] for text in await made.column("eprints", "raw_json")}
            assert raw == {"On the drift of nets, part 0", "On the drift of nets, part 1"}

    asyncio.run(run())


def test_tags_are_indexed_once_somebody_asks(tmp_path: Path) -> None:
    (pds,) = pdses_on(1, FIRST + 1)
    write(pds.repo("tagger"), TAG, 2)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            before = await made.scan(pds)
            assert (before.skipped, before.held_total) == (2, 2)
            # Nothing has changed there, and yet everything is read again: we look otherwise.
            after = await made.looking_for(index_tags=True).scan(pds)
            assert (after.indexed, after.skipped) == (2, 0)
            assert None not in await made.column("tags", "indexed_at")

    asyncio.run(run())


def test_any_collection_can_be_collected(tmp_path: Path) -> None:
    pds = village(4, 1)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            result = await made.looking_for("app.bsky.feed.*").scan(pds)
            assert result.tally.indexed == {"app.bsky.feed.*": 4}
            assert len(await made.uris("records")) == 4
            assert await made.uris("eprints") == []

    asyncio.run(run())


def test_a_lexicon_in_the_workspace_is_enforced(tmp_path: Path) -> None:
    pds = village(2, 0)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db", lexicons=strict_lexicons(tmp_path)) as made:
            result = await made.looking_for("app.bsky.*").scan(pds)
            assert (result.indexed, result.failed) == (0, 2)
            problems = await made.column("invalid_records", "problem")
            assert problems == ["subject: is not a string"] * 2

    asyncio.run(run())


def test_what_a_lexicon_had_withdrawn_is_back_without_it(tmp_path: Path) -> None:
    """No account has changed: that each was read without the lexicon before says nothing now."""
    pds = village(2, 0, first=FIRST + 41)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            plain = made.looking_for("app.bsky.*")
            strict = made.looking_for(
                "app.bsky.*", lexicons=load_lexicons(strict_lexicons(tmp_path))
            )
            for _ in range(2):
                await plain.scan(pds)
                assert len(await made.uris("records")) == 2
                assert await made.uris("invalid_records") == []
                await strict.scan(pds)
                assert await made.uris("records") == []
                assert len(await made.uris("invalid_records")) == 2

    asyncio.run(run())


def strict_lexicons(folder: Path) -> Path:
    """A folder with one that no like of these tests fulfils."""
    lexicons = folder / "lexicons"
    lexicons.mkdir()
    record = {
        "type": "object",
        "required": ["subject"],
        "properties": {"subject": {"type": "string"}},
    }
    like = {"lexicon": 1, "id": LIKE, "defs": {"main": {"type": "record", "record": record}}}
    (lexicons / "like.json").write_text(json.dumps(like))
    return lexicons


def test_what_is_deleted_there_is_marked_here(tmp_path: Path) -> None:
    pds = village(3, 3)
    first, second, third = list(pds.repos.values())

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            await made.scan(pds)
            assert len(await made.uris("eprints")) == 3
            first.delete(EPRINT, rkey(0))  # A record, and with it the whole collection.
            second.status = "takendown"
            del pds.repos[third.did]
            result = await made.scan(pds)
            assert result.complete and result.held == {COMMENT: 1}
            assert await made.uris("eprints") == []
            assert len(await made.uris("eprints", live=False)) == 3
            second.status = ""
            write(first, EPRINT, 1)
            result = await made.scan(pds)
            assert len(await made.uris("eprints")) == 2 == len(await made.uris("reviews"))

    asyncio.run(run())


def test_an_edited_record_is_the_same_record(tmp_path: Path) -> None:
    pds = village(1, 1)
    (repo,) = pds.repos.values()

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            await made.scan(pds)
            before = await made.column("eprints", "indexed_at")
            repo.put(COMMENT, rkey(5), dict(repo.records[COMMENT][rkey(0)]))
            await made.scan(pds)
            assert await made.column("eprints", "indexed_at") == before
            repo.put(EPRINT, rkey(0), repo.records[EPRINT][rkey(0)] | {"title": "Corrected"})
            await made.scan(pds)
            assert await made.column("eprints", "title") == ["Corrected"]
            repo.put(EPRINT, rkey(0), {"title": "No longer whole"})
            result = await made.scan(pds)
            assert await made.uris("eprints") == []
            assert result.held == {EPRINT: 1, COMMENT: 2}

    asyncio.run(run())


def test_a_cap_means_the_rest_comes_later_and_nothing_twice(tmp_path: Path) -> None:
    (pds,) = pdses_on(1, FIRST + 1)
    write(pds.repo("prolific"), EPRINT, 250)
    write(pds.repo("other"), COMMENT, 30)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            found = []
            while not (result := await made.scan(pds, records=60)).complete:
                assert (result.verdict, result.found) == (ScanVerdict.PARTIAL, 60)
                found.append(result.found)
            found.append(result.found)
            assert sum(found) == 280
            assert pds.asked["listRepos"] == 2 and pds.asked["describeRepo"] == 2
            assert len(await made.uris("eprints")) == 250
            assert len(await made.uris("reviews")) == 30

    asyncio.run(run())


def test_ten_requests_a_minute_and_a_minute_a_scan_cost_no_request_twice(tmp_path: Path) -> None:
    pds = village(20, 4)
    pds.ends_with_cursor = False

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            clock = SixSecondsPerRequest(made, pds)
            slow = replace(made, parts=replace(made.parts, clock=clock))
            requests = []
            while not (result := await slow.scan(pds, seconds=60.0)).complete:
                assert result.verdict is ScanVerdict.PARTIAL and result.again_in is not None
                requests.append(result.requests)
            assert [*requests, result.requests] == [10, 10, 9]
            assert made.world.requests(pds) == 1 + 20 + 4 * 2
            assert result.held_total == 8

    asyncio.run(run())


class SixSecondsPerRequest:
    """Time as a scan at ten requests a minute knows it, without the waiting."""

    def __init__(self, made: Bench, pds: SimPds) -> None:
        self._made = made
        self._pds = pds

    def now(self) -> float:
        # Later than the gate's own clock, which lets everything pass.
        return 4_000_000_000.0 + 6.0 * self._made.world.requests(self._pds)

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()  # Only who keeps leases alive waits for time to pass.


def test_whoever_is_stopped_does_not_ask_again_what_was_answered(tmp_path: Path) -> None:
    pds = village(60, 0, first=FIRST + 3)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db", manners=Manners(rate=400.0)) as made:
            scanning = asyncio.ensure_future(made.scan(pds))
            while pds.asked["describeRepo"] < 20:
                await asyncio.sleep(0.001)
            scanning.cancel()
            await asyncio.wait([scanning])
            assert scanning.cancelled()
            assert (await made.scan(pds)).complete

    asyncio.run(run())
    # The one that was under way may have been answered, and not heard.
    assert 60 <= pds.asked["describeRepo"] <= 61


def test_slices_follow_each_other_until_the_end_or_until_they_lead_nowhere() -> None:
    tally = ScanCounts(Counter(c=3), Counter(c=2), Counter(), Counter(c=1))
    piece = ScanResult(
        ScanVerdict.PARTIAL, Reason.OK, "", 0.0, tally, 10, 1, 5, {"c": 3}, 2, left=7
    )
    end = replace(piece, verdict=ScanVerdict.COMPLETE, again_in=None, held={"c": 6}, left=0)
    whole = joined(piece, end)
    assert (whole.verdict, whole.requests, whole.repos, whole.left) == (
        ScanVerdict.COMPLETE,
        20,
        10,
        0,
    )
    assert (whole.found, whole.indexed, whole.failed, whole.held_total) == (6, 4, 2, 6)
    assert before_next(piece) == 0.0 and before_next(end) is None
    sent_away = replace(piece, verdict=ScanVerdict.PUT_OFF, again_in=300.0)
    assert before_next(sent_away) == 300.0
    assert before_next(replace(sent_away, again_in=7200.0)) is None
    assert before_next(replace(sent_away, repos=0, tally=ScanCounts())) is None, "429 without end"
    assert before_next(replace(piece, again_in=86_400.0)) is None, "some repos could not be read"
    assert before_next(replace(piece, verdict=ScanVerdict.FAILED, again_in=None)) is None


def test_one_account_is_scanned_by_itself(tmp_path: Path) -> None:
    pds = village(5, 5)
    did = next(iter(pds.repos))

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            result = await made.scan_did(pds, did)
            assert (result.complete, result.indexed) == (True, 2)
            again = await made.scan_did(pds, did)
            assert (again.reason, again.requests) == (Reason.NOT_MODIFIED, 1)
            pds.repos[did].delete(COMMENT, rkey(0))
            await made.scan_did(pds, did)
            assert await made.uris("reviews") == []
            whole = await made.scan(pds)
            assert whole.complete and whole.held == {EPRINT: 5, COMMENT: 4}
            assert pds.asked["describeRepo"] == 2 + 4  # Its rev was known by then.

    asyncio.run(run())


def test_an_account_that_moves_takes_its_records_along(tmp_path: Path) -> None:
    old, new = pdses_on(2, FIRST + 2)
    repo = old.repo("mover")
    write(repo, EPRINT, 2)

    async def run() -> None:
        async with bench([old, new], tmp_path / "r.db") as made:
            for _ in range(3):
                await made.scan(old)
                write(repo, EPRINT, 1)
            new.repos[repo.did] = repo
            repo.delete(EPRINT, rkey(1))
            made.world.homes[repo.did] = new
            result = await made.scan(new)  # Who asked a moment ago is remembered elsewhere.
            assert result.held == {EPRINT: 1}
            gone = await made.scan(old)
            assert gone.complete and gone.held == {}
            assert await made.uris("eprints") == [f"at://{repo.did}/{EPRINT}/{rkey(0)}"]

    asyncio.run(run())


def test_an_account_that_comes_back_as_it_was_is_read_again(tmp_path: Path) -> None:
    """Its old server never ceased to list it, and nothing was written meanwhile."""
    old, new = pdses_on(2, FIRST + 2)
    repo = old.repo("returner")
    write(repo, EPRINT, 2)

    async def run() -> None:
        async with bench([old, new], tmp_path / "r.db") as made:
            new.repos[repo.did] = repo
            made.world.homes[repo.did] = new
            away = await made.scan(old)
            assert away.held == {}
            made.world.homes[repo.did] = old
            del new.repos[repo.did]
            back = await made.scan(old)
            assert back.complete and back.held == {EPRINT: 2}
            assert len(await made.uris("eprints")) == 2

    asyncio.run(run())


def test_the_whole_simulated_network_is_indexed_as_its_manifest_says(tmp_path: Path) -> None:
    async def run() -> None:
        world = await serve_atproto(61, accounts=300, hosts=6, habits={}, largest_repo=60)
        try:
            async with bench_for(world, tmp_path / "r.db") as made:
                await _scan_everything(made, list(world.pds))
                told = json.loads(world.manifest.read_bytes())["dids"]
                wanted = {
                    did: row["records"]
                    for did, row in told.items()
                    if row["status"] == "active" and EPRINT in row["records"]
                }
                assert wanted
                for table, collection in {
                    "eprints": EPRINT,
                    "reviews": COMMENT,
                    "tags": TAG,
                }.items():
                    uris = await made.uris(table)
                    for did, records in wanted.items():
                        mine = [uri for uri in uris if uri.startswith(f"at://{did}/{collection}/")]
                        assert len(mine) == records.get(collection, 0), (did, collection)
                    assert len(uris) == sum(row.get(collection, 0) for row in wanted.values())
        finally:
            await world.close()

    asyncio.run(run())


async def _scan_everything(made: Bench, urls: list[str]) -> None:
    from trawlnet.crawlers.pds.scanning.scan import scan_pds

    for url in urls:
        verdict = ScanVerdict.PARTIAL
        await claim(made.db, url)
        while verdict is ScanVerdict.PARTIAL:
            deadline = made.parts.clock.now() + 60.0
            result = await scan_pds(made.parts, url, lease=LEASE, deadline=deadline)
            verdict = result.verdict
        assert verdict is ScanVerdict.COMPLETE


def test_scans_are_counted_under_names_that_we_know(tmp_path: Path) -> None:
    (pds,) = pdses_on(1, FIRST + 1)
    repo = pds.repo("counted")
    write(repo, EPRINT, 2)
    write(repo, TAG, 1)
    repo.put(COMMENT, rkey(0), {"body": "no list"})
    repo.put("pub.chive.named.byastranger", rkey(0), {})

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            metrics = CrawlMetrics("pds", made.parts.clock)
            counting = replace(made, parts=replace(made.parts, meter=PdsMeter(metrics)))
            await counting.scan(pds)
            text = generate_latest(metrics.registry).decode()
            indexed = 'chive_pds_records_indexed_total{collection="%s",status="%s"} %s'
            for row in (
                indexed % (EPRINT, "success", "2.0"),
                indexed % (TAG, "skipped", "1.0"),
                indexed % (COMMENT, "error", "1.0"),
                indexed % ("pub.chive.*", "success", "1.0"),
                'chive_pds_scans_total{status="success"} 1.0',
                f'chive_pds_records_scanned_total{{collection="{EPRINT}"}} 2.0',
            ):
                assert row in text
            assert "stranger" not in text

    asyncio.run(run())


@pytest.mark.parametrize("is_busy", [False, True])
def test_nobody_is_withdrawn_behind_an_end_that_was_assumed(tmp_path: Path, is_busy: bool) -> None:
    """The listing ended with this page and cursor, and it has grown since: another scan has met the
    newcomers. Sizes of pages are odd here, so that the full page looks like one with room."""
    pds = village(7, 1, first=FIRST + 42)
    pds.largest_page = 7

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            await made.scan(pds)
            for name in ("newcomer", "another"):
                made.world.homes[pds.repo(name).did] = pds
                write(pds.repo(name), EPRINT, 1)
            assert (await made.looking_for("pub.chive.eprint.*").scan(pds)).held[EPRINT] == 3
            if is_busy:
                write(next(iter(pds.repos.values())), EPRINT, 1)
            again = await made.scan(pds)
            assert again.complete and again.held[EPRINT] == 3
            assert len(await made.uris("eprints")) == 3

    asyncio.run(run())


@pytest.mark.parametrize("cap", [50, 500])
def test_whoever_comes_after_a_page_that_was_just_full_is_found(tmp_path: Path, cap: int) -> None:
    """A server whose pages are smaller than asked for ends its listing with the same page, and the
    same cursor, whether there is one more behind it or not."""
    pds = village(cap, 1, first=FIRST + 40)
    pds.largest_page, pds.lists_by_collection = cap, True

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            assert (await made.scan(pds)).held_total == 2
            newcomer = pds.repo("newcomer")
            made.world.homes[newcomer.did] = pds
            write(newcomer, EPRINT, 1)
            assert (await made.scan(pds)).held_total == 3

    asyncio.run(run())
