"""Asking for the document of a DID, politely, in the words of this crawler."""

from __future__ import annotations

from trawlnet.crawlers.atproto.identity import document_url, resolve
from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.engine.outcome import Outcome


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
