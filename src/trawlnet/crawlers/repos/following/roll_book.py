"""Who was named by the listings that are read after a gap, and who was missing in them. Blocking.

Each of its transactions may be repeated: after a kill a page is read again, and a walk begins anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from trawlnet.stores.lmdb.notes import KEY_MAX, LmdbNotes
from trawlnet.stores.lmdb.rows import DIGEST_BYTES, digest

_SINCE = 8  # Bytes.
_LONGEST_LANE = 300  # Characters; no host has a longer name.


class RollBook:
    """Listings are told apart by the instant since which they compare: a later gap has a later
    one, so that a name from before it does not count for it."""

    def __init__(self, notes: LmdbNotes) -> None:
        self._notes = notes
        self._named = notes.table("named")  # Digest of a DID: newest listing that names it.
        self._whole = notes.table("whole")  # Lane: newest listing that was read to its end.
        self._missing = notes.table("missing")  # Digest of a lane and a DID: to be asked for.

    def name(self, dids: Iterable[str], since: int) -> None:
        """By the server that they live on."""
        packed = since.to_bytes(_SINCE, "big")
        with self._notes.writing(self._named) as txn:
            for key in map(digest, dids):
                if (txn.get(key) or b"") < packed:
                    txn.put(key, packed)

    def named(self, dids: Iterable[str]) -> dict[str, int]:
        """Since when the listing compares that named each; 0: none has."""
        with self._notes.reading(self._named) as txn:
            return {did: int.from_bytes(txn.get(digest(did)) or b"", "big") for did in dids}

    def end_listing(self, lanes: Mapping[str, int]) -> None:
        """All pages of these were read."""
        with self._notes.writing(self._whole) as txn:
            for lane, since in lanes.items():
                if len(lane) <= _LONGEST_LANE:
                    txn.put(lane.encode(), since.to_bytes(_SINCE, "big"))

    def whole(self) -> dict[str, int]:
        with self._notes.reading(self._whole) as txn:
            return {lane.decode(): int.from_bytes(since, "big") for lane, since in txn.cursor()}

    def begin_walk(self, lanes: Iterable[str]) -> None:
        """Who was missing there before, and was not asked for yet, is looked for again."""
        with self._notes.writing(self._missing) as txn:
            cursor = txn.cursor()
            for prefix in map(digest, lanes):
                while cursor.set_range(prefix) and cursor.key().startswith(prefix):
                    cursor.delete()

    def miss(self, dids: Iterable[tuple[str, str]]) -> None:
        """Lanes and DIDs."""
        with self._notes.writing(self._missing) as txn:
            for lane, did in dids:
                key = digest(lane) + did.encode()
                if len(key) <= KEY_MAX:
                    txn.put(key, b"")

    def end_walk(self, lanes: Mapping[str, int], *, is_last: bool) -> None:
        """The missing ones of these are written down. If no listing is under way, names have done
        their service."""
        with self._notes.writing(self._whole) as txn:
            for lane, since in lanes.items():
                if txn.get(lane.encode()) == since.to_bytes(_SINCE, "big"):
                    txn.delete(lane.encode())
            if is_last and not txn.stat(self._whole)["entries"]:
                txn.drop(self._named, delete=False)

    def missing(self, most: int) -> list[bytes]:
        """So many of each lane, as keys."""
        found: list[bytes] = []
        with self._notes.reading(self._missing) as txn:
            cursor = txn.cursor()
            is_there = cursor.first()
            while is_there:
                prefix = cursor.key()[:DIGEST_BYTES]
                keys = islice(cursor.iternext(keys=True, values=False), most)
                found += [key for key in keys if key.startswith(prefix)]
                is_there = cursor.set_range(prefix + b"\xff" * (KEY_MAX - DIGEST_BYTES))
        return found

    def forget(self, keys: Collection[bytes]) -> None:
        """They were asked for."""
        with self._notes.writing(self._missing) as txn:
            for key in keys:
                txn.delete(key)


def did_in(key: Any) -> str:
    return bytes(key[DIGEST_BYTES:]).decode()
