"""How much one frame may hold, as the protocol's lexicon has it and as we bound the rest."""

from __future__ import annotations

MAX_FRAME = 5_000_000  # Bytes.
MAX_BLOCKS = 2_000_000  # Bytes of a commit's CAR.
MAX_SYNC_BLOCKS = 10_000
MAX_OPS = 200
MAX_RECORD = 1_000_000  # Bytes.
MAX_SEQ = (1 << 53) - 1
FUTURE_TOLERANCE_US = 300 * 1_000_000  # Clocks differ.

MAX_TEXT = 4096  # Bytes of a field; the longest legal one, a DID, has 2048.
# Bytes of keys in all nodes that are opened: prefixes let few bytes stand for many, so that a frame
# could cost twenty times its size.
MAX_KEYS = 4 * MAX_BLOCKS
