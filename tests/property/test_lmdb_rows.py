"""The bytes of the LMDB store sort as the numbers they stand for, and come back unchanged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trawlnet.engine.outcome import Reason
from trawlnet.engine.task import Task
from trawlnet.stores.lmdb.rows import (
    PendingPlace,
    RowState,
    failed_key,
    failed_prefix,
    failed_reason,
    number_of,
    ordered,
    pack_row,
    seq_bytes,
    unpack_row,
)

numbers = st.floats(allow_nan=False)
words = st.integers(0, 2**63 - 1)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | numbers
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(numbers, numbers)
def test_ordered_bytes_sort_as_numbers_do(one: float, other: float) -> None:
    assert (ordered(one) < ordered(other)) == (one < other)
    assert (ordered(one) == ordered(other)) == (one == other)
    assert number_of(ordered(one)) == one


@given(
    st.sampled_from([RowState.READY, RowState.LATER, RowState.SCHEDULED]), words, numbers, numbers
)
def test_an_entry_tells_its_place(state: RowState, seq: int, due: float, score: float) -> None:
    task = Task("key", "lane", due=due, score=score)
    place = PendingPlace.of(state, b"\0\0\0\7", seq_bytes(seq), task)
    assert PendingPlace.parse(place.entry()) == place


@given(st.text(), st.text(), plain, numbers, numbers, words, words)
def test_a_row_gives_back_its_task(
    key: str, lane: str, payload: object, due: float, score: float, attempt: int, waits: int
) -> None:
    task = Task(key, lane, payload, due, score, attempt, waits)
    assert unpack_row(pack_row(task)).task() == task


@given(st.sampled_from(Reason), st.sampled_from(Reason), st.binary(min_size=16, max_size=16))
def test_a_failure_is_filed_under_its_reason_only(
    reason: Reason, other: Reason, key_digest: bytes
) -> None:
    filed = failed_key(reason, key_digest)
    assert failed_reason(filed) is reason
    assert filed.startswith(failed_prefix(other)) == (reason is other)
