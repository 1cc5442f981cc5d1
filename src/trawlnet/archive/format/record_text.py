"""One record as the JSON text that archives hold, outside of any archive."""

from __future__ import annotations

from trawlnet.archive.format.content import DROP_REASONS, DropReason
from trawlnet.archive.format.json_plain import RecordDropped, record_json
from trawlnet.native.loader import native


def record_text(record: bytes, *, keep_cids: bool = True) -> bytes | DropReason:
    """The JSON of a record's DAG-CBOR, or why it has none."""
    if native is None:
        return record_text_plain(record, keep_cids=keep_cids)
    found: bytes | int = native.record_json(record, keep_cids)
    return DROP_REASONS[found - 1] if isinstance(found, int) else found


def record_text_plain(record: bytes, *, keep_cids: bool = True) -> bytes | DropReason:
    try:
        return record_json(record, keep_cids=keep_cids)
    except RecordDropped as dropped:
        return dropped.reason
