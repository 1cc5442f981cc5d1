"""From the records of an archive back to CIDs, tree and root: the plain twin of the C code."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from trawlnet.archive.format import rca
from trawlnet.archive.format.json_cbor_plain import record_cbor
from trawlnet.archive.format.json_plain import RecordDropped, record_json
from trawlnet.archive.format.proof import (
    ExceptionKind,
    ProofException,
    SumsMaker,
    iter_exceptions,
)
from trawlnet.atproto.cbor_items import SHA256_LINK
from trawlnet.atproto.repository.node_plain import MAX_KEY
from trawlnet.atproto.repository.tree_maker_plain import TreeMaker
from trawlnet.atproto.varint import encode_varint
from trawlnet.malformed import Malformed


class CollectionEntries(NamedTuple):
    name: bytes
    records: int
    entries: bytes  # As in an archive, unpacked.


class Recomputed(NamedTuple):
    """What records and exceptions give."""

    records: int
    root: bytes  # Digest of the tree's root.
    sums: bytes
    digests: bytes  # Of the records, one behind the other; empty if nobody asked for them.
    car: bytes  # Frames of records and nodes; empty if nobody asked for them.


class Unprovable(Malformed):
    """There is no such repository."""

    def __init__(self, what: str, record: int) -> None:
        super().__init__(what)
        self.record = record  # The one that is wrong, or before which something is.


def recompute(
    collections: Sequence[CollectionEntries], exceptions: bytes, *, digests: bool, car: bool
) -> Recomputed:
    """`collections` come in the order of the tree. Raises Unprovable."""
    making = _Making(digests, car)
    try:
        making.take(collections, deque(iter_exceptions(exceptions)))
        return making.finish()
    except (Malformed, RecordDropped) as error:
        raise Unprovable(str(error), making.records) from None


class _Making:
    def __init__(self, digests: bool, car: bool) -> None:
        self.records = 0
        self._tree = TreeMaker()
        self._sums = SumsMaker()
        self._wants_digests, self._wants_car = digests, car
        self._digests = bytearray()
        self._car = bytearray()
        self._last = b""

    def take(
        self, collections: Sequence[CollectionEntries], exceptions: deque[ProofException]
    ) -> None:
        for path, json in _records(collections):
            own = self._before_record(exceptions)
            self._check_key(path)
            data = record_cbor(json) if own is None else _same(own, json)
            self._add(path, data)
        if self._before_record(exceptions) is not None or exceptions:
            raise Malformed("exceptions behind the last record")

    def finish(self) -> Recomputed:
        root = self._tree.finish()
        if self._wants_car:
            for digest, node in self._tree.nodes:
                self._car += car_frame(digest, node)
        return Recomputed(
            self.records, root, self._sums.finish(), bytes(self._digests), bytes(self._car)
        )

    def _before_record(self, exceptions: deque[ProofException]) -> bytes | None:
        """All exceptions before the next record; its own bytes, if there are any."""
        while exceptions and exceptions[0].place == self.records:
            kind, _, data, path, layer = exceptions.popleft()
            if kind is ExceptionKind.RECORD:
                return data
            if kind is ExceptionKind.LEFT_OUT:
                self._check_key(path)
                self._tree.add(path, data)
            elif kind is ExceptionKind.SUBTREE:
                self._tree.add_subtree(layer, data)
            elif kind >= ExceptionKind.DELETED:
                raise Malformed("an exception of a kind that is not known")
        return None

    def _check_key(self, key: bytes) -> None:
        if not key or len(key) > MAX_KEY:
            raise Malformed("a key of no length that one can have")
        if key <= self._last:
            raise Malformed("keys are out of order")
        self._last = key

    def _add(self, path: bytes, data: bytes) -> None:
        digest = sha256(data).digest()
        self._tree.add(path, SHA256_LINK + digest)
        self._sums.add(digest)
        self.records += 1
        if self._wants_digests:
            self._digests += digest
        if self._wants_car:
            self._car += car_frame(digest, data)


def _records(collections: Sequence[CollectionEntries]) -> Iterator[tuple[bytes, bytes]]:
    for name, count, entries in collections:
        for rkey, json in rca.iter_records(entries, count):
            yield name + b"/" + rkey.encode(), json


def _same(own: bytes, json: bytes) -> bytes:
    if record_json(own, keep_cids=True) != json:
        raise Malformed("its JSON is not that of its bytes")
    return own


def car_frame(digest: bytes, data: bytes) -> bytes:
    return encode_varint(36 + len(data)) + SHA256_LINK + digest + data
