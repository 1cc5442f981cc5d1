"""The leases of an LMDB store, in memory: a crash of the only process ends them all."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator


class Leases:
    """Expiry by lane and key digest; one entry for each task in flight."""

    def __init__(self) -> None:
        self._lanes: dict[bytes, dict[bytes, float]] = {}

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes.values())

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return ((lane, key) for lane, keys in self._lanes.items() for key in keys)

    def has(self, lane: bytes, key: bytes) -> bool:
        return key in self._lanes.get(lane, ())

    def of(self, lane: bytes) -> Collection[bytes]:
        return self._lanes.get(lane, {}).keys()

    def put(self, lane: bytes, key: bytes, expiry: float) -> None:
        self._lanes.setdefault(lane, {})[key] = expiry

    def end(self, lane: bytes, key: bytes) -> None:
        keys = self._lanes.get(lane)
        if keys is not None and keys.pop(key, None) is not None and not keys:
            del self._lanes[lane]

    def expire(self, lane: bytes, now: float) -> None:
        keys = self._lanes.get(lane, {})
        for key in [key for key, expiry in keys.items() if expiry <= now]:
            self.end(lane, key)

    def first_expiry(self, lane: bytes) -> float:
        return min(self._lanes.get(lane, {}).values(), default=math.inf)

    def clear(self) -> None:
        self._lanes.clear()
