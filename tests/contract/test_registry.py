"""One contract of the PDS registry, on SQLite and on a PostgreSQL server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.notes import DidLookup
from trawlnet.tables.registry.registry import Registry, open_registry
from trawlnet.tables.registry.report import account_counts
from trawlnet.tables.registry.rules import (
    DAY,
    HIGH,
    HOUR,
    LOW,
    MEDIUM,
    EntryVerdict,
    FoundPds,
    PdsRow,
    PdsSource,
    PdsStatus,
    Registered,
    ScanEnded,
    Which,
    as_shown,
)
from trawlnet.tables.relational.database import Statement, named, to_db

NOW = 1_800_000_000.0
LEASE = 60.0
PUBLIC = Terms()
A, B, C = (f"https://{name}.pds-world.net" for name in "abc")


def on(
    where: Path | str, body: Callable[[Registry], Awaitable[None]], terms: Terms = PUBLIC
) -> None:
    async def run() -> None:
        registry = await open_registry(where, terms)
        try:
            await registry.forget()
            await body(registry)
        finally:
            await registry.close()

    asyncio.run(run())


async def filled(registry: Registry, *urls: str) -> None:
    for url in urls:
        await registry.register(url, PdsSource.USER, now=NOW)


async def claimed(registry: Registry, url: str, now: float = NOW, owner: str = "me") -> PdsRow:
    row = await registry.claim_one(url, now, LEASE, owner)
    assert row is not None
    return row


async def known(registry: Registry, url: str) -> PdsRow:
    row = await registry.get(url)
    assert row is not None
    return row


async def fail(registry: Registry, url: str, now: float, times: int = 1) -> PdsRow:
    for _ in range(times):
        await claimed(registry, url, now)
        assert await registry.failed(url, "me", "no answer", Reason.TIMEOUT, now)
    return await known(registry, url)


def test_one_server_has_one_row_however_it_is_written(where: Path | str) -> None:
    spellings = (
        "https://pds.pds-world.net",
        "HTTPS://PDS.PDS-WORLD.NET/",
        "pds.pds-world.net",
        "https://pds.pds-world.net:443/xrpc/thing?a=b#c",
        "https://user:secret@pds.pds-world.net//",
        "https://pds.pds-world.net.",
    )

    async def body(registry: Registry) -> None:
        for number, url in enumerate(spellings):
            entered = await registry.register(url, PdsSource.DID, now=NOW + number)
            wanted = EntryVerdict.KNOWN if number else EntryVerdict.NEW
            assert entered == Registered(wanted, "https://pds.pds-world.net")
        idn = await registry.register("https://bücher.pds-world.net", PdsSource.DID, now=NOW)
        assert idn.url == "https://xn--bcher-kva.pds-world.net"
        assert len(await registry.listing()) == 2
        row = await known(registry, spellings[1])
        assert (row.discovered_at, row.discovery_source) == (NOW, PdsSource.DID)

    on(where, body)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://127.0.0.1", "address"),
        ("https://2130706433", "address"),
        ("https://[::1]", "address"),
        ("https://169.254.169.254/latest", "address"),
        ("https://localhost", "private_name"),
        ("https://pds.internal", "private_name"),
        ("ftp://pds.pds-world.net", "scheme"),
        ("http://pds.pds-world.net", "scheme"),
        ("https://pds.pds-world.net:8443", "port"),
        ("https://pds.example", "example"),
        ("", "empty"),
        ("https://" + "a" * 3000, "too_long"),
    ],
)
def test_what_nobody_could_visit_is_refused_by_name(
    where: Path | str, url: str, reason: str
) -> None:
    async def body(registry: Registry) -> None:
        entered = await registry.register(url, PdsSource.PLC, now=NOW)
        assert (entered.verdict, entered.reason) == (EntryVerdict.REFUSED, reason)
        assert await registry.listing() == []

    on(where, body)


def test_a_private_world_lets_its_own_servers_in(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        entered = await registry.register("http://127.0.0.1:8080", PdsSource.PLC, now=NOW)
        assert entered == Registered(EntryVerdict.NEW, "http://127.0.0.1:8080")

    on(where, body, Terms(allow_private=True))


def test_a_domain_has_a_budget_of_hosts_that_never_answered(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        founds = [FoundPds(f"https://agent-{n}.crab.co.uk", PdsSource.PLC) for n in range(5)]
        founds.append(FoundPds("https://other.co.uk", PdsSource.PLC))
        entered = await registry.register_many(founds, NOW)
        assert [one.reason for one in entered] == ["", "", "", *["domain_budget"] * 2, ""]
        # One that turns out to be a PDS makes room for the next.
        await claimed(registry, founds[0].url)
        await registry.completed(founds[0].url, "me", ScanEnded(0, 0), now=NOW)
        again = await registry.register_many(founds, NOW)
        assert [one.verdict for one in again][3:] == [
            EntryVerdict.NEW,
            EntryVerdict.REFUSED,
            EntryVerdict.KNOWN,
        ]

    on(where, body, Terms(domain_budget=3))


def test_what_relays_say_is_noted_and_repeats_are_one_row(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        found = FoundPds(A, PdsSource.RELAY, accounts=7, connected=True)
        entered = await registry.register_many([found, found, FoundPds(B, PdsSource.RELAY)], NOW)
        assert [one.verdict for one in entered] == [
            EntryVerdict.NEW,
            EntryVerdict.KNOWN,
            EntryVerdict.NEW,
        ]
        row = await known(registry, A)
        assert (row.account_count, row.is_relay_connected) == (7, True)
        await registry.register_many([FoundPds(A, PdsSource.RELAY, 10**12, connected=False)], NOW)
        row = await known(registry, A)
        assert (row.account_count, row.is_relay_connected) == (2**31 - 1, False)
        await registry.register(A, PdsSource.PLC, now=NOW)
        assert (await known(registry, A)).account_count == 2**31 - 1

    on(where, body)


def test_a_claim_is_one_holders_alone_until_it_runs_out(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        (row,) = await registry.claim(5, NOW, LEASE, "first")
        assert (row.status, row.lease_owner) == (PdsStatus.SCANNING, "first")
        assert await registry.claim(5, NOW + LEASE - 1, LEASE, "second") == []
        assert await registry.claim_one(A, NOW + LEASE - 1, LEASE, "second") is None
        assert await registry.renew(A, "first", NOW + LEASE - 1, LEASE)
        assert await registry.claim(5, NOW + LEASE + 1, LEASE, "second") == []
        # The holder has died: its row comes back by itself.
        (row,) = await registry.claim(5, NOW + 3 * LEASE, LEASE, "second")
        assert row.lease_owner == "second"

    on(where, body)


def test_who_has_lost_a_lease_can_finish_nothing(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await claimed(registry, A, NOW, "slow")
        late = NOW + LEASE + 1
        assert not await registry.completed(A, "slow", ScanEnded(1, 1), now=late)
        await claimed(registry, A, late, "fast")
        before = await known(registry, A)
        for lost in (
            registry.completed(A, "slow", ScanEnded(9, 9), now=late),
            registry.partial(A, "slow", now=late, again_in=1.0),
            registry.put_off(A, "slow", Reason.RATE_LIMITED, now=late, again_in=1.0),
            registry.failed(A, "slow", "x", Reason.TIMEOUT, late),
            registry.renew(A, "slow", late, LEASE),
            registry.release(A, "slow", late),
        ):
            assert not await lost
        assert await known(registry, A) == before
        assert (await registry.stats(late)).attempts == {}
        assert await registry.completed(A, "fast", ScanEnded(2, 1), now=late)

    on(where, body)


def test_what_was_given_back_is_as_due_as_before(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await claimed(registry, A)
        assert await registry.release(A, "me", NOW)
        row = await known(registry, A)
        assert (row.status, row.lease_owner, row.last_try_at) == (PdsStatus.PENDING, None, None)
        assert [row.pds_url for row in await registry.claim(5, NOW, LEASE, "you")] == [A]

    on(where, body)


def test_what_the_dead_have_claimed_is_given_back_by_their_name(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A, B)
        await registry.claim_one(A, NOW, LEASE, "crawl_1 first")
        await registry.claim_one(B, NOW, LEASE, "crawl21 other")
        assert await registry.release_all("crawl_1 ", NOW) == 1
        assert (await known(registry, A)).status is PdsStatus.PENDING
        assert (await known(registry, B)).lease_owner == "crawl21 other"

    on(where, body)


def test_scans_that_were_cut_short_can_be_claimed_alone(where: Path | str) -> None:
    begun, later = Which(begun=True), NOW + 10.0

    async def body(registry: Registry) -> None:
        await filled(registry, A, B, C)
        assert await registry.claim(5, later, LEASE, "me", begun) == []
        assert await registry.next_begun(later, begun) is None
        for url in (A, B):
            await registry.claim_one(url, later, LEASE, "me")
        assert await registry.partial(A, "me", now=later, again_in=60.0)
        assert await registry.put_off(B, "me", Reason.RATE_LIMITED, now=later, again_in=20.0)
        assert await registry.next_begun(later, begun) == later + 20.0
        assert await registry.claim(5, later + 19.0, LEASE, "me", begun) == []
        others = await registry.claim(5, later + 60.0, LEASE, "me", Which(begun=False))
        assert [row.pds_url for row in others] == [C]
        rows = await registry.claim(5, later + 60.0, LEASE, "me", begun)
        assert {row.pds_url for row in rows} == {A, B}
        # Whoever is being scanned, has been scanned whole or has failed, is not under way.
        assert await registry.next_begun(later + 60.0, begun) is None
        assert await registry.completed(A, "me", ScanEnded(1, 1), now=later + 61.0)
        assert await registry.failed(B, "me", "", Reason.TIMEOUT, later + 61.0)
        assert await registry.claim(5, later + DAY, LEASE, "me", begun) == []

    on(where, body)


def test_nobody_who_scans_once_ends_while_something_is_left(where: Path | str) -> None:
    later, soon = NOW + 10.0, NOW + 12.0

    async def body(registry: Registry) -> None:
        async def left(now: float = later) -> float | None:
            return await registry.next_once(now, Which(), soon)

        assert await left() is None
        await filled(registry, A, B)
        assert await left() == soon, "something is due"
        for url in (A, B):
            await claimed(registry, url, later)
        assert await left() == soon, "others are at it"
        assert await left(later + LEASE) == soon, "they died, and nobody has taken over yet"
        assert await registry.put_off(B, "me", Reason.RATE_LIMITED, now=later, again_in=20.0)
        assert await registry.partial(A, "me", now=later, again_in=60.0)
        assert await left() == later + 60.0, "what is put off may wait for ever"
        assert await left(later + 60.0) == soon
        await claimed(registry, A, later + 60.0)
        assert await registry.completed(A, "me", ScanEnded(1, 1), now=later + 61.0)
        assert await left() is None

    on(where, body)


def test_of_hosts_that_a_relay_reads_anyway_nothing_is_left(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await registry.register_many([FoundPds(A, PdsSource.RELAY, connected=True)], NOW)
        assert await registry.next_once(NOW, Which(skip_connected=True), NOW + 2.0) is None
        assert await registry.next_once(NOW, Which(), NOW + 2.0) == NOW + 2.0

    on(where, body)


@pytest.mark.parametrize(
    ("found", "status", "priority", "again_in"),
    [(3, PdsStatus.ACTIVE, HIGH, DAY), (0, PdsStatus.NO_CHIVE_RECORDS, LOW, 7 * DAY)],
)
def test_a_whole_scan_says_when_the_next_is_due(
    where: Path | str, found: int, status: PdsStatus, priority: int, again_in: float
) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await claimed(registry, A)
        assert await registry.completed(A, "me", ScanEnded(found, found), now=NOW)
        row = await known(registry, A)
        assert (row.status, row.scan_priority) == (status, priority)
        assert (row.last_scan_at, row.next_scan_at) == (NOW, NOW + again_in)
        assert (row.has_chive_records, row.chive_record_count) == (found > 0, found)
        assert (row.consecutive_failures, row.last_error) == (0, None)
        assert await registry.claim(5, NOW + again_in - 1, LEASE, "you") == []
        assert len(await registry.claim(5, NOW + again_in, LEASE, "you")) == 1

    on(where, body)


def test_failures_back_off_and_the_fifth_in_a_row_gives_up(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        now = NOW
        for count, hours in enumerate((1, 2, 4, 8, 16), start=1):
            row = await fail(registry, A, now)
            assert (row.consecutive_failures, row.next_scan_at) == (count, now + hours * HOUR)
            assert row.status is (PdsStatus.UNREACHABLE if count == 5 else PdsStatus.PENDING)
            assert await registry.claim(5, now + hours * HOUR - 1, LEASE, "you") == []
            now += hours * HOUR
        row = await fail(registry, A, now)
        assert (row.status, row.next_scan_at) == (PdsStatus.UNREACHABLE, now + 30 * DAY)
        # Rarely is not never, and one success makes up for all.
        (row,) = await registry.claim(5, now + 30 * DAY, LEASE, "me")
        assert await registry.completed(A, "me", ScanEnded(1, 1), now=now + 30 * DAY)
        row = await known(registry, A)
        assert (row.status, row.consecutive_failures) == (PdsStatus.ACTIVE, 0)

    on(where, body)


def test_a_failure_keeps_what_the_last_whole_scan_found(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await claimed(registry, A)
        await registry.completed(A, "me", ScanEnded(4, 3), now=NOW)
        row = await fail(registry, A, NOW + DAY)
        assert (row.status, row.chive_record_count) == (PdsStatus.ACTIVE, 4)
        assert (row.last_scan_at, row.last_reason) == (NOW, Reason.TIMEOUT)

    on(where, body)


def test_a_partial_scan_concludes_nothing_and_goes_on_soon(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await fail(registry, A, NOW, times=5)
        await claimed(registry, A)
        assert await registry.partial(A, "me", now=NOW, again_in=60.0)
        row = await known(registry, A)
        assert (row.status, row.has_chive_records) == (PdsStatus.PENDING, None)
        assert (row.next_scan_at, row.consecutive_failures) == (NOW + 60.0, 0)

    on(where, body)


def test_being_told_to_wait_is_no_failure(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await fail(registry, A, NOW)
        await claimed(registry, A)
        assert await registry.put_off(A, "me", Reason.RATE_LIMITED, now=NOW, again_in=HOUR)
        row = await known(registry, A)
        assert (row.consecutive_failures, row.next_scan_at) == (1, NOW + HOUR)
        assert row.last_reason is Reason.RATE_LIMITED

    on(where, body)


def test_the_words_of_a_server_are_kept_short_and_harmless(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await claimed(registry, A)
        await registry.failed(
            A, "me", "\x1b[31mred\r\n\x00\ud800" + "y" * 9999, Reason.TIMEOUT, NOW
        )
        error = (await known(registry, A)).last_error or ""
        assert error.isprintable() and error.startswith("[31mred y") and len(error) == 300

    on(where, body)


def test_a_user_revives_what_was_given_up_and_a_mention_earns_one_try(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await fail(registry, A, NOW, times=6)
        again = await registry.register(A, PdsSource.DID, now=NOW + HOUR)
        assert again.verdict is EntryVerdict.KNOWN, "it was asked a moment ago"
        old_news = [FoundPds(A, PdsSource.PLC, is_news=False)]
        (again,) = await registry.register_many(old_news, NOW + 2 * DAY)
        assert again.verdict is EntryVerdict.KNOWN, "a list that names it as ever is no news"
        again = await registry.register(A, PdsSource.DID, now=NOW + 2 * DAY)
        assert again.verdict is EntryVerdict.REVIVED
        row = await fail(registry, A, NOW + 2 * DAY)
        assert (row.status, row.next_scan_at) == (PdsStatus.UNREACHABLE, NOW + 32 * DAY)
        again = await registry.register(A, PdsSource.USER, now=NOW + 2 * DAY)
        assert again.verdict is EntryVerdict.REVIVED
        row = await fail(registry, A, NOW + 2 * DAY)
        assert (row.consecutive_failures, row.status) == (1, PdsStatus.PENDING)

    on(where, body)


def test_a_mention_brings_one_without_records_forward(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await claimed(registry, A)
        await registry.completed(A, "me", ScanEnded(0, 0), now=NOW)
        again = await registry.register(A, PdsSource.DID, now=NOW + 2 * DAY)
        assert again.verdict is EntryVerdict.REVIVED
        (row,) = await registry.claim(5, NOW + 2 * DAY, LEASE, "you")
        assert row.scan_priority == MEDIUM

    on(where, body)


def test_nobody_being_scanned_is_revived_under_the_holders_hands(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await fail(registry, A, NOW, times=5)
        await claimed(registry, A)
        again = await registry.register(A, PdsSource.USER, now=NOW)
        assert again.verdict is EntryVerdict.KNOWN
        assert (await known(registry, A)).status is PdsStatus.SCANNING

    on(where, body)


def test_important_rows_go_first_but_nobody_waits_for_ever(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A, B)
        for url, found in ((A, 1), (B, 0)):
            await claimed(registry, url)
            await registry.completed(url, "me", ScanEnded(found, 0), now=NOW)
        await registry.register(C, PdsSource.PLC, now=NOW + 7 * DAY)
        # All three are due: the one with records longest, and it is the most important, too.
        now = NOW + 7 * DAY
        order = [row.pds_url for row in await registry.claim(9, now, LEASE, "me")]
        assert order == [A, C, B]
        # The one with records is back each day, and yet the one without gets its turn.
        await registry.completed(A, "me", ScanEnded(1, 0), now=now)
        for url in (B, C):
            await registry.release(url, "me", now)
        turns = []
        for day in range(1, 4):
            (row,) = await registry.claim(1, now + day * DAY, LEASE, f"{day}")
            turns.append(row.pds_url)
            await registry.completed(row.pds_url, f"{day}", ScanEnded(1, 0), now=now + day * DAY)
        assert B in turns

    on(where, body)


def test_those_that_a_relay_reads_can_be_left_out(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        founds = [FoundPds(A, PdsSource.RELAY, connected=True), FoundPds(B, PdsSource.PLC)]
        await registry.register_many(founds, NOW)
        rows = await registry.claim(9, NOW, LEASE, "me", Which(skip_connected=True))
        assert [row.pds_url for row in rows] == [B]

    on(where, body)


def test_listings_filter_and_page_by_url(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A, B)
        await registry.register("https://under_score.pds-world.net", PdsSource.PLC, now=NOW)
        await claimed(registry, B)
        await registry.completed(B, "me", ScanEnded(2, 2), now=NOW)
        names = [row.pds_url for row in await registry.listing(limit=2)]
        assert names == [A, B]
        (rest,) = await registry.listing(after=names[-1])
        assert rest.pds_url == "https://under_score.pds-world.net"
        (active,) = await registry.listing(status=PdsStatus.ACTIVE)
        assert active.pds_url == B
        assert [row.pds_url for row in await registry.listing(source=PdsSource.PLC)] == [
            rest.pds_url
        ]
        # What a pattern would mean is taken at its word.
        assert [row.pds_url for row in await registry.listing(contains="R_S")] == [rest.pds_url]
        assert await registry.listing(contains="a%net") == []
        assert [row.pds_url for row in await registry.largest(1)] == [B]

    on(where, body)


def test_figures_add_up(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A, B, C)
        await claimed(registry, A)
        await registry.completed(A, "me", ScanEnded(5, 4), now=NOW)
        await fail(registry, B, NOW, times=5)
        await claimed(registry, C)
        stats = await registry.stats(NOW)
        assert (stats.total, stats.active, stats.unreachable) == (3, 1, 1)
        assert (stats.with_chive_records, stats.chive_records, stats.indexed_records) == (1, 5, 4)
        assert sum(stats.by_status.values()) == sum(stats.by_source.values()) == 3
        assert (stats.by_status[PdsStatus.SCANNING], stats.due) == (1, 0)
        assert stats.failures == stats.given_up == {Reason.TIMEOUT: 1}
        assert stats.attempts == {Reason.OK: 1, Reason.TIMEOUT: 5}
        (hour,) = stats.scans
        assert (hour.hour, hour.results) == (NOW // HOUR * HOUR, {"completed": 1, "failed": 5})
        assert (await registry.stats(NOW + 16 * HOUR)).due == 2, "one failed, one holder died"

    on(where, body)


def test_failures_can_be_listed_and_put_back_by_reason(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A, B)
        await fail(registry, A, NOW, times=5)
        await claimed(registry, B)
        await registry.failed(B, "me", "no such host", Reason.DNS_ERROR, NOW)
        assert [row.pds_url for row in await registry.failures()] == [A, B]
        assert [row.pds_url for row in await registry.failures(Reason.DNS_ERROR)] == [B]
        assert await registry.retry(Reason.DNS_ERROR, NOW) == 1
        assert [row.pds_url for row in await registry.claim(9, NOW, LEASE, "you")] == [B]
        assert await registry.retry(None, NOW) == 1
        row = await known(registry, A)
        assert (row.status, row.consecutive_failures) == (PdsStatus.PENDING, 0)

    on(where, body)


def test_notes_and_lookups_last(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        notes = registry.notes
        assert await notes.get("plc") is None
        await notes.put("plc", "1")
        await notes.put("plc", "2")
        assert await notes.get("plc") == "2"
        first, second = (
            DidLookup("did:plc:a", A, "", NOW),
            DidLookup("did:plc:b", "", "not_found", NOW),
        )
        await notes.save_lookups([second, first])
        await notes.save_lookups([DidLookup("did:plc:a", B, "", NOW + 1)])
        found = await notes.lookups(["did:plc:a", "did:plc:b", "did:plc:c"])
        assert {did: one.pds for did, one in found.items()} == {"did:plc:a": B, "did:plc:b": ""}
        await registry.forget()
        assert await notes.get("plc") is None and await notes.lookups(["did:plc:a"]) == {}

    on(where, body)


def test_many_claims_at_once_share_no_row(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        founds = [FoundPds(f"https://p{n}.pds-world.net", PdsSource.PLC) for n in range(60)]
        await registry.register_many(founds, NOW)
        others = [await open_registry(where) for _ in range(3)]
        try:
            batches = await asyncio.gather(
                *(one.claim(7, NOW, LEASE, f"{n}") for n, one in enumerate(others * 5))
            )
        finally:
            for one in others:
                await one.close()
        urls = [row.pds_url for batch in batches for row in batch]
        assert len(urls) == len(set(urls)) == 60

    on(where, body, Terms(domain_budget=100))


def test_registering_the_same_at_once_makes_one_row_each(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        founds = [FoundPds(f"https://p{n}.pds-world.net", PdsSource.PLC) for n in range(40)]
        others = [await open_registry(where) for _ in range(3)]
        try:
            told = await asyncio.gather(
                others[0].register_many(founds, NOW),
                others[1].register_many(founds[::-1], NOW),
                others[2].register_many(founds[20:] + founds[:20], NOW),
            )
        finally:
            for one in others:
                await one.close()
        verdicts = [one.verdict for batch in told for one in batch]
        assert verdicts.count(EntryVerdict.NEW) == 40 and verdicts.count(EntryVerdict.KNOWN) == 80

    on(where, body)


def test_accounts_are_told_of_every_host_counted_or_not(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await registry.register(B, PdsSource.RELAY, accounts=120, now=NOW)
        await registry.register(A, PdsSource.USER, now=NOW)
        assert await account_counts(where) == [(A, None), (B, 120)]

    on(where, body)


MINE, YOURS = Which(scope="mine"), Which(scope="yours")


def test_each_scope_is_due_by_itself(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        assert len(await registry.claim(5, NOW, LEASE, "1", MINE)) == 1
        assert await registry.next_once(NOW, YOURS, NOW + 2.0) == NOW + 2.0  # Somebody has it.
        assert await registry.completed(A, "1", ScanEnded(3, 3, "mine", True), now=NOW)
        later = NOW + 10.0
        assert await registry.claim(5, later, LEASE, "2", MINE) == []
        assert await registry.next_once(later, MINE, later + 2.0) is None
        assert await registry.claim(5, later, LEASE, "2") == []  # For nobody's sake.
        # Whoever looks for something else has seen nothing of it yet.
        assert await registry.next_once(later, YOURS, later + 2.0) == later + 2.0
        assert len(await registry.claim(5, later, LEASE, "3", YOURS)) == 1
        # A scan that is given back is as due as before, also for those that go on with it.
        assert await registry.release(A, "3", later, begun=True)
        begun = Which(scope="yours", begun=True)
        assert await registry.next_begun(later, begun) == later
        assert len(await registry.claim(5, later, LEASE, "4", begun)) == 1
        assert await registry.completed(A, "4", ScanEnded(3, 3, "yours", False), now=later)
        assert await registry.claim(5, later, LEASE, "5", YOURS) == []
        assert (await known(registry, A)).next_scan_at == later + 7 * DAY
        assert (await known(registry, A)).status is PdsStatus.ACTIVE
        # What the other has found to be worth a look a week later is mine tomorrow.
        assert len(await registry.claim(5, NOW + DAY, LEASE, "6", MINE)) == 1
        assert await registry.failed(A, "6", "away", Reason.TIMEOUT, NOW + DAY)
        # A server that fails has a rest from everybody.
        for which in (MINE, YOURS):
            assert await registry.claim(5, NOW + DAY + 10.0, LEASE, "7", which) == []
        assert len(await registry.claim(5, NOW + DAY + HOUR, LEASE, "8", MINE)) == 1

    on(where, body)


def test_what_a_user_registers_again_is_due_for_everybody(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await claimed(registry, A)
        assert await registry.completed(A, "me", ScanEnded(0, 0, "mine"), now=NOW)
        assert (await registry.register(A, PdsSource.USER, now=NOW)).verdict is EntryVerdict.REVIVED
        assert len(await registry.claim(5, NOW, LEASE, "1", MINE)) == 1

    on(where, body)


def test_whoever_waits_for_a_pds_is_the_next_to_have_it(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await claimed(registry, A, owner="crawl/1")
        assert await registry.claim_one(A, NOW, LEASE, "account") is None
        await registry.want(A, NOW, 5.0, "account")
        await registry.want(A, NOW, 5.0, "second")  # The first is the next.
        assert await registry.partial(A, "crawl/1", now=NOW + 1.0, again_in=0.0)
        now = NOW + 2.0
        begun = Which(begun=True)
        assert await registry.claim(5, now, LEASE, "crawl/2") == []
        assert await registry.claim(5, now, LEASE, "crawl/2", begun) == []
        # And nobody spins while it waits.
        assert await registry.next_begun(now, begun) == NOW + 5.0
        assert await registry.claim_one(A, now, LEASE, "second") is None
        await claimed(registry, A, now, "account")
        assert await registry.release(A, "account", now, begun=True)
        assert len(await registry.claim(5, now, LEASE, "crawl/3", begun)) == 1
        # One that waits no longer keeps nobody out.
        await registry.want(A, now, 5.0, "gone")
        assert await registry.partial(A, "crawl/3", now=now, again_in=0.0)
        assert len(await registry.claim(5, now + 6.0, LEASE, "crawl/4", begun)) == 1

    on(where, body)


def test_whoever_is_banned_is_neither_entered_nor_asked(where: Path | str) -> None:
    shop, host = "https://a.shop.pds-world.net", "https://notshop.pds-world.net"

    async def body(registry: Registry) -> None:
        await filled(registry, A, B, shop, host)
        await claimed(registry, shop)
        assert await registry.bans.add("shop.pds-world.net", "asked us to", NOW) == [shop]
        assert await registry.bans.add("a.pds-world.net", "", NOW) == [A]
        refused = await registry.register(A, PdsSource.PLC, now=NOW)
        assert (refused.verdict, refused.reason) == (EntryVerdict.REFUSED, "banned")
        assert {row.pds_url for row in await registry.listing()} == {B, host}
        assert [ban.name for ban in await registry.bans.all()] == [
            "a.pds-world.net",
            "shop.pds-world.net",
        ]
        # A scan under way can conclude nothing.
        assert not await registry.completed(shop, "me", ScanEnded(1, 1), now=NOW)
        assert await registry.bans.lift("a.pds-world.net")
        assert not await registry.bans.lift("a.pds-world.net")
        assert (await registry.register(A, PdsSource.PLC, now=NOW)).verdict is EntryVerdict.NEW
        assert await registry.remove("A.pds-world.NET/") == A
        assert await registry.remove(A) is None

    on(where, body)


def test_a_row_that_slipped_in_beside_its_ban_is_never_handed_out(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await registry.bans.add("a.pds-world.net", "", NOW)
        insert = named("registry", "insert", registry.db.dialect)
        at = to_db(registry.db.dialect, NOW)
        values = {"url": A, "source": "did_mention", "domain": "", "accounts": None}
        more = {"connected": False, "priority": 50, "scan_order": at, "now": at}
        await registry.db.run(insert, values | more)
        assert await registry.claim(5, NOW, LEASE, "me") == []
        assert await registry.get(A) is None

    on(where, body)


def test_a_claim_that_ran_out_is_no_scan(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        await claimed(registry, A)
        assert (await registry.stats(NOW)).by_status[PdsStatus.SCANNING] == 1
        late = NOW + LEASE
        assert (await registry.stats(late)).by_status[PdsStatus.SCANNING] == 0
        assert (await registry.stats(late)).by_status[PdsStatus.PENDING] == 1
        assert as_shown(await known(registry, A), late).status is PdsStatus.PENDING
        assert await registry.tidy(NOW) == 0
        assert await registry.tidy(late) == 1
        assert (await known(registry, A)).status is PdsStatus.PENDING

    on(where, body)


def test_a_word_of_another_version_is_no_reason_to_fail(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A)
        sql = "UPDATE pds_registry SET status = 'dozing', discovery_source = 'x', last_reason = 'y'"
        await registry.db.run(Statement("spoil", sql + ", consecutive_failures = 1"))
        row = await known(registry, A)
        assert (row.status, row.discovery_source) == (PdsStatus.PENDING, PdsSource.UNKNOWN)
        assert row.last_reason is Reason.UNKNOWN
        stats = await registry.stats(NOW)
        assert stats.total == stats.by_source[PdsSource.UNKNOWN] == 1
        assert stats.failures == {Reason.UNKNOWN: 1}
        assert len(await registry.claim(5, NOW, LEASE, "me")) == 1

    on(where, body)


def test_a_url_that_says_as_whom_to_come_is_refused(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        told = f"https://good.example@{A.removeprefix('https://')}"
        refused = await registry.register(told, PdsSource.USER, now=NOW)
        assert (refused.verdict, refused.reason) == (EntryVerdict.REFUSED, "userinfo")

    on(where, body)


def test_a_part_that_failed_is_in_the_row(where: Path | str) -> None:
    async def body(registry: Registry) -> None:
        await filled(registry, A, B)
        await claimed(registry, A)
        ended = ScanEnded(1, 1, error="2 of 9 repos could not be read: timeout")
        assert await registry.completed(A, "me", ended, now=NOW)
        row = await known(registry, A)
        assert row.last_error == ended.error and row.consecutive_failures == 0
        await claimed(registry, B)
        assert await registry.failed(B, "me", "no end", Reason.LOOP, NOW, again_in=30 * DAY)
        assert (await known(registry, B)).next_scan_at == NOW + 30 * DAY

    on(where, body)
