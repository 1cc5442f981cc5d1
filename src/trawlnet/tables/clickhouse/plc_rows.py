"""Operations of the PLC directory as rows: of a compiled type, which keeps cells as columns do and
reads most lines of an export by itself, or of its plain twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from trawlnet.atproto.identity.plc_chain import ChainLink
from trawlnet.native import loader
from trawlnet.tables.clickhouse import plc_rows_plain
from trawlnet.tables.clickhouse.native import NativeColumn
from trawlnet.tables.clickhouse.plc_rows_plain import OperationRow, OriginOf

_compiled: Any = None if loader.native is None else loader.native.OperationRow
new_row: Final[type[OperationRow]] = _compiled or OperationRow
# The row of a line of the numbered export, if it says the usual things in the usual fields, as
# nearly all do; it is what the long way makes of that line.
usual_row: Final[Callable[[bytes | str, OriginOf], OperationRow | None]] = (
    plc_rows_plain.usual_row if _compiled is None else _compiled.of_line
)

_FIELDS: Final = OperationRow.__struct_fields__  # Numbered in this order by the compiled type.
_KINDS: Final = {"nullified": "UInt8", "seq": "UInt64", "time_us": "Int64"}


def is_row(value: Any) -> bool:
    return type(value) is new_row


def order_of(row: OperationRow) -> int:
    """Its place in the directory's log: a sequence number or an instant."""
    return row.seq or row.time_us


def link_of(row: OperationRow) -> ChainLink:
    return ChainLink(row.cid, row.prev, order_of(row), row.nullified)


def columns(rows: list[OperationRow], names: Sequence[str]) -> list[NativeColumn]:
    """These fields of the rows."""
    if _compiled is None:
        return plc_rows_plain.columns(rows, names)
    cells = _compiled.columns(rows, bytes(map(_FIELDS.index, names)))
    return [
        NativeColumn(name, _KINDS.get(name, "String"), data)
        for name, data in zip(names, cells, strict=True)
    ]
