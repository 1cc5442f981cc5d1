"""The short way from a line of the directory's export to its row, for lines as most of them are.

Nearly every operation says the same few things in the same few fields, in the order in which the
directory's database keeps them. Such an operation is matched as a whole, and stored in the bytes
that it came in, for they are what writing it anew would give. Any other line, odd in whatever
respect, takes the long way (`operations`).
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from trawlnet.atproto.syntax import is_cid, is_did
from trawlnet.crawlers.atproto.instants import microseconds
from trawlnet.malformed import Malformed
from trawlnet.tables.clickhouse.plc import OperationRow
from trawlnet.webpage.origin import canonical_origin

_LONGEST_TEXT = 2048  # Characters; longer ones are cut, which the long way does.
_HANDLE = '"at://'
_TYPE: Final = "plc_operation"


class _NumberedLine(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["sequenced_op"]
    seq: int
    did: str
    operation: msgspec.Raw
    cid: str
    createdAt: str  # As the directory spells it.


class UsualLine(msgspec.Struct, gc=False):
    """One that says the usual things, be they true or not."""

    seq: int
    did: str
    cid: str
    created_at: str
    prev: str | None
    endpoint: str
    names: str  # The list of them, as JSON.
    signing_key: str
    written: bytes  # The operation.


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


def usual_line(text: bytes | str) -> UsualLine | None:
    """None for what is not usual, and for what is no line at all."""
    try:
        line = _decode_line(text)
        operation = str(line.operation, "ascii")
    except (msgspec.MsgspecError, ValueError):
        return None
    found = _match_operation(operation) if len(operation) <= _LONGEST_TEXT else None
    if found is None or not 0 < line.seq < 1 << 63:
        return None
    prev, endpoint, names, key = found.groups()
    written = bytes(line.operation)
    return UsualLine(
        line.seq, line.did, line.cid, line.createdAt, prev, endpoint, names, key, written
    )


def usual_row(usual: UsualLine, *, allow_private: bool) -> OperationRow:
    """Raises Malformed."""
    did, cid, prev = usual.did, usual.cid, usual.prev
    if not is_did(did) or not is_cid(cid) or not (prev is None or is_cid(prev)):
        raise Malformed("an export line with a did, cid or prev that is none")
    origin = canonical_origin(usual.endpoint, allow_private=allow_private)
    return OperationRow(
        did,
        cid,
        _TYPE,
        _handle(usual.names),
        origin.url,
        origin.refused,
        usual.signing_key,
        prev or "",
        usual.written,
        False,
        usual.seq,
        microseconds(usual.created_at),
    )


def _handle(names: str) -> str:
    """The first that is one. A quote begins or ends a name, and one that ends it has a comma or the
    end of the list behind it."""
    start = names.find(_HANDLE)
    if start < 0:
        return ""
    start += len(_HANDLE)
    return names[start : names.index('"', start)]
