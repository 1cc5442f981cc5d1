"""Where accounts live that firehoses name and no scan has met at home: their documents say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from trawlnet.crawlers.atproto.identities import Identities
from trawlnet.crawlers.atproto.identity import Identity
from trawlnet.crawlers.pds.following.look_scheduler import TRIES
from trawlnet.crawlers.pds.scanning.residence import ANSWERS
from trawlnet.crawlers.pds.schedule import RegistryStore
from trawlnet.engine.control import Control
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Clock
from trawlnet.tables.registry.looks import DueLook, RegistryLooks
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.rules import EntryVerdict, PdsSource

_AT_ONCE = 10
_EVERY = 1.0  # Seconds.
_PATIENCE = 20.0  # Seconds for one document.
_FIRST_WAIT = 30.0  # Seconds until a directory that did not answer is asked again; then four times.


class HomeFinder:
    """Companions of the crawl: one for the directory, one for all other servers, which are slow if
    they like."""

    def __init__(
        self,
        looks: RegistryLooks,
        registry: Registry,
        store: RegistryStore,
        identities: Identities,
        clock: Clock,
    ) -> None:
        self._looks = looks
        self._registry = registry
        self._store = store
        self._identities = identities
        self._clock = clock
        self.on_found: Callable[[], None] = lambda: None
        self.lost = 0  # Accounts whose PDS could not be found, in this run.

    async def in_directory(self, control: Control) -> None:
        await self._run(control, True)

    async def elsewhere(self, control: Control) -> None:
        await self._run(control, False)

    async def _run(self, control: Control, in_directory: bool) -> None:
        while True:
            now = self._clock.now()
            due = await self._store.patiently(
                partial(self._looks.due_searches, now, in_directory, _AT_ONCE)
            )
            if due and not control.paused:
                await asyncio.gather(*map(self._find, due))
                self.on_found()
            if len(due) < _AT_ONCE:
                await self._clock.sleep(_EVERY)

    async def _find(self, look: DueLook) -> None:
        answer = await self._ask(look)
        now = self._clock.now()
        if isinstance(answer, Identity) and answer.pds:
            entered = await self._store.patiently(
                partial(self._registry.register, answer.pds, PdsSource.DID, now=now)
            )
            if entered.verdict is not EntryVerdict.REFUSED:
                await self._store.patiently(partial(self._looks.found, look, entered.url, now))
                return
        elif (answer is None or _may_pass(answer)) and look.tries + 1 < TRIES:
            due = now + _FIRST_WAIT * 4**look.tries
            await self._store.patiently(partial(self._looks.search_later, look, due))
            return
        self.lost += 1
        await self._store.patiently(partial(self._looks.lost, look))

    async def _ask(self, look: DueLook) -> Identity | Outcome | None:
        """None: there was no answer."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._identities.ask(look.did, afresh=look.is_moved)
        except (TimeoutError, LaneParked):
            return None


def _may_pass(answer: Identity | Outcome) -> bool:
    return isinstance(answer, Outcome) and answer.reason not in ANSWERS
