"""From a line of the directory's export to a row, and from a batch of rows to what they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from trawlnet.atproto.identity.instants import microseconds
from trawlnet.atproto.identity.plc import LogEntry, Operation, PlcState, parse_log_line, state_after
from trawlnet.atproto.identity.plc_chain import ChainLink, fold_links
from trawlnet.atproto.syntax import is_cid, is_did
from trawlnet.malformed import Malformed
from trawlnet.tables.clickhouse.plc_rows import is_row, link_of, new_row
from trawlnet.tables.clickhouse.plc_rows_plain import OperationRow, OriginOf
from trawlnet.webpage.origin import canonical_origin

_LONGEST_TEXT = 2048  # Characters of a handle, a key, a type: what the protocol allows a DID.
_REMEMBERED = 1 << 15  # Endpoints; the whole network has some 16,000 servers.
UNREADABLE = "unreadable"  # The operation says nothing that we understand about its services.


def read_line(row: Any, *, allow_private: bool) -> OperationRow:
    """One line of an export, after JSON. Raises Malformed."""
    if is_row(row):
        usual: OperationRow = row
        return usual
    entry = parse_log_line(row)
    prev = entry.operation.get("prev")
    if not is_did(entry.did) or not is_cid(entry.cid) or not (prev is None or _is_link(prev)):
        raise Malformed("an export line with an invalid did, cid or prev")
    if entry.seq is not None and not 0 < entry.seq < 1 << 63:
        raise Malformed("an export line with an impossible seq")
    state = _state(entry)
    verification = (state.verification_methods or {}) if state else {}
    origin, refused = _endpoint(state, entry.operation, allow_private)
    return new_row(
        did=entry.did,
        cid=entry.cid,
        operation_type=_clipped(entry.operation.get("type")),
        handle=_handle(state),
        pds=origin,
        pds_refused=refused,
        signing_key=_clipped(verification.get("atproto")),
        prev=prev or "",
        operation_json=_json(entry.operation),
        nullified=bool(entry.nullified),
        seq=entry.seq or 0,
        time_us=microseconds(entry.created_at),
    )


def used_origins(*, allow_private: bool) -> OriginOf:
    """What makes origins of the endpoints of usual lines."""
    return _any_origin if allow_private else _public_origin


@lru_cache(_REMEMBERED)
def _public_origin(endpoint: str) -> tuple[str, str]:
    return _used_origin(endpoint, allow_private=False)


@lru_cache(_REMEMBERED)
def _any_origin(endpoint: str) -> tuple[str, str]:
    return _used_origin(endpoint, allow_private=True)


def _used_origin(written: str, *, allow_private: bool) -> tuple[str, str]:
    """And why there is none."""
    origin = canonical_origin(written, allow_private=allow_private)
    return origin.url, str(origin.refused)


def _state(entry: LogEntry) -> PlcState | None:
    """None for an operation that we cannot read: the directory took it, so it counts."""
    try:
        return state_after(entry.did, entry.operation)
    except Malformed:
        return None


def _endpoint(state: PlcState | None, operation: Operation, allow_private: bool) -> tuple[str, str]:
    if state is None:
        return "", UNREADABLE
    if state.tombstoned or state.pds is None:
        return "", ""  # No endpoint is nothing to refuse.
    # A first form of the operation had the scheme left out; whatever was written counts.
    written = operation["service"] if operation.get("type") == "create" else state.pds
    return _used_origin(written, allow_private=allow_private)


def _json(operation: Operation) -> bytes:
    try:
        return orjson.dumps(operation)
    except TypeError:  # Nested deeper than can be written, though not than can be read.
        raise Malformed("an operation that cannot be written as JSON") from None


def _handle(state: PlcState | None) -> str:
    for name in state.also_known_as if state else ():
        if name.startswith("at://"):
            return name.removeprefix("at://")[:_LONGEST_TEXT]
    return ""


def _clipped(value: Any) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""


def _is_link(value: Any) -> bool:
    return isinstance(value, str) and is_cid(value)


@dataclass(slots=True)
class TableChanges:
    """What a batch means for the tables, besides its own rows."""

    heads: list[OperationRow] = field(default_factory=list)  # New states.
    undone: list[tuple[str, str]] = field(default_factory=list)  # Stored before: DID and CID.
    orphans: int = 0


@dataclass(slots=True)
class Chains:
    """A batch by DID, as far as its rows tell."""

    first: dict[str, str] = field(default_factory=dict)  # What the first operation builds on.
    newest: dict[str, OperationRow] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)  # CIDs of the newest.
    odd: set[str] = field(default_factory=set)  # DIDs whose operations do not follow one another.

    def add(self, rows: Iterable[OperationRow]) -> None:
        first, newest, heads, odd = self.first, self.newest, self.heads, self.odd
        for row in rows:
            did, prev = row.did, row.prev
            before = heads.get(did)
            if before is None:
                first[did] = prev
            elif before != prev:
                odd.add(did)
            if row.nullified:
                odd.add(did)
            newest[did] = row
            heads[did] = row.cid

    def building_on(self) -> list[str]:
        """The DIDs whose operations build on stored ones."""
        return [did for did, prev in self.first.items() if prev]

    def plain_heads(self, stored: Mapping[str, str]) -> list[OperationRow]:
        """The newest of each DID whose operations simply follow one another and the stored head.
        Every other chain forks, repeats or has a hole: it is odd from now on, and all of it must
        be looked at."""
        for did, prev in self.first.items():
            if prev and prev != stored.get(did, ""):
                self.odd.add(did)
        return [row for did, row in self.newest.items() if did not in self.odd]

    def odd_groups(self, rows: Iterable[OperationRow]) -> dict[str, list[OperationRow]]:
        groups: dict[str, list[OperationRow]] = {did: [] for did in self.odd}
        if groups:
            for row in rows:
                if row.did in groups:
                    groups[row.did].append(row)
        return groups


def fold(
    groups: Mapping[str, Sequence[OperationRow]], stored: Mapping[str, Sequence[ChainLink]]
) -> TableChanges:
    """For DIDs whose chain is not plain. Rows of the batch that turn out undone are marked."""
    changes = TableChanges()
    for did, group in groups.items():
        rows = {row.cid: row for row in group}
        before = {link.cid: link for link in stored.get(did, ())}
        links = before | {
            row.cid: link_of(row)._replace(nullified=row.nullified or _is_undone(row.cid, before))
            for row in group
        }
        chain = fold_links(links.values())
        for row in group:
            row.nullified = row.cid in chain.nullified
        changes.undone += [
            (did, cid)
            for cid, link in before.items()
            if cid in chain.nullified and not link.nullified
        ]
        changes.orphans += chain.orphans
        # A head out of an earlier batch has its state stored already.
        if chain.head in rows:
            changes.heads.append(rows[chain.head])
    return changes


def _is_undone(cid: str, stored: Mapping[str, ChainLink]) -> bool:
    """What was known to be undone stays so, even if the export tells the operation as new."""
    return cid in stored and stored[cid].nullified
