"""Room in an LMDB map, which is of a fixed size until somebody lets it grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import lmdb

T = TypeVar("T")


def with_room(opened: Callable[[], lmdb.Environment], run: Callable[[], T]) -> T:
    """Run a transaction, and again with a larger map for as long as the map is too small.

    The environment is asked for late: `run` may be what opens it, and the map of another process
    can grow between its opening and its first transaction.
    """
    while True:
        try:
            return run()
        except lmdb.MapFullError:
            environment = opened()
            # A reader that was killed may keep old pages from being used again.
            environment.reader_check()
            environment.set_mapsize(2 * environment.info()["map_size"])
        except lmdb.MapResizedError:
            # Another process has let the map grow; zero takes over the size on disk.
            opened().set_mapsize(0)
