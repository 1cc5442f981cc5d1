"""The first id of a new crawl: below a target, the latest stored id, or a found one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from trawlnet.crawlers.errors import NotReady, Unanswered
from trawlnet.crawlers.ids.api.api import Api, read_anchor
from trawlnet.crawlers.ids.handler import ApiServer
from trawlnet.crawlers.ids.model import AnswerVerdict
from trawlnet.crawlers.metered import Getter
from trawlnet.engine.ports import Clock
from trawlnet.net.client.answer import Response

Exists = Callable[[int], Awaitable[bool]]

_LARGEST_POWER = 40  # 2 to this many: a million million.
_NEIGHBOURS = 3  # Ids requested at one place, because a single one may be a hole.
_PARTS = 4  # Places checked above a miss before the upper half is dropped: it may be a gap.
_TRIES = 20  # Attempts at one request, while the API is off or throttles.
_PAUSE = 3.0


async def newest_found(exists: Exists) -> int | None:
    """An id near the newest, by doubling and bisection; None if none was found.

    An existing id proves nothing about lower or higher ones, so a miss counts only if some places
    above it miss, too.
    """
    low = None
    for power in reversed(range(_LARGEST_POWER)):
        if await _around(exists, 1 << power):
            low = 1 << power
            break
    if low is None:
        return None
    high = 2 * low
    while high - low > 2 * _NEIGHBOURS:
        found = await _highest(exists, low, high)
        if found is not None:
            low = found
        else:
            high = (low + high) // 2
    return low


async def _highest(exists: Exists, low: int, high: int) -> int | None:
    """The highest of some places in the upper half at which something exists."""
    middle = (low + high) // 2
    step = max(1, (high - middle) // _PARTS)
    for place in reversed(range(middle, high, step)):
        if await _around(exists, place):
            return place
    return None


async def _around(exists: Exists, place: int) -> bool:
    for number in range(place, place + _NEIGHBOURS):
        if await exists(number):
            return True
    return False


@dataclass(frozen=True, slots=True)
class NewestIdFinder:
    """Sends requests before the crawl begins, through the same gate."""

    http: Getter
    api: Api
    server: ApiServer
    clock: Clock

    async def newest(self) -> int:
        """Raises NotReady when nothing is found, and Unanswered."""
        if self.api.anchor and (newest := await self.anchor()) is not None:
            return newest
        found = await newest_found(self.exists)
        if found is None:
            raise NotReady(
                f"the search for the newest id of {self.server.base} found none",
                "name an id that exists: --target N",
            )
        return found

    async def anchor(self) -> int | None:
        url = self.server.base + self.api.anchor
        response = await self.http.get(url, lane=self.server.lane, headers=self.server.headers)
        return read_anchor(response) if isinstance(response, Response) else None

    async def exists(self, number: int) -> bool:
        for _ in range(_TRIES):
            response = await self.http.get(
                self.api.url(self.server.base, number),
                lane=self.server.lane,
                headers=self.server.headers,
            )
            if isinstance(response, Response):
                reading = self.api.read(number, response)
                if reading.verdict.exists or reading.verdict is AnswerVerdict.MALFORMED:
                    return True
                if reading.verdict is AnswerVerdict.NOT_FOUND:
                    return False
            await self.clock.sleep(response.wait or _PAUSE)
        raise Unanswered(
            f"{self.server.base} gives no usable answer", "check --base-url and the API key"
        )


def first_id(newest: int, below: int) -> int:
    return max(1, newest - below)
