"""One contract of keeping spans, in a file and in Redis; and what is refused to a former owner."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis as client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.servers import redis_server
from trawlnet.engine.partition import BUCKETS
from trawlnet.stores.errors import Fenced, StateLost, StoreError, StoreUnreachable
from trawlnet.stores.lmdb.spans import SpanFile
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word
from trawlnet.stores.redis.spans import SpanKeys
from trawlnet.stores.spans import Span, SpanStore

WORDS = ("done", "pending", "gap that nobody knows")
spans = st.builds(
    lambda start, length, word: Span(start, start + length, word),
    st.integers(0, 60),
    st.integers(1, 20),
    st.sampled_from(WORDS),
)
numbers = itertools.count()
Open = Callable[[str], SpanStore]


def claimed(url: str, prefix: str) -> str:
    """The token of a new owner, who has not waited for the one before."""

    async def run() -> str:
        keys = await FleetKeys.open(url, shard=0, prefix=prefix)
        plan = await keys.change(run=1, shards=1, word=Word.RUN)
        before = [f"s000-{number:08d}" for number in range(1, 10)]
        claim = await keys.claim(plan, range(BUCKETS), before, 60.0)
        assert claim and claim.granted
        await keys.close()
        return keys.token

    return asyncio.run(run())


@pytest.fixture(params=["lmdb", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "lmdb":
        return lambda name: SpanFile(tmp_path / name)
    url = request.getfixturevalue("redis").url

    def opened(name: str) -> SpanStore:
        prefix = f"{tmp_path.name}{name}:"
        return SpanKeys(url, prefix, lane="api", token=claimed(url, prefix))

    return opened


@contextmanager
def opened(make: Open, name: str = "a") -> Iterator[SpanStore]:
    with closing(make(name)) as store:
        yield store


def plain(laid: list[Span]) -> dict[int, str]:
    """Number by number; what is done stays so."""
    table: dict[int, str] = {}
    for span in laid:
        for number in range(span.start, span.end):
            if table.get(number) != "done":
                table[number] = span.word
    return table


@given(st.lists(st.lists(spans, max_size=8), max_size=5))
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_was_laid_is_there_and_its_lengths_are_told(
    make: Open, batches: list[list[Span]]
) -> None:
    with opened(make, f"-{next(numbers)}") as store:
        totals = dict.fromkeys(WORDS, 0)
        for batch in batches:
            for word, change in store.write(batch, {}, {"done"}).items():
                totals[word] += change
        stored, count = list(store.spans()), store.count()
        few = list(store.spans(0, 2))
    expected = plain([span for batch in batches for span in batch])
    assert {n: span.word for span in stored for n in range(span.start, span.end)} == expected
    assert all(one.end < two.start or one.word != two.word for one, two in _pairs(stored))
    assert few == stored == sorted(stored)
    assert count == len(stored)
    assert totals == {word: list(expected.values()).count(word) for word in WORDS}


def _pairs(spans: list[Span]) -> Iterator[tuple[Span, Span]]:
    return itertools.pairwise(spans)


def test_reading_starts_at_the_span_that_reaches_beyond_the_place(make: Open) -> None:
    with opened(make) as store:
        store.write([Span(10, 20, "done"), Span(20, 21, "gap"), Span(30, 40, "done")], {})
        assert list(store.spans(20)) == [Span(20, 21, "gap"), Span(30, 40, "done")]
        assert next(store.spans(15)) == Span(10, 20, "done")
        assert list(store.spans(40)) == []


def test_numbers_of_any_length_keep_their_order_and_their_digits(make: Open) -> None:
    large = 2**63 - 9
    laid = [Span(9, 10, "done"), Span(100, 101, "done"), Span(large, large + 5, "done é")]
    with opened(make) as store:
        store.write(laid, {})
        assert list(store.spans()) == laid
        assert list(store.spans(large + 4)) == laid[2:]


def test_notes_are_kept_changed_and_dropped(make: Open) -> None:
    with opened(make) as store:
        kept = {"first": 2**40, "row": [1, 0.5, "why é"], "counts": {"ok": 3}, "held": 1.25}
        store.write((), kept)
        assert store.notes([*kept, "none"]) == [*kept.values(), None]
        store.write([Span(1, 2, "done")], {"first": None, "held": 2.5})
        assert store.notes(["first", "held"]) == [None, 2.5]
        assert store.notes([]) == []


def test_a_former_owner_can_write_nothing_more(redis, tmp_path: Path) -> None:
    prefix = f"{tmp_path.name}:"
    with closing(SpanKeys(redis.url, prefix, lane="api", token=claimed(redis.url, prefix))) as old:
        old.write([Span(1, 5, "done")], {"first": 1})
        heir = SpanKeys(redis.url, prefix, lane="api", token=claimed(redis.url, prefix))
        with closing(heir):
            heir.write([Span(5, 6, "done")], {})
            with pytest.raises(Fenced):
                old.write([Span(6, 9, "done")], {"first": 2})
            with pytest.raises(Fenced):
                old.write((), {"first": None})
            assert list(heir.spans()) == [Span(1, 6, "done")]
            assert heir.notes(["first"]) == [1]


def test_a_server_that_was_emptied_is_no_empty_ledger() -> None:
    with redis_server() as server:
        keys = SpanKeys(server.url, "ids:", lane="api", token=claimed(server.url, "ids:"))
        with closing(keys), closing(SpanKeys(server.url, "ids:")) as looker:
            keys.write([Span(1, 5, "done")], {"first": 1})
            client.Redis.from_url(server.url).flushall()
            calls: list[Callable[[], object]] = [
                lambda: keys.write([Span(5, 6, "done")], {}),
                lambda: keys.write((), {"first": 7}),
                lambda: keys.notes(["first"]),
                lambda: list(keys.spans()),
                keys.count,
                lambda: list(looker.spans()),
            ]
            for call in calls:
                with pytest.raises(StateLost, match="lost"):
                    call()
            assert client.Redis.from_url(server.url).keys("*") == [], "nothing was written"


def test_a_ledger_that_another_began_on_an_emptied_server_is_not_written_to() -> None:
    with redis_server() as server:
        keys = SpanKeys(server.url, "ids:", lane="api", token=claimed(server.url, "ids:"))
        with closing(keys):
            keys.write([Span(1, 5, "done")], {"first": 1})
            client.Redis.from_url(server.url).flushall()
            token = claimed(server.url, "ids:")  # The same as ours: numbers begin anew, too.
            with closing(SpanKeys(server.url, "ids:", lane="api", token=token)) as other:
                other.write([Span(90, 91, "done")], {"first": 90})
                with pytest.raises(StateLost):
                    keys.write([Span(5, 6, "done")], {})
                with pytest.raises(StateLost):
                    keys.write((), {"first": 7})
                assert list(other.spans()) == [Span(90, 91, "done")]
                assert other.notes(["first"]) == [90]


def test_a_ledger_that_begins_while_one_looks_is_not_lost(redis, tmp_path: Path) -> None:
    prefix = f"{tmp_path.name}:"
    with closing(SpanKeys(redis.url, prefix)) as looker:
        token = claimed(redis.url, prefix)
        with closing(SpanKeys(redis.url, prefix, lane="api", token=token)) as keys:
            keys.write([Span(1, 2, "done")], {})
        assert list(looker.spans()) == [Span(1, 2, "done")]


def test_whoever_only_looks_writes_nothing(redis, tmp_path: Path) -> None:
    with closing(SpanKeys(redis.url, f"{tmp_path.name}:")) as looker:
        assert (list(looker.spans()), looker.count()) == ([], 0)
        with pytest.raises(StoreError, match="open read-only"):
            looker.write([Span(1, 2, "done")], {})


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(StoreUnreachable) as raised:
        SpanKeys("redis://:secret@127.0.0.1:1/0", "ids:")
    assert "127.0.0.1:1" in raised.value.message
    assert "secret" not in raised.value.message


def test_a_file_that_could_not_be_begun_is_not_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched, pytest.raises(OSError) as failure:
        patched.setattr(SpanFile, "_check_format", fails)
        SpanFile(tmp_path / "a")
    # Whoever holds the error holds all that was open when it came.
    assert failure.traceback
    with closing(SpanFile(tmp_path / "a")) as store:
        assert store.count() == 0
