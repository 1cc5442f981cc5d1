"""A repository as of now: a full block, and what deltas have changed in it since.

Pure: blocks in, state out. Deltas may come in any order, twice, or with one missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

from trawlnet.archive.format import rca
from trawlnet.archive.format.cbor_plain import SHA256_LINK
from trawlnet.archive.format.json_cbor_plain import gives_back, record_cbor
from trawlnet.archive.format.json_plain import RecordDropped, record_json
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
from trawlnet.malformed import Malformed

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
    is_pruned: bool = False  # Of parts of the tree only digests were kept.
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
) -> ArchivedState:
    """What one or more commits have changed: `before` is DID and PDS, `revision` the new rev and
    when it came, `signed` key and signature of the newest commit, `changed` DAG-CBOR by path."""
    records: dict[bytes, StateRecord] = {}
    left_out: dict[bytes, bytes] = {}
    for path, data in sorted(changed.items(), key=lambda item: item[0].encode()):
        cid = SHA256_LINK + sha256(data).digest()
        try:
            json = record_json(data, keep_cids=True)
        except RecordDropped:
            left_out[path.encode()] = cid
            continue
        own = None if gives_back(json, data) else data
        records[path.encode()] = StateRecord(cid, json, own)
    gone = tuple(sorted(path.encode() for path in deleted))
    return ArchivedState(
        *before, *revision, *signed, records, left_out, commit=commit, since=since, deleted=gone
    )


def encode_state(state: ArchivedState, compress: Compress) -> bytes:
    """The block of a repository, or of a delta if there is a `since`. One that was pruned cannot be
    proven any more: what stood where is not known."""
    collections: dict[str, bytearray] = {}
    counts: dict[str, int] = {}
    sums = SumsMaker()
    for path, record in state.records.items():
        name, _, rkey = path.decode().partition("/")
        entries = collections.setdefault(name, bytearray())
        counts[name] = counts.get(name, 0) + 1
        entries += len(rkey).to_bytes(2, "little") + rkey.encode()
        entries += len(record.json).to_bytes(4, "little") + record.json
        sums.add(record.cid[-32:])
    exceptions = encode_exceptions(list(_exceptions(state)))
    proof = Proof(state.key, state.signature, sums.finish(), exceptions)
    packed = [
        rca.PackedCollection(name, counts[name], compress(bytes(entries)))
        for name, entries in collections.items()
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
    own = {one.place: one.data for one in exceptions if one.kind is ExceptionKind.RECORD}
    records: dict[bytes, StateRecord] = {}
    for collection in sorted(head.collections, key=lambda one: tree_name(one.name)):
        for rkey, json in rca.iter_records(rca.decompress(block, collection), collection.records):
            bytes_of_it = own.get(len(records))
            try:
                data = record_cbor(json) if bytes_of_it is None else bytes_of_it
            except Malformed as error:
                raise rca.RcaError(collection.start, f"{collection.name}/{rkey}: {error}") from None
            cid = SHA256_LINK + sha256(data).digest()
            path = tree_name(collection.name) + rkey.encode()
            records[path] = StateRecord(cid, json, bytes_of_it)
    return ArchivedState(
        head.did,
        head.pds,
        head.rev,
        head.crawled_at_us,
        proof.key,
        proof.signature,
        records,
        {one.path: one.data for one in exceptions if one.kind is ExceptionKind.LEFT_OUT},
        any(one.kind is ExceptionKind.SUBTREE for one in exceptions),
        b"".join(one.data for one in exceptions if one.kind is ExceptionKind.COMMIT),
        tuple(one.data for one in exceptions if one.kind is ExceptionKind.NODE),
        head.since,
        tuple(one.path for one in exceptions if one.kind is ExceptionKind.DELETED),
    )


def fold(full: ArchivedState, deltas: Sequence[ArchivedState]) -> ArchivedState:
    """The state behind the last delta that fits. One that is not newer was folded in before; one
    that changes another revision leaves the state incomplete, and so do all behind it."""
    records, left_out = dict(full.records), dict(full.left_out)
    newest, incomplete = full, ""
    for delta in sorted(deltas, key=lambda one: one.rev):
        if delta.rev <= newest.rev:
            continue
        if delta.since != newest.rev:
            incomplete = f"rev {delta.rev} changes {delta.since}, and {newest.rev} is there"
            break
        for path in delta.deleted:
            records.pop(path, None)
            left_out.pop(path, None)
        for path, record in delta.records.items():
            records[path] = record
            left_out.pop(path, None)
        for path, cid in delta.left_out.items():
            left_out[path] = cid
            records.pop(path, None)
        newest = delta
    if newest is full:
        return replace(full, incomplete=incomplete)
    return ArchivedState(
        full.did,
        newest.pds,
        newest.rev,
        newest.crawled_at_us,
        newest.key,
        newest.signature,
        dict(sorted(records.items())),
        dict(sorted(left_out.items())),
        commit=newest.commit,
        is_pruned=full.is_pruned,
        incomplete=incomplete,
    )
