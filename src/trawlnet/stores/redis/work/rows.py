"""The formats of tasks, receipts and failures in the Redis scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from trawlnet.engine.outcome import Again, Reason, Receipt
from trawlnet.engine.ports import Failure
from trawlnet.engine.task import Task
from trawlnet.stores.fence import CounterDelta
from trawlnet.stores.packing import clean_detail, pack_payload, text_bytes, unpack_payload

_NO_NEWS = CounterDelta()


def packed_task(task: Task) -> list[Any]:
    """A task in the format of the scripts; see row_of in shared.lua."""
    text_bytes(task.key)
    text_bytes(task.lane)
    return [
        task.key,
        task.lane,
        repr(float(task.score)),
        repr(float(task.due)),
        int(task.due > 0.0),
        str(task.attempt),
        str(task.waits),
        _lua_string(pack_payload(task)),
    ]


def packed_receipt(receipt: Receipt[CounterDelta], part: str) -> list[Any]:
    news = receipt.news or _NO_NEWS
    return [
        packed_task(receipt.task),
        receipt.reason,
        receipt.reason.success,
        False if receipt.next is None else packed_task(receipt.next),
        [packed_task(task) for task in receipt.found],
        clean_detail(receipt.detail),
        repr(float(receipt.at)),
        part,
        list(news.counts.items()),
        receipt.reason.again is Again.NEVER,
        list(news.left_out.items()),
    ]


def _lua_string(data: bytes) -> msgspec.Raw:
    # Redis's decoder has no binary type, but accepts any bytes in a string, so mark them as one.
    return msgspec.Raw(b"\xdb" + len(data).to_bytes(4, "big") + data)


def task_of(
    key: bytes, lane: bytes, payload: bytes, due: bytes, score: bytes, attempt: bytes, waits: bytes
) -> Task:
    return Task(
        key.decode(),
        lane.decode(),
        unpack_payload(payload),
        float(due),
        float(score),
        int(attempt),
        int(waits),
    )


def failure_of(
    reason: Reason, key: bytes, lane: bytes, detail: bytes, attempt: bytes, at: bytes
) -> Failure:
    return Failure(key.decode(), lane.decode(), reason, detail.decode(), int(attempt), float(at))


def key_of(member: str) -> str:
    return member.partition(":")[2]


def by_reason(flat: Sequence[bytes]) -> dict[Reason, int]:
    words = zip(flat[::2], flat[1::2], strict=True)
    return {Reason(word.decode()): int(number) for word, number in words}
