"""The byte formats of the LMDB store: keys, queue positions and rows."""

from __future__ import annotations

import struct
from enum import IntEnum
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Failure
from trawlnet.engine.task import Task
from trawlnet.stores.packing import clean_detail, pack_payload, text_bytes

DIGEST_BYTES: Final = 16
LANE_BYTES: Final = 4
SEQ_BYTES: Final = 8


class RowState(IntEnum):
    """The state of a key in the table `rows`; the numbers are on disk."""

    SETTLED = 0
    READY = 1  # Open, never delayed: in the queue `ready`, by score.
    LATER = 2  # Open, delayed: in the queue `later`, by due time.
    SCHEDULED = 3  # Succeeded, with a later visit: in the queue `later`, too.


SETTLED_ENTRY: Final = bytes([RowState.SETTLED])


class TaskRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A task in a queue or among the failures."""

    key: str
    lane: str
    payload: Any
    due: float
    score: float
    attempt: int
    waits: int
    detail: str = ""  # Of the last attempt.
    at: float = 0.0

    def task(self) -> Task:
        return Task(
            self.key, self.lane, self.payload, self.due, self.score, self.attempt, self.waits
        )

    def failure(self, reason: Reason) -> Failure:
        return Failure(self.key, self.lane, reason, self.detail, self.attempt, self.at)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(TaskRow)


def digest(key: str) -> bytes:
    """A fixed-length digest of a key or lane name: LMDB keys have at most 511 bytes."""
    try:
        return blake2b(key.encode(), digest_size=DIGEST_BYTES).digest()
    except UnicodeEncodeError:
        return blake2b(text_bytes(key), digest_size=DIGEST_BYTES).digest()


def pack_row(task: Task, receipt: Receipt[object] | None = None) -> bytes:
    """A task as bytes, with the result of its last attempt."""
    text_bytes(task.lane)
    return _encoder.encode(
        TaskRow(
            task.key,
            task.lane,
            msgspec.Raw(pack_payload(task)),
            float(task.due),
            float(task.score),
            task.attempt,
            task.waits,
            "" if receipt is None else clean_detail(receipt.detail),
            0.0 if receipt is None else float(receipt.at),
        )
    )


def repack_row(row: TaskRow, **changes: Any) -> bytes:
    return _encoder.encode(msgspec.structs.replace(row, **changes))


def unpack_row(packed: bytes) -> TaskRow:
    return _decoder.decode(packed)


class PendingPlace(NamedTuple):
    """The place of a pending key: its entry in `rows`, and its position in a queue."""

    state: RowState
    lane: bytes  # The lane's number, as the prefix of its positions.
    seq: bytes  # Order of arrival; a key keeps it for life.
    score: float
    position: bytes

    @classmethod
    def of(cls, state: RowState, lane: bytes, seq: bytes, task: Task | TaskRow) -> PendingPlace:
        order = task.score if state is RowState.READY else task.due
        return cls(state, lane, seq, task.score, lane + ordered(order) + seq)

    @classmethod
    def parse(cls, entry: bytes) -> PendingPlace:
        (score,) = _DOUBLE.unpack_from(entry, _SCORE_AT)
        position = entry[1:_SCORE_AT]
        return cls(
            RowState(entry[0]), position[:LANE_BYTES], position[-SEQ_BYTES:], score, position
        )

    def entry(self) -> bytes:
        return bytes([self.state]) + self.position + _DOUBLE.pack(self.score)


def ordered(number: float) -> bytes:
    """Eight bytes that sort like the numbers."""
    # Adding zero turns -0.0 into 0.0: equal numbers must be equal bytes.
    (bits,) = _WORD.unpack(_DOUBLE.pack(number + 0.0))
    return _WORD.pack(bits ^ _ALL_BITS if bits & _SIGN_BIT else bits | _SIGN_BIT)


def number_of(eight: bytes) -> float:
    """The inverse of `ordered`."""
    (bits,) = _WORD.unpack(eight)
    bits = bits ^ _SIGN_BIT if bits & _SIGN_BIT else bits ^ _ALL_BITS
    return float(_DOUBLE.unpack(_WORD.pack(bits))[0])


def seq_bytes(seq: int) -> bytes:
    return _WORD.pack(seq)


def order_of(position: bytes) -> float:
    """The sort value of a position: a score in the queue `ready`, a due time in `later`."""
    return number_of(position[LANE_BYTES:-SEQ_BYTES])


def failed_key(reason: Reason, key_digest: bytes) -> bytes:
    return failed_prefix(reason) + key_digest


def failed_prefix(reason: Reason | None) -> bytes:
    return b"" if reason is None else reason.value.encode() + b"\0"


def failed_reason(key: bytes) -> Reason:
    return Reason(key[: -DIGEST_BYTES - 1].decode())


_DOUBLE: Final = struct.Struct(">d")
_WORD: Final = struct.Struct(">Q")
_SIGN_BIT: Final = 1 << 63
_ALL_BITS: Final = (1 << 64) - 1
_SCORE_AT: Final = 1 + LANE_BYTES + 8 + SEQ_BYTES
