"""The short way from a line of the directory's export to its row, for lines as most of them are.

Nearly every operation says the same few things in the same few fields. Such a line is decoded into
just these, and its operation is stored in the bytes that it came in, for they are what writing it
anew would give. Any other line, odd in whatever respect, takes the long way (`operations`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from trawlnet.atproto.syntax import is_cid, is_did
from trawlnet.crawlers.atproto.instants import microseconds
from trawlnet.malformed import Malformed
from trawlnet.tables.clickhouse.plc import OperationRow
from trawlnet.webpage.origin import canonical_origin

_LONGEST_TEXT = 2048  # Characters; longer ones are cut, which the long way does.
_HANDLE = "at://"
_TYPE: Literal["plc_operation"] = "plc_operation"


class _NumberedLine(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["sequenced_op"]
    seq: int
    did: str
    operation: msgspec.Raw
    cid: str
    createdAt: str  # As the directory spells it.


class _UsualPds(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: str
    endpoint: str


class _UsualServices(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    atproto_pds: _UsualPds


class _UsualKeys(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    atproto: str


class _UsualOperation(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    sig: str
    prev: str | None
    type: Literal["plc_operation"]
    services: _UsualServices
    alsoKnownAs: list[str]
    rotationKeys: list[str]
    verificationMethods: _UsualKeys


class UsualLine(NamedTuple):
    """One that says the usual things, be they true or not."""

    line: _NumberedLine
    operation: _UsualOperation
    written: bytes  # The operation.

    @property
    def seq(self) -> int:
        return self.line.seq


_decode_line = msgspec.json.Decoder(_NumberedLine).decode
_decode_operation = msgspec.json.Decoder(_UsualOperation).decode
# Bytes of an operation whose texts are empty, whose lists are, and whose `prev` is null.
_FRAME = len(
    msgspec.json.encode(
        _UsualOperation("", None, _TYPE, _UsualServices(_UsualPds("", "")), [], [], _UsualKeys(""))
    )
)
_NULL = len("null")
_QUOTES = 2


def usual_line(text: bytes | str) -> UsualLine | None:
    """None for what is not usual, and for what is no line at all."""
    try:
        line = _decode_line(text)
        operation = _decode_operation(line.operation)
    except (msgspec.MsgspecError, ValueError):
        return None
    written = bytes(line.operation)
    is_plain = len(written) == _length(operation) and len(written) <= _LONGEST_TEXT
    return UsualLine(line, operation, written) if is_plain and 0 < line.seq < 1 << 63 else None


def usual_row(usual: UsualLine, *, allow_private: bool) -> OperationRow:
    """Raises Malformed."""
    line, operation, written = usual
    prev = operation.prev
    if not is_did(line.did) or not is_cid(line.cid) or not (prev is None or is_cid(prev)):
        raise Malformed("an export line with a did, cid or prev that is none")
    origin = canonical_origin(operation.services.atproto_pds.endpoint, allow_private=allow_private)
    return OperationRow(
        line.did,
        line.cid,
        _TYPE,
        _handle(operation.alsoKnownAs),
        origin.url,
        origin.refused.value,
        operation.verificationMethods.atproto,
        prev or "",
        written,
        False,
        line.seq,
        microseconds(line.createdAt),
    )


def _length(operation: _UsualOperation) -> int:
    """Bytes that it has when it is written without a blank, an escape, or a field that stands
    twice. Each of these makes it longer, and so does every letter that is not ASCII."""
    prev, names, keys = operation.prev, operation.alsoKnownAs, operation.rotationKeys
    pds = operation.services.atproto_pds
    size = _FRAME + len(operation.sig) + len(pds.type) + len(pds.endpoint)
    size += len(operation.verificationMethods.atproto)
    if prev is not None:
        size += len(prev) + _QUOTES - _NULL
    for texts in (names, keys):
        if texts:
            size += sum(map(len, texts)) + (_QUOTES + 1) * len(texts) - 1
    return size


def _handle(names: list[str]) -> str:
    for name in names:
        if name.startswith(_HANDLE):
            return name[len(_HANDLE) :]
    return ""
