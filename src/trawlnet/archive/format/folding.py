"""A repository as of now: a full block, and what deltas have changed in it since.

Pure: blocks in, state out. Deltas may come in any order, twice, or with one missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import groupby
from typing import NamedTuple

from trawlnet.archive.format import rca
from trawlnet.archive.format.json_cbor_plain import gives_back, record_cbor
from trawlnet.archive.format.proof import (
    ExceptionKind,
    Proof,
    ProofException,
    SumsMaker,
    encode_exceptions,
    encode_proof,
    iter_exceptions,
    parse_proof,
    tree_name,
)
from trawlnet.archive.format.proving import recompute
from trawlnet.archive.format.proving_plain import CollectionEntries, Unprovable
from trawlnet.archive.format.record_text import record_text
from trawlnet.atproto.cbor_items import SHA256_LINK

NO_LINK = "a delta of rev {rev} that changes {since}, and {have} is there"
_DIGEST = 32

Compress = Callable[[bytes], bytes]


class StateRecord(NamedTuple):
    cid: bytes
    json: bytes
    own: bytes | None = None  # Its bytes, where the JSON does not give them.

    @property
    def data(self) -> bytes:
        """DAG-CBOR."""
        return record_cbor(self.json) if self.own is None else self.own


@dataclass(frozen=True, slots=True)
class ArchivedState:
    did: str
    pds: str
    rev: str
    crawled_at_us: int
    key: bytes
    signature: bytes
    records: Mapping[bytes, StateRecord]  # By path, in the order of the tree.
    left_out: Mapping[bytes, bytes] = field(default_factory=dict)  # CIDs, by path.
    is_pruned: bool = False  # Of parts of the tree no more is known than a digest, or nothing.
    commit: bytes = b""  # If it is not of the usual form.
    nodes: Sequence[bytes] = ()  # If the tree is not.
    since: str = ""  # Of a delta, whose records are those that it changes.
    deleted: Sequence[bytes] = ()  # Paths that a delta takes away.
    incomplete: str = ""  # Why later deltas could not be folded in.


def make_delta(
    before: tuple[str, str],
    revision: tuple[str, int],
    signed: tuple[bytes, bytes],
    *,
    since: str,
    changed: Mapping[str, bytes],
    deleted: Collection[str] = (),
    commit: bytes = b"",
    is_partial: bool = False,
) -> ArchivedState:
    """What one or more commits have changed: `before` is DID and PDS, `revision` the new rev and
    when it came, `signed` key and signature of the newest commit, `changed` DAG-CBOR by path. It
    is partial if any commit since that rev has changed a record that is in none of these."""
    texts: dict[bytes, tuple[bytes, bytes]] = {}
    left_out: dict[bytes, bytes] = {}
    for path, data in sorted((path.encode(), data) for path, data in changed.items()):
        json = record_text(data)
        if isinstance(json, bytes):
            texts[path] = json, data
        else:
            left_out[path] = SHA256_LINK + sha256(data).digest()
    gone = tuple(sorted(path.encode() for path in deleted))
    return ArchivedState(
        *before,
        *revision,
        *signed,
        _with_own_bytes(texts),
        left_out,
        is_partial,
        commit=commit,
        since=since,
        deleted=gone,
    )


def _with_own_bytes(texts: Mapping[bytes, tuple[bytes, bytes]]) -> dict[bytes, StateRecord]:
    """From JSON and DAG-CBOR, in the order of the tree."""
    made: list[bytes] = []
    try:
        found = recompute(
            _entries((path, json) for path, (json, _) in texts.items()), b"", digests=True
        )
        made = _cids(found.digests)
    except Unprovable:
        pass  # One of them gives no record by itself; then each is looked at.
    records = {}
    for number, (path, (json, data)) in enumerate(texts.items()):
        cid = SHA256_LINK + sha256(data).digest()
        same = made[number] == cid if made else gives_back(json, data)
        records[path] = StateRecord(cid, json, None if same else data)
    return records


def _entries(records: Iterable[tuple[bytes, bytes]]) -> list[CollectionEntries]:
    """Paths and JSON in the order of the tree, as an archive has them before they are packed."""
    found = []
    for name, group in groupby(records, key=lambda one: one[0].partition(b"/")[0]):
        entries, count = bytearray(), 0
        for path, json in group:
            rkey = path[len(name) + 1 :]
            entries += len(rkey).to_bytes(2, "little") + rkey
            entries += len(json).to_bytes(4, "little") + json
            count += 1
        found.append(CollectionEntries(name, count, bytes(entries)))
    return found


def _cids(digests: bytes) -> list[bytes]:
    return [SHA256_LINK + digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST)]


def encode_state(state: ArchivedState, compress: Compress) -> bytes:
    """The block of a repository, or of a delta if there is a `since`. One that was pruned cannot be
    proven any more: what stood where is not known."""
    sums = SumsMaker()
    for record in state.records.values():
        sums.add(record.cid[-_DIGEST:])
    exceptions = encode_exceptions(list(_exceptions(state)))
    proof = Proof(state.key, state.signature, sums.finish(), exceptions)
    packed = [
        rca.PackedCollection(name.decode(), count, compress(entries))
        for name, count, entries in _entries(
            (path, record.json) for path, record in state.records.items()
        )
    ]
    return rca.encode_block(
        state.did,
        state.pds,
        state.rev,
        state.crawled_at_us,
        packed,
        encode_proof(proof, compress),
        state.since or None,
    )


def _exceptions(state: ArchivedState) -> list[ProofException]:
    """In the order of the tree; those that stand at no place of it come first and last."""
    found = []
    if state.is_pruned:
        found.append(ProofException(ExceptionKind.UNSEEN, 0, b""))
    if state.commit:
        found.append(ProofException(ExceptionKind.COMMIT, 0, state.commit))
    places = {path: place for place, path in enumerate(state.records)}
    keys = list(places)
    within = [
        (place, path, ProofException(ExceptionKind.RECORD, place, record.own))
        for (path, record), place in zip(state.records.items(), places.values(), strict=True)
        if record.own is not None
    ]
    for path, cid in state.left_out.items():
        place = _before(keys, path)
        within.append((place, path, ProofException(ExceptionKind.LEFT_OUT, place, cid, path)))
    for path in state.deleted:
        place = _before(keys, path)
        within.append((place, path, ProofException(ExceptionKind.DELETED, place, b"", path)))
    found += (one for _, _, one in sorted(within, key=lambda row: row[:2]))
    last = len(state.records)
    found += (ProofException(ExceptionKind.NODE, last, node) for node in state.nodes)
    return found


def _before(keys: Sequence[bytes], path: bytes) -> int:
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < path:
            low = middle + 1
        else:
            high = middle
    return low


def parse_state(block: bytes) -> ArchivedState:
    """What a full block or a delta says. Raises RcaError, its place counted from the start of the
    block, for one that is damaged or holds no proof."""
    head = rca.check_block(block)
    if head.form is rca.Form.FIRST:
        raise rca.RcaError(4, "a block of version 1 cannot be changed by deltas")
    total = sum(one.records for one in head.collections)
    proof = parse_proof(block[head.proof_start :], total)
    exceptions = list(iter_exceptions(proof.exceptions))
    collections = [
        CollectionEntries(one.name.encode(), one.records, rca.decompress(block, one))
        for one in sorted(head.collections, key=lambda one: tree_name(one.name))
    ]
    own = [one for one in exceptions if one.kind is ExceptionKind.RECORD]
    records = dict(_records(collections, own))
    return ArchivedState(
        head.did,
        head.pds,
        head.rev,
        head.crawled_at_us,
        proof.key,
        proof.signature,
        records,
        {one.path: one.data for one in exceptions if one.kind is ExceptionKind.LEFT_OUT},
        any(one.kind in _UNKNOWN for one in exceptions),
        b"".join(one.data for one in exceptions if one.kind is ExceptionKind.COMMIT),
        tuple(one.data for one in exceptions if one.kind is ExceptionKind.NODE),
        head.since,
        tuple(one.path for one in exceptions if one.kind is ExceptionKind.DELETED),
    )


_UNKNOWN = (ExceptionKind.SUBTREE, ExceptionKind.UNSEEN)


def _records(
    collections: Sequence[CollectionEntries], own: Sequence[ProofException]
) -> Iterator[tuple[bytes, StateRecord]]:
    try:
        found = recompute(collections, encode_exceptions(list(own)), digests=True)
    except Unprovable as error:
        raise rca.RcaError(0, f"record {error.record} gives none: {error}") from None
    kept = {one.place: one.data for one in own}
    cids = _cids(found.digests)
    number = 0
    for name, count, entries in collections:
        for rkey, json in rca.iter_records(entries, count):
            path = name + b"/" + rkey.encode()
            yield path, StateRecord(cids[number], json, kept.get(number))
            number += 1


def fold(full: ArchivedState, deltas: Sequence[ArchivedState]) -> ArchivedState:
    """The state behind the last delta that fits. A delta has all that has changed since its own
    `since`, so that it fits every rev from there on. One that is not newer was folded in before;
    one that changes a later revision than what is there leaves the state incomplete."""
    records, left_out = dict(full.records), dict(full.left_out)
    newest, at_us, is_pruned = full, full.crawled_at_us, full.is_pruned
    missing: list[ArchivedState] = []
    for delta in sorted(deltas, key=lambda one: one.rev):
        if delta.rev <= newest.rev:
            continue
        if delta.since > newest.rev:
            missing.append(delta)
            continue
        for path in delta.deleted:
            records.pop(path, None)
            left_out.pop(path, None)
        for path, record in delta.records.items():
            records[path] = record
            left_out.pop(path, None)
        for path, cid in delta.left_out.items():
            left_out[path] = cid
            records.pop(path, None)
        newest, is_pruned = delta, is_pruned or delta.is_pruned
        # Later than what it replaces, whatever the clock has done: tables keep the latest.
        at_us = max(delta.crawled_at_us, at_us + 1)
    broken = [one for one in missing if one.rev > newest.rev]
    incomplete = broken and NO_LINK.format(
        rev=broken[0].rev, since=broken[0].since, have=newest.rev
    )
    if newest is full:
        return replace(full, incomplete=incomplete or "")
    return ArchivedState(
        full.did,
        newest.pds,
        newest.rev,
        at_us,
        newest.key,
        newest.signature,
        dict(sorted(records.items())),
        dict(sorted(left_out.items())),
        commit=newest.commit,
        is_pruned=is_pruned,
        incomplete=incomplete or "",
    )
