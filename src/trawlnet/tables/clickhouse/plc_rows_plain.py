"""Operations of the PLC directory as rows, in plain Python: the twin of `native/plc/`.

Nearly every operation says the same few things in the same few fields, in the order in which the
directory's database keeps them. Such an operation is matched as a whole, and stored in the bytes
that it came in, for they are what writing it anew would give.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec

from trawlnet.atproto.identity.instants import microseconds
from trawlnet.atproto.syntax import is_cid, is_did
from trawlnet.malformed import Malformed
from trawlnet.tables.clickhouse import native
from trawlnet.tables.clickhouse.native import NativeColumn

# Gives the origin that an endpoint names, and why there is none.
OriginOf = Callable[[str], tuple[str, str]]

_LONGEST_TEXT = 2048  # Characters; longer ones are cut, which the long way does.
_HANDLE = '"at://'
_TYPE: Final = "plc_operation"


class OperationRow(msgspec.Struct, gc=False):
    """One operation; also, when it is the newest that stands, the state of its DID. The garbage
    collector would look at each of a batch, and none can be part of a circle."""

    did: str
    cid: str
    operation_type: str
    handle: str
    pds: str
    pds_refused: str
    signing_key: str
    prev: str
    operation_json: bytes
    nullified: bool
    seq: int
    time_us: int


class _NumberedLine(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["sequenced_op"]
    seq: int
    did: str
    operation: msgspec.Raw
    cid: str
    createdAt: str  # As the directory spells it.


_decode_line = msgspec.json.Decoder(_NumberedLine).decode
# Characters that JSON writes as they are, in one byte each: a text of these has one spelling only.
# No repetition gives back what it took, so that a line costs the same however it ends.
_TEXT = r"[ !#-\[\]-~]*+"
_TEXTS = rf'\[(?:"{_TEXT}"(?:,"{_TEXT}")*+)?+\]'
_match_operation = re.compile(
    rf'{{"sig":"{_TEXT}","prev":(?:null|"({_TEXT})"),"type":"{_TYPE}",'
    rf'"services":{{"atproto_pds":{{"type":"{_TEXT}","endpoint":"({_TEXT})"}}}},'
    rf'"alsoKnownAs":({_TEXTS}),"rotationKeys":{_TEXTS},'
    rf'"verificationMethods":{{"atproto":"({_TEXT})"}}}}'
).fullmatch


def usual_row(line: bytes | str, origin_of: OriginOf) -> OperationRow | None:
    """None for what is not usual, and for what is no line at all."""
    try:
        found = _decode_line(line)
        operation = str(found.operation, "ascii")
        time_us = microseconds(found.createdAt)
    except (msgspec.MsgspecError, ValueError, Malformed):
        return None
    match = _match_operation(operation) if len(operation) <= _LONGEST_TEXT else None
    if match is None or not 0 < found.seq < 1 << 63:
        return None
    prev, endpoint, names, key = match.groups()
    if not is_did(found.did) or not is_cid(found.cid) or not (prev is None or is_cid(prev)):
        return None
    return OperationRow(
        found.did,
        found.cid,
        _TYPE,
        _handle(names),
        *origin_of(endpoint),
        key,
        prev or "",
        bytes(found.operation),
        False,
        found.seq,
        time_us,
    )


def _handle(names: str) -> str:
    """The first that is one. A quote begins or ends a name, and one that ends it has a comma or the
    end of the list behind it."""
    start = names.find(_HANDLE)
    if start < 0:
        return ""
    start += len(_HANDLE)
    return names[start : names.index('"', start)]


_WRITERS: Final[dict[str, Callable[[str, list[Any]], NativeColumn]]] = {
    "operation_json": native.raw_texts,
    "nullified": native.switches,
    "seq": native.naturals,
    "time_us": native.integers,
}


def columns(rows: list[OperationRow], names: Sequence[str]) -> list[NativeColumn]:
    """These fields of the rows."""
    return [
        _WRITERS.get(name, native.texts)(name, [getattr(row, name) for row in rows])
        for name in names
    ]
