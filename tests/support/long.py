"""How often a thing is tried: some times in `make test`, many times where it is asked for."""

from __future__ import annotations

import os

IS_LONG = os.environ.get("TRAWLNET_LONG") == "1"


def times(some: int, many: int) -> int:
    """`TRAWLNET_LONG=1` asks for `many`."""
    return many if IS_LONG else some
