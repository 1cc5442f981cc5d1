"""The mirror of the PLC directory as tables: operations, DIDs, and how far it has come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from trawlnet.atproto.identity.plc_chain import ChainLink
from trawlnet.tables.clickhouse import native
from trawlnet.tables.clickhouse.native import NativeColumn
from trawlnet.tables.clickhouse.plc_rows import columns, order_of
from trawlnet.tables.clickhouse.plc_rows_plain import OperationRow
from trawlnet.tables.clickhouse.ports import Tables, statement

T = TypeVar("T")

TOMBSTONE = "plc_tombstone"
_MIRROR = "plc"
_SHARED = ("did", "cid", "operation_type", "handle", "pds", "pds_refused", "signing_key")
_OPERATION = (*_SHARED, "prev", "operation_json", "nullified", "seq", "time_us")
_STATE = (*_SHARED, "seq", "time_us")
# A parameter of this many DIDs stays well below what a server takes in one field (128 KB).
_LOOKUP = 2000
_LISTS = ("first", "second", "third", "fourth")  # Of one look-up of heads.


class DidRow(NamedTuple):
    """A DID that a crawl can visit."""

    did: str
    pds: str
    signing_key: str


@dataclass(frozen=True, slots=True)
class DidState:
    did: str
    pds: str  # Empty: none, refused, or tombstoned.
    signing_key: str
    handle: str
    tombstoned: bool


@dataclass(frozen=True, slots=True)
class Cursor:
    source: str  # URL of the directory.
    form: str  # `seq` or `time`.
    position: int  # A sequence number, or microseconds.


async def insert_operations(tables: Tables, rows: list[OperationRow]) -> None:
    await _insert(
        tables, "insert_plc_operations", _with_instants(columns(rows, _OPERATION)), len(rows)
    )


async def insert_states(tables: Tables, heads: list[OperationRow]) -> None:
    states = _with_instants(columns(heads, _STATE))
    states += [
        native.switches("tombstoned", [row.operation_type == TOMBSTONE for row in heads]),
        native.naturals("version", [order_of(row) for row in heads]),
    ]
    await _insert(tables, "insert_plc_did_state", states, len(heads))


def _with_instants(found: list[NativeColumn]) -> list[NativeColumn]:
    """And `created_at`, which is `time_us` by another type."""
    (times,) = (column.data for column in found if column.name == "time_us")
    return [*found, NativeColumn("created_at", native.INSTANT, times)]


async def nullify(tables: Tables, undone: Sequence[tuple[str, str]]) -> None:
    """Mark stored operations, told by DID and CID, as undone."""
    for chunk in _chunks(undone):
        dids, cids = sorted({did for did, _ in chunk}), [cid for _, cid in chunk]
        await tables.run(statement("nullify_operations"), {"dids": dids, "cids": cids})


async def heads(tables: Tables, dids: Collection[str]) -> dict[str, str]:
    """The CID of the newest operation of each DID that is known."""
    found: dict[str, str] = {}
    chunks = _chunks(dids)
    while lists := list(islice(chunks, len(_LISTS))):
        given: dict[str, list[str]] = {name: [] for name in _LISTS}
        given |= dict(zip(_LISTS, lists, strict=False))
        rows: Any = await tables.rows(statement("plc_heads"), given)
        found |= dict(rows)
    return found


async def links(tables: Tables, dids: Collection[str]) -> dict[str, list[ChainLink]]:
    """All that is stored about these DIDs."""
    found: dict[str, list[ChainLink]] = {did: [] for did in dids}
    for chunk in _chunks(dids):
        for did, cid, prev, order, nullified in await tables.rows(
            statement("plc_links"), {"dids": chunk}
        ):
            found[did].append(ChainLink(cid, prev, order, bool(nullified)))
    return found


async def did_states(tables: Tables, dids: Collection[str]) -> dict[str, DidState]:
    """What these DIDs stand for; one that the directory does not have is not among them."""
    found: dict[str, DidState] = {}
    for chunk in _chunks(dids):
        for did, pds, key, handle, tombstoned in await tables.rows(
            statement("plc_states"), {"dids": chunk}
        ):
            found[did] = DidState(did, pds, key, handle, bool(tombstoned))
    return found


async def signing_keys(tables: Tables, dids: Collection[str]) -> dict[str, list[str]]:
    """The keys that these DIDs have or have had; none for one that the directory does not have."""
    found: dict[str, list[str]] = {did: [] for did in dids}
    for chunk in _chunks(dids):
        for did, key in await tables.rows(statement("plc_keys"), {"dids": chunk}):
            found[did].append(key)
    return found


async def did_pages(
    tables: Tables,
    after: str = "",
    page_size: int = 50_000,
    skip_pds: Collection[str] = (),
    buckets: Collection[int] = (),
) -> AsyncIterator[list[DidRow]]:
    """Every DID that has a PDS, in the order of DIDs, beyond `after`; no page is empty.

    `skip_pds` are origins as the mirror writes them; `buckets` are those of the lanes wanted,
    and none means all."""
    while True:
        ((last,),) = await tables.rows(
            statement("plc_did_page_end"), {"after": after, "size": page_size}
        )
        if not last:
            return
        page: dict[str, Any] = {"after": after, "last": last}
        page |= {"skip": sorted(skip_pds), "buckets": sorted(map(str, buckets))}
        found = await tables.rows(statement("plc_did_page"), page)
        if found:
            yield [DidRow(*row) for row in found]
        after = last


async def unhoused(tables: Tables, after: str, last: str, most: int) -> list[tuple[str, str]]:
    """DIDs beyond `after`, up to and with `last`, that have no PDS to visit: `tombstoned`, `none`,
    or why the endpoint of their document is not used."""
    bounds: dict[str, str | int] = {"after": after, "last": last, "most": most}
    return [(did, why) for did, why in await tables.rows(statement("plc_unhoused"), bounds)]


async def load_cursor(tables: Tables) -> Cursor | None:
    rows = await tables.rows(statement("mirror_cursor"), {"name": _MIRROR})
    return Cursor(*rows[0]) if rows else None


async def save_cursor(tables: Tables, cursor: Cursor) -> None:
    await tables.run(
        statement("save_mirror_cursor"),
        {
            "name": _MIRROR,
            "source": cursor.source,
            "form": cursor.form,
            "position": cursor.position,
        },
    )


async def mirror_counts(tables: Tables) -> Mapping[str, int]:
    """Of the whole mirror, not of one run."""
    (counts,) = await tables.rows(statement("plc_counts"))
    names = ("operations", "nullified", "dids", "tombstoned", "with_pds", "pds")
    return dict(zip(names, counts, strict=True))


async def refusals(tables: Tables) -> dict[str, int]:
    """How many DIDs name an endpoint that is not used, by reason."""
    return dict(await tables.rows(statement("plc_refusals")))


async def endpoints(tables: Tables) -> dict[str, int]:
    """The servers that DIDs live on now, with how many do."""
    return dict(await tables.rows(statement("plc_endpoints")))


async def refused_endpoints(tables: Tables) -> dict[str, int]:
    """How many different endpoints are not used, by why."""
    return dict(await tables.rows(statement("plc_refused_endpoints")))


async def _insert(tables: Tables, name: str, cells: Sequence[NativeColumn], rows: int) -> None:
    if rows:
        await tables.insert(statement(name), native.block(cells, rows))


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, _LOOKUP)):
        yield chunk
