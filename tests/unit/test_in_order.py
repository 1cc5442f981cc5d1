"""A long listing in order, of which little is in memory at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from trawlnet.cli.common.in_order import by_key
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Failure


async def each(failures: Sequence[Failure]) -> AsyncIterator[Failure]:
    for failure in failures:
        yield failure


async def listed(failures: Sequence[Failure], run: int) -> list[Failure]:
    return [failure async for failure in by_key(each(failures), run)]


def failure(key: str, attempt: int = 1) -> Failure:
    return Failure(key, "a.example", Reason.TIMEOUT, "no \u2028 answer\n", attempt, 12.5)


@given(st.lists(st.text(alphabet="ab\u00e9\U0001f600", max_size=3)), st.integers(1, 5))
def test_failures_are_listed_by_key_each_as_often_as_it_is_there(keys: list[str], run: int) -> None:
    failures = [failure(key, number) for number, key in enumerate(keys)]
    # Those of one key stay in the order in which they came.
    assert asyncio.run(listed(failures, run)) == sorted(failures, key=lambda one: one.key)


def test_more_runs_than_files_may_be_open_are_merged_in_between() -> None:
    failures = [failure(f"{number * 7 % 1009:04d}") for number in range(1009)]
    assert asyncio.run(listed(failures, 3)) == sorted(failures, key=lambda one: one.key)
