"""The repos crawler over a simulated network: everything that can be had is had, once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.repos.run import (
    Crawled,
    Truth,
    archived,
    blocks_written,
    put_up_mirror,
    run,
    run_relay,
)
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.work import did_of
from trawlnet.engine.control import Ending
from trawlnet.engine.outcome import Reason
from trawlnet.observe.metrics.crawl import StatusClass
from trawlnet.sim.atproto.lies import RepoLie
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto
from trawlnet.sim.habits import Habit

T = TypeVar("T")


def in_world(use: Callable[[AtprotoWorld], Awaitable[T]], seed: int = 3, **shape: Any) -> T:
    async def main() -> T:
        world = await serve_atproto(seed, **({"habits": ()} | shape))
        try:
            return await use(world)
        finally:
            await world.close()

    return asyncio.run(main())


def test_a_relay_leads_to_every_repository_with_every_record(tmp_path: Path) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth]:
        return await run_relay(world, tmp_path), Truth.of(world)

    crawled, truth = in_world(use, accounts=150, hosts=5)
    expected = truth.archivable(on_relay=True)
    assert crawled.ending is Ending.DONE
    assert len(expected) > 80 and any(did.startswith("did:web:") for did in expected)
    assert archived(tmp_path) == expected
    assert set(blocks_written(tmp_path).values()) == {1}
    assert crawled.counts.open == 0
    assert sum(crawled.tally.values()) == crawled.metrics.http.requests.total()
    assert crawled.metrics.http.inflated > crawled.metrics.http.wire > 0
    assert crawled.metrics.yields["repos"] == len(expected)
    assert crawled.metrics.yields["records"] == sum(sum(r.values()) for r in expected.values())


def test_inactive_accounts_are_on_record_with_their_own_reason(tmp_path: Path) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth]:
        return await run_relay(world, tmp_path), Truth.of(world)

    crawled, truth = in_world(use, accounts=150, hosts=5)
    # Whoever moved is deactivated where they came from, and that is not what counts.
    assert any("former_pds" in row for row in truth.rows.values())
    expected = truth.with_status("deactivated", "takendown", "suspended")
    assert crawled.reasons == expected
    assert set(expected.values()) == {"deactivated", "takendown", "suspended"}


def test_a_file_of_dids_is_crawled_whoever_lists_them(tmp_path: Path) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth]:
        truth = Truth.of(world)
        dids = tmp_path / "dids"
        dids.write_text("# Everybody\n\n" + "\n".join(truth.rows) + "\n" + "\n".join(truth.rows))
        return await run(world, tmp_path, dids=str(dids), page_size=40), truth

    crawled, truth = in_world(use, accounts=120, hosts=8)
    assert archived(tmp_path) == truth.archivable()
    gone = dict.fromkeys(truth.with_status("deleted"), Reason.NOT_FOUND)
    gone |= {f"resolve:{did}": Reason.NOT_FOUND for did in truth.with_status("tombstoned", "junk")}
    inactive = truth.with_status("deactivated", "takendown", "suspended")
    assert crawled.reasons == gone | inactive


def test_a_did_that_nobody_can_look_up_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a mirror and without: what the user named does not vanish."""
    strange = ["did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK", "did:web:a.example:b"]

    async def use(world: AtprotoWorld) -> list[dict[str, Reason]]:
        truth = Truth.of(world)
        gone = sorted(truth.with_status("tombstoned", "junk"))
        dids = tmp_path / "dids"
        dids.write_text("\n".join([*strange, *gone]))
        plain = await run(world, tmp_path / "plain", dids=str(dids))
        mirror = put_up_mirror(world, monkeypatch)
        for did in gone:
            mirror.rows[did] = RepoIdentity(did, "", "")
        mirrored = await run(world, tmp_path / "mirrored", dids=str(dids))
        expected = dict.fromkeys(strange, Reason.REFUSED) | dict.fromkeys(gone, Reason.NOT_FOUND)
        assert len(gone) > 1
        return [expected, plain.reasons, mirrored.reasons]

    expected, *found = in_world(use, accounts=120, hosts=4)
    for reasons in found:
        assert {did_of(key): reason for key, reason in reasons.items()} == expected


@pytest.mark.slow
def test_bad_hosts_cost_nothing_of_the_good_ones(tmp_path: Path) -> None:
    bad = (
        Habit.FLAPPING, Habit.DEAD, Habit.LYING, Habit.ENDLESS_CURSOR, Habit.TRUNCATING,
        Habit.SERVER_ERROR, Habit.BOMB, Habit.REDIRECT_PRIVATE, Habit.GARBAGE,
    )  # fmt: skip

    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth]:
        return await run_relay(world, tmp_path), Truth.of(world)

    crawled, truth = in_world(use, 5, accounts=200, hosts=14, habits=dict.fromkeys(bad, 1))
    assert crawled.ending is Ending.DONE
    assert archived(tmp_path) == truth.archivable(on_relay=True)
    listings = {
        truth.hosts[key.removeprefix("list:repos:").rsplit(":", 1)[0]]["habit"]
        for key in crawled.failures
        if key.endswith(":") and key.startswith("list:repos:")
    }
    # A host that cannot even be listed is on record, too.
    unlistable = {"dead", "server_error", "garbage", "truncating", "bomb"}
    habits = {host["habit"] for host in truth.hosts.values() if host["on_relay"]}
    assert unlistable & habits <= listings
    assert len(listings) >= 4
    assert sum(crawled.tally.values()) == sum(crawled.counts.attempts.values())


@pytest.mark.slow
def test_lies_are_refused_one_by_one(tmp_path: Path) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth]:
        return await run_relay(world, tmp_path, verify="full"), Truth.of(world)

    crawled, truth = in_world(use, 6, accounts=300, hosts=4, habits={Habit.LYING: 1})
    assert archived(tmp_path) == truth.archivable(on_relay=True)
    lies = {did: row["lie"] for did, row in truth.rows.items() if "lie" in row}
    assert set(lies.values()) == set(RepoLie)
    assert {crawled.reasons[did] for did in lies} == {Reason.PARSE_ERROR}
    words = {
        RepoLie.OTHER_REPO: "a repository of did:", RepoLie.WRONG_SIGNATURE: "not signed",
        RepoLie.HIGH_S: "not signed", RepoLie.WRONG_HASH: "hash_mismatch",
        RepoLie.MISSING_BLOCK: "missing_block",
    }  # fmt: skip
    for did, lie in lies.items():
        failure = crawled.failures[did]
        assert words[RepoLie(lie)] in failure.detail
        # What may have been a race is looked at twice.
        assert failure.attempt == (1 if lie == RepoLie.MISSING_BLOCK else 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verify", "believed"),
    [
        ("hashes", {RepoLie.WRONG_SIGNATURE, RepoLie.HIGH_S}),
        ("off", {RepoLie.WRONG_SIGNATURE, RepoLie.HIGH_S, RepoLie.WRONG_HASH}),
    ],
)
def test_less_verification_believes_more(
    verify: str, believed: set[RepoLie], tmp_path: Path
) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth]:
        return await run_relay(world, tmp_path, verify=verify), Truth.of(world)

    crawled, truth = in_world(use, 6, accounts=300, hosts=4, habits={Habit.LYING: 1})
    lies = {did: row["lie"] for did, row in truth.rows.items() if "lie" in row}
    told = {did for did, lie in lies.items() if did not in crawled.failures}
    assert {lies[did] for did in told} <= believed
    assert {lies[did] for did in told} >= {RepoLie.WRONG_SIGNATURE, RepoLie.HIGH_S}
    assert archived(tmp_path).keys() == truth.archivable(on_relay=True).keys() | told


def test_a_crawl_in_pieces_comes_to_the_same_and_asks_nothing_twice(tmp_path: Path) -> None:
    async def use(world: AtprotoWorld) -> tuple[list[Crawled], Truth, int]:
        pieces = [await run_relay(world, tmp_path, max_tasks=25)]
        while pieces[-1].ending is Ending.LIMIT:
            pieces.append(await run_relay(world, tmp_path, max_tasks=25))
        return pieces, Truth.of(world), sum(world.served.turns.values())

    pieces, truth, requests = in_world(use, accounts=100, hosts=4)
    assert len(pieces) > 3
    assert archived(tmp_path) == truth.archivable(on_relay=True)
    assert set(blocks_written(tmp_path).values()) == {1}
    assert requests == sum(pieces[-1].counts.attempts.values())


def test_a_rerun_fetches_nothing(tmp_path: Path) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Crawled]:
        return await run_relay(world, tmp_path), await run_relay(world, tmp_path)

    first, again = in_world(use, accounts=100, hosts=4)
    assert first.metrics.http.requests[StatusClass.CLIENT_ERROR] > 0
    assert again.metrics.yields["repos"] == 0
    # Listings are read again, for there may be new accounts; no repository is asked for.
    assert again.metrics.http.requests[StatusClass.CLIENT_ERROR] == 0
    assert again.reasons == first.reasons
    assert set(blocks_written(tmp_path).values()) == {1}


def test_collections_and_segment_size_and_level_are_heeded(tmp_path: Path) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth]:
        more = {"collections": ("app.bsky.graph.*",), "segment_size": 2048, "zstd_level": 19}
        return await run_relay(world, tmp_path, **more), Truth.of(world)

    crawled, truth = in_world(use, accounts=100, hosts=4)
    expected = {
        did: {name: n for name, n in records.items() if name.startswith("app.bsky.graph.")}
        for did, records in truth.archivable(on_relay=True).items()
    }
    assert archived(tmp_path) == expected
    assert any(expected.values()) and not all(expected.values())
    assert len(list((tmp_path / "archive").glob("segment_*.rca"))) > 3
    assert crawled.metrics.yields["segments"] > 3


def test_memory_for_one_small_repository_is_enough_for_all(tmp_path: Path) -> None:
    async def use(world: AtprotoWorld) -> tuple[Crawled, Truth]:
        return await run_relay(world, tmp_path, memory_limit="1MB"), Truth.of(world)

    crawled, truth = in_world(use, accounts=100, hosts=4)
    # The limit also holds for what extraction needs: nothing here is that large.
    assert archived(tmp_path) == truth.archivable(on_relay=True)
    assert crawled.ending is Ending.DONE
