"""Questions to the ClickHouse tables of a workspace, from a program that need not be async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import orjson

from trawlnet.reading.arrow import pyarrow
from trawlnet.storage.workspace_format import check_formats
from trawlnet.tables.clickhouse.open import opened_to_read
from trawlnet.tables.clickhouse.server import ClickHouseServer

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader

T = TypeVar("T")
Wait = Callable[[Coroutine[Any, Any, T]], T]

_FOLDER = "tables"  # Of a workspace.


def query(where: str | Path | ClickHouseServer, sql: str) -> Iterator[dict[str, Any]]:
    """The rows of an answer, read while they are asked for. `where` is a workspace, whose
    tables another process may write meanwhile, or a server. Repeated rows count once. Raises
    UnknownFormat for the workspace of a newer version of trawlnet."""
    rest = b""
    for piece in _pieces(where, sql, "JSONEachRow"):
        *lines, rest = (rest + piece).split(b"\n")
        yield from map(orjson.loads, filter(None, lines))
    if rest:
        yield orjson.loads(rest)


def query_arrow(where: str | Path | ClickHouseServer, sql: str) -> RecordBatchReader:
    """The same as Arrow. An answer without rows has no columns."""
    pa = pyarrow()
    batches = _batches(pa, _Joined(_pieces(where, sql, "ArrowStream")))
    first = next(batches, None)
    schema = pa.schema([]) if first is None else first.schema
    every = _with(first, batches)
    reader: RecordBatchReader = pa.RecordBatchReader.from_batches(schema, every)
    return reader


def _with(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    if first is not None:
        yield first
        yield from others


def _batches(pa: Any, joined: _Joined) -> Iterator[Any]:
    """A server sends one stream; the embedded engine one for each piece."""
    while joined.has_more():
        yield from pa.ipc.open_stream(joined)


class _Joined:
    """Pieces as one file."""

    closed = False

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def has_more(self) -> bool:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._rest = piece
        return True

    def read(self, size: int = -1) -> bytes:
        found: list[bytes] = []
        while (size < 0 or size > 0) and self.has_more():
            piece = self._rest if size < 0 else self._rest[:size]
            self._rest = self._rest[len(piece) :]
            size -= len(piece) if size > 0 else 0
            found.append(piece)
        return b"".join(found)

    def close(self) -> None:
        """So that a reader of files accepts it."""


def _pieces(where: str | Path | ClickHouseServer, sql: str, layout: str) -> Iterator[bytes]:
    place = where if isinstance(where, ClickHouseServer) else _folder_of(Path(where))
    with _loop_beside() as wait:
        stack = AsyncExitStack()
        try:
            tables = wait(stack.enter_async_context(opened_to_read(place)))
            answer = cast(AsyncGenerator[bytes], tables.stream(sql.strip().rstrip(";"), layout))
            wait(stack.enter_async_context(aclosing(answer)))
            while (piece := wait(_next(answer))) is not None:
                yield piece
        finally:
            wait(stack.aclose())


async def _next(answer: AsyncGenerator[bytes]) -> bytes | None:
    return await anext(answer, None)


def _folder_of(workspace: Path) -> Path:
    check_formats(workspace)
    folder = workspace.resolve() / _FOLDER
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there are no tables in {workspace}: make some with `trawlnet repos plc` or "
            "`trawlnet repos replay`"
        )
    return folder


@contextmanager
def _loop_beside() -> Iterator[Wait[Any]]:
    """An event loop in a thread: the caller may run inside one, as cells of a notebook do."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="trawlnet-query", daemon=True)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
