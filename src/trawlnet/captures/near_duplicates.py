"""Finds nearly equal fingerprints by the quarters that two of them must share.

Two 64-bit fingerprints that differ in at most three bits agree on at least one of their four
quarters, so it is enough to compare those that share a quarter.
"""

from __future__ import annotations

from collections.abc import Iterator

MOST_BITS = 3
_BANDS = 4
_BAND_BITS = 16
_MASK = (1 << _BAND_BITS) - 1


def bands(simhash: int) -> list[bytes]:
    """A prefix per quarter: its number and its value."""
    return [
        bytes((band,)) + (simhash >> (band * _BAND_BITS) & _MASK).to_bytes(2, "big")
        for band in range(_BANDS)
    ]


def keys(simhash: int) -> list[bytes]:
    """One key per quarter; the fingerprint is its end."""
    whole = simhash.to_bytes(8, "big")
    return [prefix + whole for prefix in bands(simhash)]


def differ(key: bytes, simhash: int) -> int:
    """The number of bits in which the fingerprint of a key differs."""
    return (int.from_bytes(key[-8:], "big") ^ simhash).bit_count()


class Near:
    """The newest fingerprints, in memory until they are committed."""

    def __init__(self) -> None:
        self._buckets: dict[bytes, dict[bytes, bytes]] = {}

    def add(self, simhash: int, owner: bytes) -> None:
        for key in keys(simhash):
            self._buckets.setdefault(key[:3], {}).setdefault(key, owner)

    def has(self, simhash: int, within: int, besides: bytes) -> bool:
        return any(
            owner != besides and differ(key, simhash) <= within
            for prefix in bands(simhash)
            # A copy: the sink's thread may be adding to it.
            for key, owner in list(self._buckets.get(prefix, {}).items())
        )

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        for bucket in self._buckets.values():
            yield from bucket.items()
