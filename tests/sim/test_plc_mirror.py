"""The mirror against whole simulated directories and odd ones, over real sockets."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from tests.support.atproto.odd_directory import OddDirectory, serving
from tests.support.atproto.plc_truth import OPERATIONS, check_whole, lines_of
from tests.support.atproto.visitor import open_world
from trawlnet.cli.repos.fleet import expected_by
from trawlnet.crawlers.atproto import mirror as mirror_module
from trawlnet.crawlers.atproto.identity import Identity, resolve
from trawlnet.crawlers.atproto.mirror import PlcMirror
from trawlnet.crawlers.atproto.reader import Directory
from trawlnet.crawlers.errors import NotReady, Unanswered
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.engine.partition import bucket_of
from trawlnet.engine.rules import Manners
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.lane import lane_of
from trawlnet.tables.clickhouse import plc
from trawlnet.tables.clickhouse.open import opened
from trawlnet.webpage.origin import canonical_origin

AGENT = "trawlnet-test (+https://trawlnet.invalid/about)"


class HastyClock(SystemClock):
    """Waits are noted, and over at once."""

    def __init__(self):
        super().__init__()
        self.ahead = 0.0
        self.naps = []

    def now(self):
        return super().now() + self.ahead

    async def sleep(self, seconds):
        self.naps.append(seconds)
        self.ahead += max(0.0, seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def directory_at(url, clock=None):
    clock = clock or HastyClock()
    gate = Gate(clock, Manners(rate=1000.0, concurrency=1, block_at=1 << 30))
    async with Http(gate, clock, AGENT, guard=Guard(allow_private=True)) as http:
        yield Directory(url, http, gate, clock, allow_private=True)


async def mirrored(url, tables, **options):
    async with directory_at(url) as directory:
        mirror = PlcMirror(directory, tables, asyncio.Event(), **options)
        await mirror.run(lambda tally: None)
        return mirror.tally


def small_batches(monkeypatch, size=50):
    monkeypatch.setattr(mirror_module, "_BATCH", size)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    async def ask():
        async with open_world(tmp_path_factory.mktemp("world"), habits=()) as visitor:
            return await lines_of(visitor.world), visitor.dids

    return asyncio.run(ask())


def test_a_simulated_directory_is_mirrored_whole_and_again_without_a_change(tmp_path, monkeypatch):
    small_batches(monkeypatch)

    async def test():
        async with open_world(tmp_path, habits=()) as visitor:
            log = await lines_of(visitor.world), visitor.dids
            async with opened(tmp_path / "tables") as tables:
                tally = await mirrored(visitor.world.plc, tables)
                assert (tally.operations, tally.malformed, tally.orphans) == (len(log[0]), 0, 0)
                assert tally.caught_up and tally.form == "seq"
                await check_whole(tables, log)
                again = await mirrored(visitor.world.plc, tables)
                assert (again.operations, again.pages) == (0, 1)
                await check_whole(tables, log)
                counts = await plc.mirror_counts(tables)
                assert counts["operations"] == len(log[0])
                assert counts["nullified"] == sum(line["nullified"] for line in log[0]) > 0

    asyncio.run(test())


ODD = {
    "plain": {},
    "small pages": {"most": 7},
    "times only": {"numbered": False, "most": 7},
    "numbers refused": {"refuses_numbers": 400, "most": 7},
    "numbers break it": {"refuses_numbers": 500, "most": 7},
    "times only, boundary repeated": {"numbered": False, "repeats_boundary": True, "most": 7},
    "times only, count ignored": {"numbered": False, "obeys_count": False},
    "boundary repeated": {"repeats_boundary": True, "most": 7},
    "count ignored": {"obeys_count": False},
    "after ignored": {"ignores_after": True},
    "times only, after ignored": {"numbered": False, "ignores_after": True},
    "garbage": {"garbage_every": 5, "most": 20},
    "times only, garbage": {"numbered": False, "garbage_every": 5, "most": 20},
    "throttles": {"throttle_every": 3, "most": 20},
    "bodies cut": {"cut_after": 20_000},
    "times only, bodies cut": {"numbered": False, "cut_after": 20_000},
}


@pytest.mark.slow
@pytest.mark.parametrize("habit", ODD, ids=str)
def test_an_odd_directory_is_mirrored_whole(habit, log, tmp_path, monkeypatch):
    small_batches(monkeypatch, 40)
    odd = OddDirectory(log[0], **ODD[habit])

    async def test():
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            tally = await mirrored(url, tables)
            by_seq = odd.numbered and not odd.refuses_numbers
            assert tally.form == ("seq" if by_seq else "time")
            await check_whole(tables, log, numbers=by_seq)
            assert bool(tally.malformed) == bool(odd.garbage_every)
            assert bool(tally.retries) == bool(odd.throttle_every or odd.refuses_numbers == 500)
            asked = len(odd.requests)
            await mirrored(url, tables)
            await check_whole(tables, log, numbers=by_seq)
            assert len(odd.requests) - asked <= 4, "what was mirrored is not asked for again"

    asyncio.run(test())


def test_more_operations_in_one_instant_than_a_page_holds_do_not_stop_the_mirror(log, tmp_path):
    """Read by time they cannot all be had; the ones behind them can."""
    lines = [dict(line) for line in log[0][:40]]
    for line in lines[10:30]:
        line["createdAt"] = lines[10]["createdAt"]
    odd = OddDirectory(lines, numbered=False, most=7)

    async def test():
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            tally = await mirrored(url, tables)
            assert tally.crowded == 1, "what may be missing is counted"
            found = {row[1] for row in await tables.rows(OPERATIONS)}
            assert {line["cid"] for line in lines[:10] + lines[30:]} <= found
            assert len(odd.requests) < 40

    asyncio.run(test())


@pytest.mark.parametrize("status", [404, 500, 429])
def test_a_directory_that_does_not_tell_is_given_up_on(status, tmp_path):
    odd = OddDirectory([], always=status)

    async def test():
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            with pytest.raises(Unanswered, match="does not return its operations"):
                await mirrored(url, tables)
            assert await plc.load_cursor(tables) is None
        assert len(odd.requests) <= 105

    asyncio.run(test())


def test_by_time_a_last_operation_of_no_use_does_not_hide_the_end(log, tmp_path):
    lines = [dict(line) for line in log[0][:20]]
    late = "2099-01-01T00:00:00.000Z"
    odd = OddDirectory(
        [*lines, {**lines[-1], "operation": None, "createdAt": late}], numbered=False
    )

    async def test():
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            tally = await mirrored(url, tables)
            assert tally.caught_up and tally.malformed == tally.pages, "each page has it"

    asyncio.run(test())


PAGE = "<!doctype html>\n<html><body>\n  Welcome\n</body></html>\n"


@pytest.mark.parametrize("page", [PAGE, '{"message": "hello"}\n', "<html>" * 200_000])
def test_nothing_but_malformed_lines_is_no_directory(page, tmp_path):
    async def test():
        async with serving(OddDirectory([], page=page)) as url, opened(tmp_path / "t") as tables:
            with pytest.raises(Unanswered, match="parse_error: expected JSON lines"):
                await mirrored(url, tables)
            assert await plc.load_cursor(tables) is None

    asyncio.run(test())


@pytest.mark.parametrize("numbered", [True, False])
def test_a_web_page_is_not_the_end_of_a_directory(numbered, log, tmp_path):

    async def test():
        odd = OddDirectory(log[0], numbered=numbered)
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            odd.page = PAGE
            with pytest.raises(Unanswered, match="parse_error") as fresh:
                await mirrored(url, tables)
            assert f"{url}/export" in fresh.value.message
            assert "JSON lines of an export" in fresh.value.message
            assert "stored" not in fresh.value.hint
            assert await plc.load_cursor(tables) is None
            odd.page = ""
            await mirrored(url, tables)
            cursor = await plc.load_cursor(tables)
            odd.page = PAGE
            with pytest.raises(Unanswered, match="parse_error"):
                await mirrored(url, tables)
            assert await plc.load_cursor(tables) == cursor

    asyncio.run(test())


def test_what_was_read_before_a_directory_fails_is_stored(log, tmp_path):
    odd = OddDirectory(log[0], most=10)

    async def test():
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            answer = odd.numbered_lines

            def lines(after):
                if after >= 20:
                    odd.page = "<html>"
                return answer(after)

            odd.numbered_lines = lines
            with pytest.raises(Unanswered, match="parse_error") as failed:
                await mirrored(url, tables)
            assert "what was read is stored" in failed.value.hint
            assert (await plc.load_cursor(tables)).position == 30
            assert len(await tables.rows(OPERATIONS)) == 30

    asyncio.run(test())


@pytest.mark.parametrize("numbered", [True, False])
def test_a_directory_that_leads_in_circles_is_given_up_on(numbered, log, tmp_path):
    odd = OddDirectory(log[0], numbered=numbered, ignores_after=True, cut_after=20_000)

    async def test():
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            with pytest.raises(Unanswered, match="keeps returning"):
                await mirrored(url, tables)
        assert len(odd.requests) < 20

    asyncio.run(test())


def test_waits_are_as_long_as_the_directory_says(log, tmp_path):
    odd = OddDirectory(log[0], throttle_every=2, most=100)

    async def test():
        clock = HastyClock()
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            async with directory_at(url, clock) as directory:
                mirror = PlcMirror(directory, tables, asyncio.Event())
                await mirror.run(lambda tally: None)
            assert mirror.tally.retries >= 2
            assert sum(nap >= 1.0 for nap in clock.naps) >= mirror.tally.retries

    asyncio.run(test())


def test_a_mirror_that_follows_sees_what_comes_later_and_stops_when_told(log, tmp_path):
    odd = OddDirectory(log[0][:50])

    async def test():
        stop = asyncio.Event()
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:

            def stored(tally):
                if tally.caught_up and tally.position == 50:
                    odd.lines = log[0]
                elif tally.caught_up:
                    stop.set()

            async with directory_at(url) as directory:
                mirror = PlcMirror(directory, tables, stop, follow=True)
                await asyncio.wait_for(mirror.run(stored), 150)
            await check_whole(tables, log)

    asyncio.run(test())


def test_a_stop_in_the_middle_keeps_what_has_come(log, tmp_path, monkeypatch):
    small_batches(monkeypatch, 20)
    odd = OddDirectory(log[0], most=10)

    async def test():
        stop = asyncio.Event()
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            async with directory_at(url) as directory:
                mirror = PlcMirror(directory, tables, stop)
                await mirror.run(lambda tally: stop.set())
            cursor = await plc.load_cursor(tables)
            stored = await tables.rows(OPERATIONS)
            assert 0 < cursor.position < len(log[0])
            assert [row[3] for row in sorted(stored, key=lambda row: row[3])] == list(
                range(1, cursor.position + 1)
            )
            await mirrored(url, tables)
            await check_whole(tables, log)

    asyncio.run(test())


def test_tables_of_one_directory_are_not_mixed_with_another(log, tmp_path):
    async def test():
        async with opened(tmp_path / "tables") as tables:
            async with serving(OddDirectory(log[0])) as url:
                await mirrored(url, tables)
            async with serving(OddDirectory(log[0])) as other:
                with pytest.raises(NotReady, match="these tables mirror"):
                    await mirrored(other, tables)

    asyncio.run(test())


@pytest.mark.slow
def test_pages_of_dids_tell_whom_to_visit(log, tmp_path):
    async def test():
        async with serving(OddDirectory(log[0])) as url, opened(tmp_path / "tables") as tables:
            await mirrored(url, tables)
            pages = [page async for page in plc.did_pages(tables, page_size=7)]
            found = [row for page in pages for row in page]
            expected = sorted(
                (did, row["pds"])
                for did, row in log[1].items()
                if row["in_plc"] and row["status"] not in ("tombstoned", "junk")
            )
            assert [(row.did, row.pds) for row in found] == expected
            assert all(1 <= len(page) <= 7 for page in pages)
            gone = {
                did
                for did, row in log[1].items()
                if row["in_plc"] and row["status"] in ("tombstoned", "junk")
            }
            unhoused = await plc.unhoused(tables, "", "did:~", 1000)
            assert {did for did, _ in unhoused} == gone
            assert {"tombstoned"} < {why for _, why in unhoused}
            assert await plc.unhoused(tables, unhoused[0][0], unhoused[2][0], 1) == unhoused[1:2]
            middle = found[len(found) // 2].did
            rest = [row async for page in plc.did_pages(tables, middle, 7) for row in page]
            assert [row.did for row in rest] == [row.did for row in found if row.did > middle]
            skipped = found[0].pds
            others = [
                row
                async for page in plc.did_pages(tables, page_size=7, skip_pds=[skipped])
                for row in page
            ]
            assert [row.did for row in others] == [row.did for row in found if row.pds != skipped]
            bucket = bucket_of(lane_of(skipped))
            ours = [
                row
                async for page in plc.did_pages(tables, page_size=7, buckets=[bucket, 1])
                for row in page
            ]
            buckets = {row.did: bucket_of(lane_of(row.pds)) for row in found}
            assert await expected_by(tables) == Counter(buckets.values())
            expected_ours = [row.did for row in found if buckets[row.did] in (bucket, 1)]
            assert [row.did for row in ours] == expected_ours != []
            states = await plc.did_states(tables, [found[0].did, "did:plc:nobody"])
            assert {did: state.pds for did, state in states.items()} == {found[0].did: skipped}

    asyncio.run(test())


@pytest.mark.slow
def test_identities_are_resolved_from_their_documents(tmp_path):
    async def test():
        async with (
            open_world(tmp_path, habits=()) as visitor,
            opened(tmp_path / "tables") as tables,
        ):
            url = visitor.world.plc
            await mirrored(url, tables)
            async with directory_at(url) as directory:

                async def ask(did, **options):
                    return await resolve(directory.http, did, url, **options)

                for did in visitor.some(status="active"):
                    found = await ask(did, allow_private=True)
                    assert isinstance(found, Identity)
                    assert (
                        found.pds
                        == canonical_origin(visitor.dids[did]["pds"], allow_private=True).url
                    )
                    if did.startswith("did:plc:"):
                        state = (await plc.did_states(tables, [did]))[did]
                        assert (found.pds, found.signing_key) == (state.pds, state.signing_key)
                for did, reason in (
                    ("did:plc:nobody", Reason.NOT_FOUND),
                    (visitor.some(status="tombstoned")[0], Reason.NOT_FOUND),
                    ("did:key:zQ3sh", Reason.REFUSED),
                    ("did:web:host.social:path", Reason.REFUSED),
                    ("did:web:localhost%2Fx", Reason.REFUSED),
                    ("did:web:somebody%40localhost", Reason.REFUSED),
                    ("did:web:127.0.0.1%3A1", Reason.CONNECTION_ERROR),
                    ("not a did", Reason.REFUSED),
                ):
                    assert (await ask(did, allow_private=True)).reason is reason, did
                assert (await ask("did:web:127.0.0.1%3A1")).reason is Reason.REFUSED

    asyncio.run(test())
