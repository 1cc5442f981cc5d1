"""Where accounts live now: asking a directory in the middle of a visit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.accounts.locator import AccountLocator, LookupSlots
from trawlnet.crawlers.repos.work import RepoVisit
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.rules import Manners
from trawlnet.sim.virtual import SimClock, run_sim


class SlowDirectory:
    def directory_of(self, did: str) -> str:
        return "https://plc.example"

    async def resolve(self, did: str) -> RepoIdentity:
        await asyncio.sleep(60.0)
        return RepoIdentity(did, "https://pds.example", "")


def test_a_slow_directory_does_not_get_every_worker() -> None:
    """Two visits wait for it; the others give their worker back and come again."""

    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, Manners())
        where = AccountLocator(SlowDirectory(), None, 0.0, clock, gate, LookupSlots(2, clock))
        asking = [asyncio.create_task(where.resolved(f"did:plc:{n}")) for n in range(2)]
        await clock.sleep(1.0)
        with pytest.raises(LaneParked) as later:
            await where.resolved("did:plc:2")
        assert later.value.until > clock.now()
        assert [one.did for one in await asyncio.gather(*asking)] == ["did:plc:0", "did:plc:1"]
        assert await where.resolved("did:plc:2") == RepoIdentity(
            "did:plc:2", "https://pds.example", ""
        )

    run_sim(main())


@pytest.mark.parametrize(
    ("reason", "told"), [(Reason.RATE_LIMITED, True), (Reason.UNAVAILABLE, False)]
)
def test_what_a_directory_says_of_itself_is_heard(reason: Reason, told: bool) -> None:
    """Asked for an account whose server no longer shows it: "slow down" is the outcome, and any
    other trouble counts against the directory, however the visit ends."""

    class Troubled(SlowDirectory):
        async def resolve(self, did: str) -> Outcome:  # type: ignore[override]
            return Outcome(reason, wait=40.0)

    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, Manners())
        where = AccountLocator(Troubled(), None, 0.0, clock, gate, LookupSlots(2, clock))
        found = await where.moved_since(RepoVisit("did:plc:a", "https://pds.example"), 0.0)
        assert found == (Outcome(reason, wait=40.0, lane="plc.example") if told else None)
        if not told:
            assert gate.ready_at("plc.example") == 40.0

    run_sim(main())


@pytest.mark.parametrize(
    ("reason", "stands"),
    [(Reason.UNAVAILABLE, False), (Reason.TIMEOUT, False), (Reason.NOT_FOUND, True)],
)
def test_no_archived_account_is_withdrawn_while_the_directory_is_away(
    reason: Reason, stands: bool
) -> None:
    """Its old server says that it is switched off: it may have moved, however new its address."""

    class Troubled(SlowDirectory):
        async def resolve(self, did: str) -> Outcome:  # type: ignore[override]
            return Outcome(reason)

    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, Manners())
        where = AccountLocator(Troubled(), None, 1e9, clock, gate, LookupSlots(2, clock))
        visit = RepoVisit("did:plc:a", "https://pds.example")
        found = await where.moved_since(visit, 0.0, is_archived=True)
        assert found == (None if stands else Outcome(reason, lane="plc.example"))
        assert await where.moved_since(visit, 0.0) is None, "nothing would be withdrawn"

    run_sim(main())


def test_no_archived_account_is_withdrawn_on_the_word_of_an_old_mirror() -> None:
    """The account has moved since the directory was mirrored."""
    old, new = "https://old.example", "https://new.example"

    class Directory(SlowDirectory):
        async def resolve(self, did: str) -> RepoIdentity:
            return RepoIdentity(did, new, "")

    class OldMirror:
        async def states(self, dids: Sequence[str]) -> Mapping[str, RepoIdentity]:
            return {did: RepoIdentity(did, old, "") for did in dids}

    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, Manners())
        where = AccountLocator(Directory(), OldMirror(), 0.0, clock, gate, LookupSlots(2, clock))
        visit = RepoVisit("did:plc:a", old)
        found = await where.moved_since(visit, 0.0, is_archived=True)
        assert found == RepoIdentity("did:plc:a", new, "")
        assert await where.moved_since(visit, 0.0) is None, "the mirror is asked first"

    run_sim(main())
