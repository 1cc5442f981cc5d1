"""Hostile PDSes: nothing false is indexed, every scan ends in time, and says why."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import orjson
import pytest

from tests.support.pds.scan import (
    COMMENT,
    EPRINT,
    LIKE,
    bench,
    pdses_on,
    rkey,
    write,
)
from tests.support.pds.sim_answers import HALF, VICTIM
from tests.support.pds.sim_model import Invented, PdsLie, SimPds
from trawlnet.crawlers.pds.scanning.pages import read_records, read_repos
from trawlnet.crawlers.pds.scanning.parts import ScanLimits, ScanResult, ScanVerdict
from trawlnet.engine.outcome import Reason
from trawlnet.engine.rules import Manners
from trawlnet.malformed import Malformed
from trawlnet.net.lane import lane_of
from trawlnet.sim.habits import Habit, Temper

FIRST = 3100
LATE = 10.0  # Seconds that a busy machine may be behind a deadline.
TABLES = ("eprints", "reviews", "endorsements", "tags", "records", "invalid_records")
# Habits as strong as in life, on a scale that a test can wait for.
TEMPER = Temper(
    drip_gap=0.2,
    drip_size=1,
    throttle_every=1,
    throttle_wait=3600,
    bomb_size=64 << 20,
    longest=30.0,
)


def hostile(lie: PdsLie = PdsLie.NONE, habit: Habit = Habit.GOOD, repos: int = 3) -> SimPds:
    (pds,) = pdses_on(1, FIRST)
    pds.lie, pds.habit = lie, habit
    for number in range(repos):
        repo = pds.repo(f"hostile/{number}")
        write(repo, LIKE, 1)
        write(repo, EPRINT, 2)
    return pds


def scanned(
    pds: SimPds,
    folder: Path,
    seconds: float = 20.0,
) -> ScanResult:
    async def run() -> ScanResult:
        patience = 0.5 if pds.habit in (Habit.DRIP, Habit.STALL) else 10.0
        limits = ScanLimits(request_seconds=patience, page_bytes=1 << 20)
        async with bench([pds], folder / "r.db", temper=TEMPER, limits=limits) as made:
            begun = time.monotonic()
            result = await made.scan(pds, seconds=seconds)
            assert time.monotonic() - begun < seconds + LATE
            stored = [uri for table in TABLES for uri in await made.uris(table, live=False)]
            assert not [uri for uri in stored if VICTIM in uri]
            assert all(uri.startswith(tuple(f"at://{did}/" for did in pds.repos)) for uri in stored)
            assert len(stored) == len(set(stored)) <= 2 * len(pds.repos)
            if pds.lie in (PdsLie.STOLEN_REPOS, PdsLie.FORGED_URIS):
                assert stored == []
            return result

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("lie", "verdict", "reason"),
    [
        (PdsLie.STOLEN_REPOS, ScanVerdict.COMPLETE, Reason.REFUSED),
        (PdsLie.FORGED_URIS, ScanVerdict.FAILED, Reason.PARSE_ERROR),
        (PdsLie.ENDLESS_REPOS, ScanVerdict.FAILED, Reason.LOOP),
        (PdsLie.ENDLESS_RECORDS, ScanVerdict.FAILED, Reason.LOOP),
        (PdsLie.RELAY, ScanVerdict.FAILED, Reason.REFUSED),
        (PdsLie.LISTING_ONLY, ScanVerdict.FAILED, Reason.REFUSED),
        (PdsLie.BROKEN_JSON, ScanVerdict.FAILED, Reason.PARSE_ERROR),
    ],
)
def test_a_lie_is_seen_through(
    tmp_path: Path, lie: PdsLie, verdict: ScanVerdict, reason: Reason
) -> None:
    result = scanned(hostile(lie), tmp_path)
    assert (result.verdict, result.reason) == (verdict, reason), result.detail
    assert result.detail
    assert result.requests < 30


@pytest.mark.parametrize(
    ("habit", "verdict", "reason"),
    [
        (Habit.HUGE, ScanVerdict.FAILED, Reason.TOO_LARGE),
        (Habit.BOMB, ScanVerdict.FAILED, Reason.TOO_LARGE),
        (Habit.DRIP, ScanVerdict.FAILED, Reason.TIMEOUT),
        (Habit.STALL, ScanVerdict.FAILED, Reason.TIMEOUT),
        (Habit.REDIRECT_PRIVATE, ScanVerdict.FAILED, Reason.REFUSED),
        (Habit.REDIRECT_LOOP, ScanVerdict.FAILED, Reason.REFUSED),
        (Habit.GARBAGE, ScanVerdict.FAILED, Reason.CONNECTION_ERROR),
        (Habit.DEAD, ScanVerdict.FAILED, Reason.CONNECTION_ERROR),
        (Habit.SERVER_ERROR, ScanVerdict.FAILED, Reason.UNAVAILABLE),
        (Habit.TRUNCATING, ScanVerdict.FAILED, Reason.TRUNCATED),
        (Habit.LYING, ScanVerdict.FAILED, Reason.PARSE_ERROR),
    ],
)
def test_trouble_on_the_wire_is_a_failure_and_never_an_empty_pds(
    tmp_path: Path, habit: Habit, verdict: ScanVerdict, reason: Reason
) -> None:
    result = scanned(hostile(habit=habit), tmp_path)
    assert (result.verdict, result.reason) == (verdict, reason), result.detail
    assert not result.complete and result.held_total == 0


def test_an_hour_of_429_is_waited_for_elsewhere_and_by_everybody(tmp_path: Path) -> None:
    pds = hostile(habit=Habit.THROTTLE_RETRY_AFTER)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db", temper=TEMPER) as made:
            result = await made.scan(pds)
            assert (result.verdict, result.reason) == (ScanVerdict.PUT_OFF, Reason.RATE_LIMITED)
            assert result.again_in == 3600.0
            did = next(iter(pds.repos))
            other = await made.scan_did(pds, did)
            assert (other.verdict, other.reason) == (ScanVerdict.PUT_OFF, Reason.PARKED)
            assert other.again_in and 3500.0 < other.again_in <= 3600.0
            assert made.world.requests(pds) == 1

    asyncio.run(run())


def test_429_without_end_is_no_failure_however_short_each_is(tmp_path: Path) -> None:
    pds = hostile(habit=Habit.THROTTLE_RETRY_AFTER)

    async def run() -> None:
        temper = Temper(throttle_every=1, throttle_wait=1)
        async with bench([pds], tmp_path / "r.db", temper=temper) as made:
            result = await made.scan(pds, tries=2)
            assert (result.verdict, result.reason) == (ScanVerdict.PUT_OFF, Reason.RATE_LIMITED)
            assert made.world.requests(pds) == 2

    asyncio.run(run())


def test_a_short_429_now_and_then_is_waited_for(tmp_path: Path) -> None:
    pds = hostile(habit=Habit.THROTTLE_RETRY_AFTER, repos=1)

    async def run() -> None:
        temper = Temper(throttle_every=3, throttle_wait=1)
        async with bench([pds], tmp_path / "r.db", temper=temper) as made:
            result = await made.scan(pds)
            assert result.complete and result.held == {EPRINT: 2}
            assert made.world.requests(pds) == pds.asked.total() + 2

    asyncio.run(run())


def test_a_drip_that_outlasts_the_scan_is_the_servers_fault(tmp_path: Path) -> None:
    result = scanned(hostile(habit=Habit.DRIP), tmp_path, seconds=0.8)
    assert (result.verdict, result.reason) == (ScanVerdict.FAILED, Reason.TIMEOUT)


def test_a_flapping_server_is_scanned_to_its_end(tmp_path: Path) -> None:
    result = scanned(hostile(habit=Habit.FLAPPING), tmp_path)
    assert result.complete and result.held == {EPRINT: 6}


def test_many_accounts_from_elsewhere_end_the_scan(tmp_path: Path) -> None:
    pds = hostile(PdsLie.STOLEN_REPOS, repos=50)
    result = scanned(pds, tmp_path)
    assert (result.verdict, result.reason) == (ScanVerdict.FAILED, Reason.REFUSED)
    assert result.requests < 20 and pds.asked["listRecords"] == 0


def test_one_stranger_among_neighbours_spoils_nothing(tmp_path: Path) -> None:
    pds = hostile()
    did = next(iter(pds.repos))

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            del made.world.homes[did]
            result = await made.scan(pds)
            assert (result.verdict, result.reason) == (ScanVerdict.COMPLETE, Reason.OK)
            assert result.held == {EPRINT: 4}
            again = await made.scan(pds)
            assert again.requests == 2  # It may live there by now, without having changed.

    asyncio.run(run())


def test_many_strangers_hide_no_residents_who_have_not_changed(tmp_path: Path) -> None:
    """Residents are not read again by the second scan, strangers are."""
    pds = hostile(repos=10)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            for did in sorted(pds.repos)[2:]:
                del made.world.homes[did]
            for _ in range(2):
                result = await made.scan(pds)
                assert (result.verdict, result.reason) == (ScanVerdict.COMPLETE, Reason.OK)
                assert result.held == {EPRINT: 4}

    asyncio.run(run())


def test_one_broken_repo_forbids_to_say_that_there_is_nothing(tmp_path: Path) -> None:
    (pds,) = pdses_on(1, FIRST)
    for number in range(4):
        write(pds.repo(f"quiet/{number}"), LIKE, 1)
    broken = pds.repo("quiet/0")
    broken.records["not an nsid"] = {}

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            # More collections than any repo has: the description is refused.
            broken.records |= {f"com.example.c{n}": {"k": {}} for n in range(2500)}
            result = await made.scan(pds)
            assert result.verdict is ScanVerdict.PARTIAL and "1 of 4 repos" in result.detail
            for name in list(broken.records):
                if name != LIKE:
                    del broken.records[name]
            result = await made.scan(pds)  # Its rev is the same, and yet it is asked again.
            assert result.complete and result.held_total == 0

    asyncio.run(run())


def test_a_directory_that_is_down_is_no_fault_of_the_pds(tmp_path: Path) -> None:
    pds = hostile()

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            made.world.is_directory_up = False
            result = await made.scan(pds)
            assert (result.verdict, result.reason) == (ScanVerdict.PUT_OFF, Reason.PARKED)
            assert await made.uris("eprints") == []
            made.world.is_directory_up = True
            made.parts.identities._known.clear()
            result = await made.scan(pds)
            assert result.complete and result.held == {EPRINT: 6}
            assert pds.asked["listRepos"] == 2  # The first page is not listed again.

    asyncio.run(run())


def test_a_cursor_that_is_refused_later_does_not_stop_scans_for_good(tmp_path: Path) -> None:
    (pds,) = pdses_on(1, FIRST)
    pds.largest_page = 2
    for number in range(5):
        write(pds.repo(f"upgraded/{number}"), COMMENT, 1)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            assert (await made.scan(pds, records=2)).verdict is ScanVerdict.PARTIAL
            progress = await made.parts.tables.progress(made.key(pds))
            from dataclasses import replace

            spoilt = replace(progress, cursor="from another version")
            await made.parts.tables.save(made.key(pds), spoilt, (), 0.0)
            assert (await made.scan(pds)).reason is Reason.HTTP_ERROR
            result = await made.scan(pds)
            assert result.complete and result.held == {COMMENT: 5}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("page", "real", "most"), [(1000, 0, 1), (1000, 3, 11), (100, 30, 330), (7, 7, 120), (1, 1, 30)]
)
def test_a_listing_that_invents_accounts_is_not_walked_for_ever(
    tmp_path: Path, page: int, real: int, most: int
) -> None:
    pds = hostile(PdsLie.INVENTED_REPOS, repos=real)
    pds.largest_page = page

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            result = await made.scan(pds, records=10_000)
            while result.verdict is ScanVerdict.PARTIAL:
                result = await made.scan(pds, records=10_000)
            assert (result.verdict, result.reason) == (ScanVerdict.FAILED, Reason.LOOP)
            assert "names this PDS" in result.detail
            assert result.again_in is not None and result.again_in >= 30 * 86_400
            assert made.world.requests(pds) <= most
            # Whoever comes back does not have to find out again.
            before = made.world.requests(pds)
            again = await made.scan(pds)
            assert again.reason is Reason.LOOP
            assert made.world.requests(pds) - before <= min(page, 100) + 2

    asyncio.run(run())


@pytest.mark.parametrize("invents", [Invented.NO_HOST, Invented.IDLE])
@pytest.mark.parametrize(("page", "most"), [(1000, 1010), (1, 400)])
def test_accounts_that_cannot_be_read_or_looked_up_make_no_listing_endless(
    tmp_path: Path, invents: Invented, page: int, most: int
) -> None:
    """Their documents did not come, or nothing of them was to be read: neither counted."""
    pds = hostile(PdsLie.INVENTED_REPOS, repos=3)
    pds.largest_page, pds.invents = page, invents

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            # So few pages that a walk that goes on to the last of them soon ends as well.
            result = await made.scan(pds, seconds=120.0, listing_pages=200)
            assert (result.verdict, result.reason) == (ScanVerdict.FAILED, Reason.LOOP)
            assert result.again_in is not None and result.again_in >= 30 * 86_400
            assert made.world.requests(pds) <= most

    asyncio.run(run())


@pytest.mark.parametrize("lie", [PdsLie.REPEATED_LEADS, PdsLie.INVENTED_LEADS])
def test_who_has_a_collection_is_not_asked_for_ever(tmp_path: Path, lie: PdsLie) -> None:
    """Slices made no end of it either: each began to count its pages anew."""
    pds = hostile(lie, repos=60)
    pds.lists_by_collection = True

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            assert (await made.scan(pds, seconds=120.0, listing_pages=300)).complete
            assert len(await made.uris("eprints")) == 120
            assert pds.asked["listReposByCollection"] <= 10

    asyncio.run(run())


def test_behind_accounts_that_have_all_moved_away_a_listing_goes_on(tmp_path: Path) -> None:
    """They are switched off here, and each has a document that names another home."""
    pds = hostile(repos=300)
    pds.largest_page = 100
    *moved, _ = pds.repos.values()
    for repo in moved:
        repo.status = "deactivated"
    (home,) = pdses_on(1, FIRST + 50)

    async def run() -> None:
        async with bench([pds, home], tmp_path / "r.db") as made:
            made.world.homes |= {repo.did: home for repo in moved}
            assert (await made.scan(pds)).complete
            assert made.world.lookups > 5
            assert len(await made.uris("eprints")) == 2

    asyncio.run(run())


def test_a_long_listing_of_those_who_live_there_is_walked_to_its_end(tmp_path: Path) -> None:
    """A few who have left without a word are no reason to stop."""
    pds = hostile(repos=90)
    pds.largest_page = 3

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            for did in list(pds.repos)[::3]:
                del made.world.homes[did]
            assert (await made.scan(pds)).complete
            assert len(await made.uris("eprints")) == 2 * 60

    asyncio.run(run())


def test_one_malformed_record_costs_none_of_those_beside_it(tmp_path: Path) -> None:
    pds = hostile(repos=5)
    for repo in pds.repos.values():
        write(repo, COMMENT, 230)
        repo.spoilt.add(rkey(50))
    one = next(iter(pds.repos.values()))

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            result = await made.scan(pds, records=100_000)
            assert result.complete and result.failed == 5
            assert "5 of 5 repos could not be read: parse_error" in result.error
            assert len(await made.uris("reviews")) == 5 * 229
            # It may be any record that cannot be read now: none of them is known to be gone.
            one.spoilt.add(rkey(51))
            one.delete(COMMENT, rkey(52))
            assert (await made.scan(pds, records=100_000)).complete
            assert len(await made.uris("reviews")) == 5 * 229
            for repo in pds.repos.values():
                repo.spoilt.clear()
            whole = await made.scan(pds, records=100_000)
            assert whole.complete and not whole.error
            assert len(await made.uris("reviews")) == 5 * 230 - 1

    asyncio.run(run())


def test_records_that_are_no_data_are_kept_apart(tmp_path: Path) -> None:
    (pds,) = pdses_on(1, FIRST)
    repo = pds.repo("odd")
    deep: dict[str, object] = {}
    for _ in range(200):
        deep = {"d": deep}
    repo.put("pub.chive.odd.thing", rkey(1), deep)
    repo.put("pub.chive.odd.thing", rkey(2), {"n": 2**64 - 1})
    repo.put("pub.chive.odd.thing", rkey(3), {"text": "zero \0 inside"})
    write(repo, EPRINT, 1)
    repo.records[EPRINT][rkey(0)]["title"] = "zero \0 inside"

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            result = await made.scan(pds)
            assert (result.indexed, result.failed) == (2, 2)
            assert sorted(await made.column("invalid_records", "problem")) == [
                "has a number beyond 64 bits",
                "is nested deeper than 128 levels",
            ]
            assert await made.column("eprints", "title") == ["zero \ufffd inside"]

    asyncio.run(run())


@pytest.mark.parametrize("value", [{"text": HALF}, {HALF: 1}, {"list": [{"deep": HALF}]}])
def test_a_record_with_half_a_character_costs_no_other(
    tmp_path: Path, value: dict[str, object]
) -> None:
    (pds,) = pdses_on(1, FIRST)
    repo = pds.repo("odd")
    write(repo, EPRINT, 3)
    repo.put(EPRINT, rkey(100), value)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            result = await made.scan(pds)
            assert result.complete and not result.error
            assert (result.found, result.indexed, result.failed) == (4, 3, 1)
            assert len(await made.uris("eprints")) == 3
            problems = await made.column("invalid_records", "problem")
            assert problems == ["has text that is not Unicode"]
            # It was met, so that others are known to be gone.
            repo.delete(EPRINT, rkey(0))
            assert (await made.scan(pds)).held == {EPRINT: 3}

    asyncio.run(run())


def test_a_row_with_half_a_character_is_passed_over() -> None:
    body = rb'{"repos": [{"did": "did:plc:\ud800"}, {"did": "%s", "rev": "\udfff"}]}'
    page = read_repos(body % VICTIM.encode())
    assert [(repo.did, repo.rev) for repo in page.repos] == [(VICTIM, "")]
    cid = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
    good = b'{"uri": "at://%s/%s/a", "cid": "%s", "value": {}}'
    rows = [
        good % (VICTIM.encode(), EPRINT.encode(), cid.encode()),
        good % (VICTIM.encode(), EPRINT.encode(), rb"\ud800"),
        good.replace(b"/a", b"/\xff") % (VICTIM.encode(), EPRINT.encode(), cid.encode()),
    ]
    records = read_records(b'{"records": [%s]}' % b", ".join(rows), VICTIM, EPRINT)
    assert ([one.uri.rkey for one in records.records], records.forged) == (["a"], 2)


@pytest.mark.parametrize(
    "body",
    [
        rb'{"repos": [], "cursor": "\ud800"}',
        rb'{"repos": [], "text": "\ud800"',
        rb'{"repos": [], "text": "\ud800", "number": NaN}',
        rb'["\ud800"]',
        b'{"repos": ["\\ud800", ' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
        b'{"repos": ["\\ud800", ' + b"9" * 100_000 + b"]}",
    ],
)
def test_half_a_character_opens_no_door(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_repos(body)


def test_records_too_large_for_a_full_page_come_one_by_one(tmp_path: Path) -> None:
    pds = hostile(repos=1)
    (repo,) = pds.repos.values()
    for number in range(12):
        repo.put("pub.chive.large.text", rkey(number), {"text": "x" * 150_000})

    async def run() -> None:
        limits = ScanLimits(page_bytes=1 << 20)
        async with bench([pds], tmp_path / "r.db", limits=limits) as made:
            result = await made.scan(pds)
            assert result.complete and result.held["pub.chive.large.text"] == 12

    asyncio.run(run())


@pytest.mark.parametrize("at_once", [100, 30, 10, 1])
def test_an_account_without_end_is_left_aside_for_the_others(tmp_path: Path, at_once: int) -> None:
    (pds,) = pdses_on(1, FIRST)
    pds.most_records = at_once
    write(pds.repo("endless/0"), EPRINT, 250)
    write(pds.repo("exact/0"), EPRINT, 200)
    write(pds.repo("quiet/0"), EPRINT, 2)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            results = []
            while not results or results[-1].verdict is ScanVerdict.PARTIAL:
                results.append(await made.scan(pds, records=100, account_records=200))
                assert len(results) < 20, "it goes on for ever"
            end = results[-1]
            assert end.complete and end.held == {EPRINT: 200 + 200 + 2}, end.detail
            assert end.error == "1 of 3 repos could not be read: too_large"
            # Those allowed, a last one that is too many, and an empty page behind a last cursor.
            assert pds.asked["listRecords"] <= 3 * (200 // at_once + 3)

    asyncio.run(run())


def test_what_was_read_of_an_account_that_is_gone_in_the_middle_is_withdrawn(
    tmp_path: Path,
) -> None:
    pds = hostile(repos=1)
    (repo,) = pds.repos.values()
    write(repo, EPRINT, 150)

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            assert (await made.scan(pds, records=100)).verdict is ScanVerdict.PARTIAL
            assert len(await made.uris("eprints")) == 100
            repo.status = "takendown"
            result = await made.scan(pds)
            assert result.complete and result.held == {}
            repo.status = ""
            assert (await made.scan(pds)).held == {EPRINT: 150}

    asyncio.run(run())


def test_a_repo_that_hangs_does_not_keep_the_others_waiting_for_ever(tmp_path: Path) -> None:
    pds = hostile(repos=4)
    hanging = sorted(pds.repos)[0]
    pds.hangs_on = hanging

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db", temper=TEMPER) as made:
            result = await made.scan(pds, seconds=6.0, request_seconds=60.0)
            assert result.complete and result.held == {EPRINT: 6}
            assert "1 of 4 repos" in result.detail and "timeout" in result.detail
            pds.hangs_on = ""
            assert (await made.scan(pds)).held == {EPRINT: 8}

    asyncio.run(run())


def test_one_repo_that_is_not_found_does_not_make_a_relay_of_its_server(tmp_path: Path) -> None:
    pds = hostile(repos=3)
    pds.loses = sorted(pds.repos)[0]

    async def run() -> None:
        async with bench([pds], tmp_path / "r.db") as made:
            result = await made.scan(pds)
            assert result.complete and result.held == {EPRINT: 4}

    asyncio.run(run())


def test_a_server_that_cannot_describe_is_asked_by_name(tmp_path: Path) -> None:
    pds = hostile(PdsLie.NO_DESCRIPTIONS, repos=3)
    result = scanned(pds, tmp_path)
    assert result.complete and result.held == {EPRINT: 6}
    assert pds.asked["describeRepo"] == 1


def test_odd_rows_in_a_listing_are_passed_over(tmp_path: Path) -> None:
    body = orjson.dumps(
        {
            "repos": [
                *({"did": VICTIM, "active": False, "status": ["odd"], "rev": 7}, {"did": 1}, None),
                *({"did": "did:plc:x" + "y" * 300}, {"did": VICTIM}, "text", {"did": "nobody"}),
            ],
            "cursor": None,
        }
    )
    page = read_repos(body)
    assert [repo.did for repo in page.repos] == [VICTIM]
    assert (page.repos[0].rev, page.repos[0].is_active, page.rows) == ("", True, 7)


def test_everybody_who_asks_a_pds_keeps_to_one_pace(tmp_path: Path) -> None:
    pds = hostile(repos=6)
    rate = 40.0

    async def run() -> None:
        manners = Manners(rate=rate, concurrency=1)
        async with bench([pds], tmp_path / "r.db", manners=manners) as made:
            made.gate.treat(lane_of(made.world.plc), Manners(rate=10_000.0))
            begun = time.monotonic()
            async with asyncio.TaskGroup() as group:
                group.create_task(made.scan(pds))
                for did in list(pds.repos)[:3]:
                    group.create_task(made.scan_did(pds, did))
            took = time.monotonic() - begun
            # Counted by the server. Only a lower bound: a busy machine may take longer.
            assert took >= (made.world.requests(pds) - 1) / rate * 0.98
            assert len(await made.uris("eprints")) == 12

    asyncio.run(run())
