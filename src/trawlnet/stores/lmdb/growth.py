"""Grows an LMDB map, whose size is otherwise fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import lmdb

T = TypeVar("T")


def with_room(opened: Callable[[], lmdb.Environment], run: Callable[[], T]) -> T:
    """Run a transaction, and again with a larger map for as long as the map is too small.

    `opened` is called late: `run` may open the environment, and another process may grow the map
    between that opening and the first transaction.
    """
    while True:
        try:
            return run()
        except lmdb.MapFullError:
            environment = opened()
            # A killed reader may still block the reuse of old pages.
            environment.reader_check()
            environment.set_mapsize(2 * environment.info()["map_size"])
        except lmdb.MapResizedError:
            # Another process has grown the map; zero adopts the size on disk.
            opened().set_mapsize(0)
