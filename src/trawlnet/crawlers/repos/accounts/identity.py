"""Where an account lives and which key signs for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trawlnet.crawlers.atproto.identity import document_url, resolve
from trawlnet.crawlers.metered import Getter
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


class DocumentResolver:
    def __init__(self, http: Getter, plc: str, *, allow_private: bool) -> None:
        self._http = http
        self._plc = plc
        self._allow_private = allow_private

    def directory_of(self, did: str) -> str:
        return directory(did, self._plc, allow_private=self._allow_private)

    async def resolve(self, did: str) -> RepoIdentity | Outcome:
        found = await resolve(self._http, did, self._plc, allow_private=self._allow_private)
        if isinstance(found, Outcome):
            return found
        return RepoIdentity(did, found.pds, found.signing_key)


def directory(did: str, plc: str, *, allow_private: bool) -> str:
    """The URL of the server that has its document. Raises ValueError for a DID without."""
    url = document_url(did, plc, allow_private=allow_private)
    if url is None:
        raise ValueError(f"no server has a document for {did}")
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
