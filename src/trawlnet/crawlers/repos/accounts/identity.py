"""Where an account lives and which key signs for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trawlnet.engine.outcome import Outcome


@dataclass(frozen=True, slots=True)
class RepoIdentity:
    did: str
    pds: str  # URL without a path; empty where there is none that can be visited.
    key: str  # did:key; empty where there is none.


class Resolver(Protocol):
    """Asks the directory of a DID, politely."""

    def directory_of(self, did: str) -> str:
        """The URL of the server that has its document. Raises ValueError for a DID without."""

    async def resolve(self, did: str) -> RepoIdentity | Outcome:
        """The account as its document has it now, or why there is no document."""


class Mirror(Protocol):
    """What a mirrored directory says about DIDs."""

    async def states(self, dids: Sequence[str]) -> Mapping[str, RepoIdentity]:
        """Of those it knows. One that is tombstoned has no PDS."""
