"""Spans in Redis, for a ledger that another machine may take over; its one writer is fenced."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from redis import Redis, exceptions
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from trawlnet.stores.errors import StoreError
from trawlnet.stores.redis.scripts import (
    as_store_error,
    script_source,
    state_lost,
    without_password,
)
from trawlnet.stores.spans import Span, gathered, overlay

T = TypeVar("T")

_FORMAT: Final = "trawlnet spans 1"
_DIGITS: Final = 20  # Of the largest number that eight bytes hold.
_AT_ONCE: Final = 10_000  # Rows in one answer.
_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 15.0
_RECONNECTS: Final = 4  # With pauses of 0.2 s to 1 s, which bridges a restart of the server.


class SpanKeys:
    """Computes the new rows here, because no other process can change them: a writer whose `token`
    no longer owns the `lane` raises Fenced. Without a token the ledger is read-only. Every call
    raises StateLost if the keys are not those of the first call. The server's settings determine
    what "durable" means."""

    def __init__(self, url: str, prefix: str, *, lane: str = "", token: str = "") -> None:
        self._client: Any = Redis.from_url(
            url,
            retry=Retry(ExponentialBackoff(cap=1.0, base=0.1), _RECONNECTS),
            socket_connect_timeout=_CONNECT_SECONDS,
            socket_timeout=_ANSWER_SECONDS,
        )
        self._lay: Any = self._client.register_script(script_source("lay"))
        self._begin: Any = self._client.register_script(script_source("epoch"))
        self._where = without_password(url)
        self._prefix = prefix
        self._lane = lane
        self._token = token
        self._epoch = b""  # Of the keys at the first call; every call checks it.
        self._epoch = self._first_epoch()
        self._check_format()

    def write(
        self, spans: Sequence[Span], notes: Mapping[str, Any], stands: Container[str] = ()
    ) -> dict[str, int]:
        """Write in one script."""
        new = list(gathered(spans))
        before = self._touching(new)
        after = _Rows(before)
        for span in new:
            after.lay(span, stands)
        gone, fresh = before - after.spans(), after.spans() - before
        self._send(gone, fresh, notes)
        return _changes(gone, fresh)

    def notes(self, names: Sequence[str]) -> list[Any]:
        if not names:
            return []
        (found,) = self._look(lambda pipe: pipe.hmget(self._prefix + "notes", list(names)))
        return [None if one is None else json.loads(one) for one in found]

    def spans(self, after: int = 0, at_once: int = _AT_ONCE) -> Iterator[Span]:
        while rows := self._chunk(after, at_once):
            yield from rows
            after = rows[-1].end

    def count(self) -> int:
        (found,) = self._look(lambda pipe: pipe.zcard(self._prefix + "spans"))
        return int(found)

    def close(self) -> None:
        self._client.close()

    def _chunk(self, after: int, at_once: int) -> list[Span]:
        ((before, rows),) = self._read([(after, b"+", at_once)])
        return [span for span in (*before, *rows) if span.end > after][:at_once]

    def _touching(self, new: Sequence[Span]) -> set[Span]:
        wanted = [(span.start, b"[" + _number(span.end) + b"\xff", -1) for span in new]
        return {
            old
            for span, (before, rows) in zip(new, self._read(wanted), strict=True)
            for old in (*before, *rows)
            if old.end >= span.start
        }

    def _read(self, wanted: Sequence[tuple[int, bytes, int]]) -> list[tuple[list[Span], ...]]:
        """For each number, the last row that starts before it, and some of the following rows."""

        def add(pipe: Any) -> None:
            key = self._prefix + "spans"
            for start, last, most in wanted:
                at = _number(start)
                pipe.zrevrangebylex(key, b"(" + at, b"-", 0, 1)
                pipe.zrangebylex(key, b"[" + at, last, 0, most)

        found = [[_span(row) for row in rows] for rows in (self._look(add) if wanted else ())]
        return list(zip(found[::2], found[1::2], strict=True))

    def _look(self, add: Callable[[Any], object]) -> list[Any]:
        """The answers to read-only commands. Raises StateLost if the epoch has changed: an emptied
        server would look like an empty ledger."""

        def run() -> list[Any]:
            with self._client.pipeline(transaction=True) as pipe:
                pipe.get(self._prefix + "epoch")
                add(pipe)
                answers: list[Any] = pipe.execute()
            epoch = answers.pop(0)
            if self._epoch not in (b"", epoch):
                raise state_lost(self._where)
            return answers

        return self._ask(run)

    def _first_epoch(self) -> bytes:
        """The epoch of the keys; a writer creates it if there is none."""
        if self._token:
            nothing = msgspec.msgpack.encode(())
            begin = partial(self._begin, keys=[self._prefix], args=[nothing, self._token])
            return bytes(self._ask(begin))
        return bytes(self._ask(lambda: self._client.get(self._prefix + "epoch")) or b"")

    def _send(self, gone: Iterable[Span], fresh: Iterable[Span], notes: Mapping[str, Any]) -> None:
        if not self._token:
            raise StoreError(
                f"the ledger in Redis at {self._where} is open read-only",
                "let a crawl write: trawlnet ids crawl --store redis://HOST:PORT/0",
            )
        kept = [(k, json.dumps(v)) for k, v in notes.items() if v is not None]
        dropped = [name for name, value in notes.items() if value is None]
        rows = list(map(_row, gone)), list(map(_row, fresh))
        packed = msgspec.msgpack.encode((self._lane, *rows, kept, dropped))
        self._ask(lambda: self._lay(keys=[self._prefix], args=[packed, self._token, self._epoch]))

    def _check_format(self) -> None:
        (found,) = self.notes(["format"])
        if found is None and self._token:
            self.write((), {"format": _FORMAT})
        elif found not in (None, _FORMAT):
            raise StoreError(
                f"the keys {self._prefix}* are not a ledger of this version",
                "use the version of trawlnet that made them, or another Redis",
            )

    def _ask(self, run: Callable[[], T]) -> T:
        try:
            return run()
        except (exceptions.RedisError, OSError) as error:
            raise as_store_error(error, self._where, self._prefix) from error


class _Rows:
    """Sorted rows, updated while spans are laid over them one after the other."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._rows = sorted(spans)

    def lay(self, new: Span, stands: Container[str]) -> None:
        first = bisect_left(self._rows, new.start, key=lambda row: row.end)
        last = bisect_right(self._rows, new.end, key=lambda row: row.start)
        old = self._rows[first:last]
        del self._rows[first:last]
        for span in overlay(old, new, stands):
            insort(self._rows, span)

    def spans(self) -> set[Span]:
        return set(self._rows)


def _changes(gone: Iterable[Span], fresh: Iterable[Span]) -> dict[str, int]:
    changes: dict[str, int] = {}
    for sign, spans in ((-1, gone), (1, fresh)):
        for span in spans:
            changes[span.word] = changes.get(span.word, 0) + sign * (span.end - span.start)
    return changes


def _number(number: int) -> bytes:
    return f"{number:0{_DIGITS}d}".encode()


def _row(span: Span) -> str:
    return f"{span.start:0{_DIGITS}d} {span.end} {span.word}"


def _span(row: bytes) -> Span:
    start, end, word = row.split(b" ", 2)
    return Span(int(start), int(end), word.decode())
