"""Enters found PDSes into the registry, and counts the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trawlnet.crawlers.atproto.reader import Wait, unsaid
from trawlnet.crawlers.metered import Getter
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.rules import EntryVerdict, FoundPds

_REMEMBERED = 500_000  # Names; repeats in a larger source are counted again.


@dataclass(slots=True)
class DiscoveryCounts:
    """The counts of one source. Every name is exactly one of new, known and refused."""

    new: int = 0
    known: int = 0
    revived: int = 0  # Known PDSes that became due because they were found again.
    refused: Counter[str] = field(default_factory=Counter)  # By reason.
    unresolved: Counter[str] = field(default_factory=Counter)  # DIDs without a PDS, by reason.
    read: int = 0  # Servers, or lists, that were read to their end.
    error: str = ""  # Why others were not.
    _seen: set[str] = field(default_factory=set)

    @property
    def found(self) -> int:
        return self.new + self.known + self.refused.total()

    def is_first(self, name: str) -> bool:
        """Whether this source has not named it before."""
        if name in self._seen:
            return False
        if len(self._seen) < _REMEMBERED:
            self._seen.add(name)
        return True

    def left(self, why: str) -> None:
        """A server was not read to its end."""
        self.error = f"{self.error}; {why}" if self.error else why

    def refuse(self, name: str, why: str) -> None:
        if self.is_first(name):
            self.refused[why] += 1

    def row(self) -> Mapping[str, Any]:
        row: dict[str, Any] = {"found": self.found, "new": self.new, "known": self.known}
        row |= {"refused": self.refused.total(), "revived": self.revived}
        row |= {"refused_by": dict(self.refused), "unresolved": dict(self.unresolved)}
        return row | ({"error": self.error} if self.error else {})


@dataclass(frozen=True, slots=True)
class Finder:
    """The parts that every source needs."""

    registry: Registry
    http: Getter
    gate: Gate
    clock: Clock
    on_wait: Callable[[Wait], None] = unsaid  # Called when the directory makes us wait.

    @property
    def allow_private(self) -> bool:
        return self.registry.terms.allow_private

    async def tell(self, tally: DiscoveryCounts, founds: Sequence[FoundPds]) -> None:
        first = [found for found in founds if tally.is_first(found.url)]
        for registered in await self.registry.register_many(first, self.clock.now()):
            match registered.verdict:
                case EntryVerdict.NEW:
                    tally.new += 1
                case EntryVerdict.REFUSED:
                    tally.refused[registered.reason] += 1
                case verdict:
                    tally.known += 1
                    tally.revived += verdict is EntryVerdict.REVIVED
