"""CRC-32 as zlib has it, by the fastest code there is."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from trawlnet.native.loader import native

# Zlib's own, where it is not the newest, takes four times as long; a block is checked thrice.
crc32: Callable[..., int] = zlib.crc32 if native is None else native.crc32
