"""When a new sweep begins, failures that may have passed are asked about again."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

from trawlnet.crawlers.atproto.pages import host_url
from trawlnet.crawlers.repos.accounts.identity import Mirror
from trawlnet.crawlers.repos.visiting.visit import INACTIVE
from trawlnet.crawlers.repos.work import RepoVisit, is_listing, lane_at
from trawlnet.engine.outcome import Again, Blame, Reason, Receipt
from trawlnet.engine.ports import Clock, Failure, KeyLedger, Store
from trawlnet.engine.task import Task

log = logging.getLogger(__name__)

_SAMPLE = 1000  # Answers that are looked at; they come in no order, so that a part will do.
_AT_ONCE = 1000  # Keys that are put back, or moved, together.
_MOVED_AT_MOST = 200_000  # Accounts in one sweep; the rest is looked for in the next.


async def is_under_way(store: KeyLedger) -> bool:
    """Whether a sweep was begun that is not done."""
    counts = await store.counts()
    return counts.open > counts.blocked


async def reopen(store: KeyLedger, before: float) -> int:
    """Put back what ran out of tries, what our own policy forbade, which may be another by now,
    listings that were not read, and inactive accounts whose answer is older than `before`: they
    are not inactive for ever. Returns how many."""
    reopened = 0
    settled = (await store.counts()).settled
    for reason in settled:
        if reason.again is not Again.NEVER or reason in (Reason.BLOCKED, Reason.REFUSED):
            reopened += await store.retry(reason)
        elif not reason.success:
            reopened += await _reopen_listings(store, reason)
    return reopened + await _reopen_inactive(store, before)


async def _reopen_listings(store: KeyLedger, reason: Reason) -> int:
    """A server that once showed no listing may show one today."""
    reopened = 0
    unread: list[Failure] = []
    async for failure in store.failures(reason):
        if is_listing(failure.key):
            unread.append(failure)
        if len(unread) == _AT_ONCE:
            reopened += len(await store.retry_keys(unread))
            unread = []
    return reopened + len(await store.retry_keys(unread))


async def _reopen_inactive(store: KeyLedger, before: float) -> int:
    reopened = 0
    for reason in INACTIVE:
        seen = 0
        async for failure in store.failures(reason):
            seen += 1
            if failure.at < before:
                reopened += await store.retry(reason)
                break
            if seen == _SAMPLE:
                break
    return reopened


async def stranded(store: KeyLedger) -> Sequence[Failure]:
    """Accounts that were not had because their host failed. To be asked before `reopen`."""
    found: list[Failure] = []
    async for failure in _of_hosts(store):
        if failure.key.startswith("did:"):
            found.append(failure)
        if len(found) == _MOVED_AT_MOST:
            log.warning("more accounts are on failing hosts than one sweep looks for")
            break
    return found


async def _of_hosts(store: KeyLedger) -> AsyncIterator[Failure]:
    words = {Reason.BLOCKED, *(await store.counts()).settled}
    for reason in sorted(word for word in words if word.blame is Blame.LANE):
        async for failure in store.failures(reason):
            yield failure


@dataclass(frozen=True, slots=True)
class Rescue:
    """Looks for stranded accounts where they live now. Their old host is left alone once it has
    failed a few times, and those behind would never be asked about."""

    store: Store
    mirror: Mirror | None
    directory_of: Callable[[str], str]  # Raises ValueError for a DID without one.
    clock: Clock
    allow_private: bool

    async def __call__(self, stranded: Sequence[Failure]) -> None:
        """After `reopen`: only open keys can be moved."""
        for start in range(0, len(stranded), _AT_ONCE):
            some, now = stranded[start : start + _AT_ONCE], self.clock.now()
            await self.store.settle(
                [
                    Receipt(
                        Task(one.key, one.lane),
                        Reason.PARKED,
                        next=task,
                        detail="its present PDS is looked up",
                        at=now,
                    )
                    for one, task in await self._tasks(some)
                ]
            )

    async def _tasks(self, some: Sequence[Failure]) -> Sequence[tuple[Failure, Task]]:
        """By the mirror if there is one; else its directory is asked first, on that lane."""
        if self.mirror is None:
            asked = [(one, self._asked_first(one)) for one in some]
            return [(one, task) for one, task in asked if task is not None]
        states = await self.mirror.states([one.key for one in some])
        found = []
        for one in some:
            state = states.get(one.key)
            if state is not None and state.pds and lane_at(state.pds) != one.lane:
                visit = RepoVisit(one.key, state.pds, state.key, resolved_at=int(self.clock.now()))
                found.append((one, visit.task()))
        return found

    def _asked_first(self, one: Failure) -> Task | None:
        pds = host_url(one.lane, allow_private=self.allow_private)
        try:
            directory = self.directory_of(one.key)
        except ValueError:
            return None
        if pds is None:
            return None
        return replace(RepoVisit(one.key, pds).task(), lane=lane_at(directory))
