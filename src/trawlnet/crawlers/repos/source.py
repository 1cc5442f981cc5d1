"""Where the crawl begins: the relays. Everything else is found by listing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from trawlnet.crawlers.repos.work import Listed, Listing
from trawlnet.engine.ports import Page


class RelaySource:
    """One page: the first listing of each relay.

    It is told on every run, because known keys are left alone: a relay that is added later is
    listed then, and one that was listed is not listed again.
    """

    def __init__(self, relays: Sequence[str]) -> None:
        self._relays = relays

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        tasks = [Listing(Listed.HOSTS, relay).task() for relay in self._relays]
        yield Page(tasks, cursor=" ".join(self._relays))
