"""Counts the open tasks of an LMDB store by rank and lane, while a crawl works on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lmdb

from trawlnet.stores.errors import StoreError
from trawlnet.stores.lmdb.rows import order_of
from trawlnet.stores.lmdb.tables import decode_lane

_TABLES = 16
_MOST = 1_000_000  # Tasks read: a long read would delay the reuse of LMDB pages.


@dataclass(frozen=True, slots=True)
class OpenTasks:
    by_rank: Counter[int]  # Tasks that were never delayed.
    by_lane: Counter[str]  # All open tasks.
    is_whole: bool  # False if there were more tasks than are read.


def read_frontier(path: Path, rank_of: Callable[[float], int]) -> OpenTasks:
    """`rank_of` maps a score to a rank. Changes nothing. Raises StoreError."""
    by_rank: Counter[int] = Counter()
    by_lane: Counter[str] = Counter()
    if not (path / "data.mdb").exists():
        return OpenTasks(by_rank, by_lane, True)
    try:
        with lmdb.open(str(path), readonly=True, max_dbs=_TABLES) as environment:
            ready = environment.open_db(b"ready", create=False)
            lanes = environment.open_db(b"lanes", create=False)
            with environment.begin() as txn:
                for seen, position in enumerate(txn.cursor(db=ready).iternext(values=False)):
                    if seen == _MOST:
                        break
                    by_rank[rank_of(order_of(position))] += 1
                for _, packed in txn.cursor(db=lanes):
                    if (record := decode_lane(packed)).open:
                        by_lane[record.name] += record.open
    except lmdb.Error as error:
        raise StoreError(f"cannot look into {path}: {error}", "try again later") from error
    return OpenTasks(by_rank, by_lane, sum(by_rank.values()) < _MOST)
