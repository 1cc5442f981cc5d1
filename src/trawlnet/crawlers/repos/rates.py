"""How fast each PDS may be asked: by the number of its accounts, as far as they are known."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from trawlnet.crawlers.repos.config import ReposConfig, manners
from trawlnet.engine.gate import Gate
from trawlnet.store.errors import StoreError
from trawlnet.store.lmdb_notes import Notes

log = logging.getLogger(__name__)

SMALL = 100  # Accounts; a PDS below this is somebody's own machine.
LARGE = 1000  # Accounts; from here on it is infrastructure.
_LANE_MAX = 300  # Characters; no host has a longer name.
_TABLE = "accounts"
_PENDING = 256  # Changes that are written down together.


def note_sizes(notes: Notes, accounts: Mapping[str, int]) -> None:
    """What others have counted, for whoever opens the rates next."""
    with notes.writing(table := notes.table(_TABLE)) as txn:
        for lane, count in accounts.items():
            if len(lane) <= _LANE_MAX:
                txn.put(lane.encode(), b"%d" % count, db=table)


def rate_for(accounts: int, config: ReposConfig) -> float:
    if accounts < SMALL:
        return config.small_pds_rps
    return config.large_pds_rps if accounts >= LARGE else config.default_pds_rps


class PdsRates:
    """Counts accounts per lane and tells the gate. What a crash forgets makes it slower only."""

    def __init__(
        self,
        notes: Notes,
        gate: Gate,
        config: ReposConfig,
        told: Callable[[str, int], None] = lambda lane, accounts: None,
    ) -> None:
        """`told` hears of every count that has changed."""
        self._notes = notes
        self._told = told
        self._table = notes.table(_TABLE)
        self._gate = gate
        self._config = config
        self._usual = manners(config)
        self._accounts: Counter[str] = Counter()
        self._pending: set[str] = set()
        with notes.reading(self._table) as txn:
            for lane, count in txn.cursor():
                self._accounts[lane.decode()] = int(count)
        for lane in self._accounts:
            self._treat(lane)

    @property
    def pdses(self) -> int:
        return len(self._accounts)

    def add(self, accounts: Mapping[str, int]) -> None:
        """So many more accounts on these lanes."""
        for lane, count in accounts.items():
            self._accounts[lane] += count
            self._treat(lane)
            self._told(lane, self._accounts[lane])
            if len(lane) <= _LANE_MAX:
                self._pending.add(lane)
        if len(self._pending) >= _PENDING:
            self._write_down()

    def begin(self, lane: str | None = None) -> None:
        """Count one lane from nothing, or all: they are about to be told again."""
        for one in [lane] if lane is not None else list(self._accounts):
            if self._accounts.pop(one, None):
                self._pending.add(one)

    def close(self) -> None:
        try:
            self._write_down()
        except StoreError as error:
            log.warning("notes not written", extra={"error": str(error)})

    def _write_down(self) -> None:
        with self._notes.writing(self._table) as txn:
            for lane in self._pending:
                if self._accounts[lane]:
                    txn.put(lane.encode(), b"%d" % self._accounts[lane])
                else:
                    txn.delete(lane.encode())
        self._pending.clear()

    def _treat(self, lane: str) -> None:
        rate = rate_for(self._accounts[lane], self._config)
        if self._gate.manners(lane).rate != rate:
            self._gate.treat(lane, replace(self._usual, rate=rate))
