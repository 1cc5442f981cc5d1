"""The newest operations of the DIDs that a run of the mirror wrote last: tables need not be asked
for these.

After a crash tables may be ahead of the cursor. What is told again changes nothing in them: states
of a lower version do not count there, and what was undone stays so."""

from __future__ import annotations

from collections.abc import Iterable

from trawlnet.crawlers.atproto.operations import Chains
from trawlnet.tables.clickhouse.plc_rows import order_of

_MOST = 1 << 16  # DIDs of a generation; two of them take 40 MB.


class RecentHeads:
    """Bounded: when the young generation is full it becomes the old one, which is let go of."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._young: dict[str, str] = {}
        self._old: dict[str, str] = {}

    def known(self, dids: Iterable[str]) -> dict[str, str]:
        """The CIDs of those that are known."""
        young, old = self._young, self._old
        return {did: cid for did in dids if (cid := young.get(did) or old.get(did))}

    def learn(self, batch: Chains, stored: int) -> None:
        """Heads of a batch that was stored behind all up to `stored`. One that is not newer is left
        out, for tables may keep another, and so is what forks or repeats."""
        for did in batch.odd:
            self._young.pop(did, None)
            self._old.pop(did, None)
        for did, row in batch.newest.items():
            if did not in batch.odd and order_of(row) > stored:
                self._note(did, batch.heads[did])

    def _note(self, did: str, cid: str) -> None:
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[did] = cid
