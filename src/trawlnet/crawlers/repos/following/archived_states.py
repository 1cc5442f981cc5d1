"""The archive as the follower asks it: what a repository was at a revision. Blocking."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from trawlnet.archive.format.folding import ArchivedState
from trawlnet.archive.format.proof import parse_key
from trawlnet.archive.past import PastState, StateFinder, UnreadableState
from trawlnet.archive.tombstones import Tombstone, read_tombstones
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.following.live_state import (
    LiveState,
    Standing,
    path_digest,
    unshown_of,
)
from trawlnet.malformed import Malformed

_LAST = "did:~"  # Behind every DID.
log = logging.getLogger(__name__)


class ArchivedStates:
    """For several threads; one of them at a time looks for blocks."""

    def __init__(
        self, folder: Path, catalogue: ArchiveCatalogue, is_wanted: Callable[[str], bool]
    ) -> None:
        """`is_wanted` tells of collections."""
        self._folder = folder
        self._is_wanted = is_wanted
        self._finder = StateFinder(folder)
        self._catalogue = catalogue
        self._lock = threading.Lock()

    def is_empty(self) -> bool:
        return not any(self._folder.glob("*.rca"))

    def rev(self, did: str) -> str | None:
        return self._catalogue.rev(did)

    def dids_after(self, did: str, most: int) -> list[str]:
        """Archived accounts behind it, so many, in their order."""
        return list(islice(self._catalogue.between(did, _LAST), most))

    def tombstone(self, did: str) -> Tombstone | None:
        """The newest one over an account."""
        found = None
        for stone in read_tombstones(self._folder):
            if stone.did == did:
                found = stone
        return found

    def live_state(self, did: str) -> LiveState | None:
        """Of an account that was archived before anybody followed it; None: it is not there."""
        rev = self._catalogue.rev(did)
        if rev is None:
            return None
        past = self.at(did, rev)
        if past is None or past.root is None or past.state.incomplete:
            return LiveState(rev=rev, archived=rev, standing=Standing.DESYNCHRONIZED)
        return self.state_after(past.state, past.root)

    def state_after(self, state: ArchivedState, root: bytes) -> LiveState:
        """Of an account whose repository was archived like this."""
        try:
            key = parse_key(state.key).did_key
        except Malformed:
            key = ""
        after = LiveState(state.rev, root, key, state.pds, Standing.SYNCHRONIZED, state.rev)
        unshown = (path for path in state.left_out if self._is_wanted(_collection(path)))
        return replace(after, unshown=unshown_of(map(path_digest, unshown)))

    def glance(self, did: str) -> LiveState | None:
        """The same without what only reading the repository tells: no key, and no tree."""
        rev = self._catalogue.rev(did)
        if rev is None:
            return None
        with self._lock:
            return LiveState(rev, pds=self._finder.home_at(did, rev), archived=rev)

    def published(self, did: str, base: LiveState) -> Mapping[bytes, bytes] | None:
        """CIDs by path of what was published of an account at the rev of its state; None where the
        archive does not tell any more: it was compacted since, or is damaged."""
        past = self.at(did, base.rev)
        if past is None or past.state.incomplete or past.state.rev != (base.archived or base.rev):
            return None
        return {path: one.cid for path, one in past.state.records.items()}

    def at(self, did: str, rev: str) -> PastState | None:
        """None also where it cannot be read: then nothing is known of what was published."""
        try:
            with self._lock:
                blocks = self._finder.blocks_at(did, rev)
            return None if blocks is None else blocks.state()
        except UnreadableState as error:
            told = {"did": did, "rev": rev, "error": str(error)}
            log.warning("an archived repository cannot be read", extra=told)
            return None


def _collection(path: bytes) -> str:
    return path.partition(b"/")[0].decode()
