"""A 64-bit fingerprint of a text: pages that share most of their text differ in few bits."""

from __future__ import annotations

import random
import re
from operator import add
from zlib import crc32

BITS = 64

_MOST_TEXT = 200_000  # Characters; the beginning of a longer text speaks for it.

# A text is cut after certain letters, so that an insertion moves no cut but those beside it. The
# pieces are two or three words long in most languages, in whatever script UTF-8 writes them.
_PIECE = re.compile(rb"[^dl07\x85\x91\xa7\xb2]{0,60}[dl07\x85\x91\xa7\xb2]?")

# Each piece votes on all bits at once: the product of its checksum and a random constant, from
# which one bit in eight is taken. The sum of 255 such numbers has one count of votes in each byte.
_SPREAD = random.Random(64).getrandbits(8 * BITS + 32)
_ONE_OF_EIGHT = int.from_bytes(b"\1" * BITS, "little")
_AT_ONCE = 255


def simhash(text: str) -> int:
    """The fingerprint; 0 for a text without words."""
    plain = " ".join(text[:_MOST_TEXT].lower().split()).encode("utf-8", "replace")
    pieces = list(set(_PIECE.findall(plain)) - {b""})
    votes = [0] * BITS
    for at in range(0, len(pieces), _AT_ONCE):
        some = pieces[at : at + _AT_ONCE]
        total = sum([crc32(piece) * _SPREAD >> 32 & _ONE_OF_EIGHT for piece in some])
        votes = list(map(add, votes, total.to_bytes(BITS, "little")))
    half = len(pieces) / 2
    return sum(1 << bit for bit, count in enumerate(votes) if count > half)
