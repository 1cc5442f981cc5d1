"""States and deltas as blocks, ready to be appended."""

from __future__ import annotations

from collections.abc import Iterable

from trawlnet.archive.format.folding import ArchivedState, encode_state
from trawlnet.native.zstd import FrameWriter


def pack_states(states: Iterable[ArchivedState], zstd_level: int) -> list[bytes]:
    compress = FrameWriter(zstd_level, False).frame
    return [encode_state(state, compress) for state in states]
