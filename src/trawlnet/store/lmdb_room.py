"""Room in an LMDB map, which is of a fixed size until somebody lets it grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import lmdb

T = TypeVar("T")


def with_room(environment: lmdb.Environment, run: Callable[[], T]) -> T:
    """Run a transaction, and again with a larger map for as long as the map is too small."""
    while True:
        try:
            return run()
        except lmdb.MapFullError:
            # A reader that was killed may keep old pages from being used again.
            environment.reader_check()
            environment.set_mapsize(2 * environment.info()["map_size"])
        except lmdb.MapResizedError:
            # Another process has let the map grow; zero takes over the size on disk.
            environment.set_mapsize(0)
