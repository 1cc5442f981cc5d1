"""Identities that were looked up lately: remembered for minutes, and no more than so many."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from trawlnet.crawlers.atproto.identity import Identity
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Clock

Resolve = Callable[[str], Awaitable[Identity | Outcome]]

_KEPT = 300.0  # Seconds that an identity is believed.
_FAILURE_KEPT = 60.0  # Seconds before a DID without an answer is looked up again.
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class _CachedIdentity:
    answer: Identity | Outcome
    until: float


class Identities:
    def __init__(self, resolve: Resolve, clock: Clock) -> None:
        self._resolve = resolve
        self._clock = clock
        self._known: dict[str, _CachedIdentity] = {}  # Oldest first.

    def remembers(self, did: str) -> bool:
        """Whether asking now would give an answer from memory, which may be out of date."""
        known = self._known.get(did)
        return known is not None and known.until > self._clock.now()

    async def ask(self, did: str, *, afresh: bool = False) -> Identity | Outcome:
        known = self._known.get(did)
        if known is not None and known.until > self._clock.now() and not afresh:
            return known.answer
        answer = await self._resolve(did)
        kept = _KEPT if isinstance(answer, Identity) else _FAILURE_KEPT
        self._known.pop(did, None)
        self._known[did] = _CachedIdentity(answer, self._clock.now() + kept)
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return answer
