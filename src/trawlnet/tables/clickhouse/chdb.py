"""Embedded tables: chDB, the ClickHouse engine inside this process, in a folder of the workspace.

chDB has one folder per process and one process per folder. A session that inserts while it is
asked something hangs for ever, so one thread of its own makes all calls, one after the other.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import orjson

from trawlnet.engine.durable import make_directory
from trawlnet.loading import load
from trawlnet.tables.clickhouse.ports import NO_PARAMETERS, Parameter, Query, statement
from trawlnet.tables.errors import TablesBusy, TablesError, TablesMissing, said

T = TypeVar("T")

_ROWS = "JSONCompactEachRow"
_LOCK = "trawlnet.lock"


class ChdbTables:
    def __init__(self, session: Any, lock: int) -> None:
        self._session = session
        self._lock = lock
        self._thread = ThreadPoolExecutor(1, "chdb")
        self._turn = asyncio.Lock()
        self._questions_only = False

    async def run(self, query: Query, parameters: Mapping[str, Parameter] = NO_PARAMETERS) -> None:
        await self._call(lambda: self._query(query.text, parameters))

    async def rows(
        self, query: Query, parameters: Mapping[str, Parameter] = NO_PARAMETERS
    ) -> list[list[Any]]:
        body = await self._call(lambda: self._query(query.text, parameters))
        return [orjson.loads(line) for line in body.split(b"\n") if line]

    async def insert(self, query: Query, block: bytes) -> None:
        await self._call(lambda: self._insert(query.text, block))

    async def stream(self, sql: str, layout: str) -> AsyncIterator[bytes]:
        """In a session that is for questions alone from then on."""
        if why := refusal(sql):
            raise TablesError(f"query refused: {why}", _REFUSED_HINT)
        async with self._turn:
            await self._threaded(self._take_questions_only)
            if is_answered_at_once(sql):
                yield await self._threaded(lambda: self._answer(sql, layout))
                return
            results = await self._threaded(lambda: self._send(sql, layout))
            try:
                while (piece := await self._threaded(lambda: _next_piece(results))) is not None:
                    yield piece
            finally:
                await self._threaded(results.close)

    async def close(self) -> None:
        await self._call(self._session.close)
        self._thread.shutdown()
        os.close(self._lock)

    async def _call(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await self._threaded(work)

    async def _threaded(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _query(self, sql: str, parameters: Mapping[str, Parameter]) -> bytes:
        given = {name: _written(value) for name, value in parameters.items()}
        try:
            result = self._session.query(sql, _ROWS, params=given)
        except RuntimeError as error:
            raise TablesError(f"the query failed: {said(error)}", _HINT) from error
        return bytes(result.bytes()) if result is not None else b""

    def _insert(self, sql: str, block: bytes) -> None:
        try:
            with self._session.send_insert(sql, "Native") as inserter:
                inserter.append(block)
                inserter.finish()
        except RuntimeError as error:
            raise TablesError(f"the insert failed: {said(error)}", _HINT) from error

    def _take_questions_only(self) -> None:
        if not self._questions_only:
            self._session.query(statement("set_final").text)
            # Nothing that a question says leads out of the tables, or changes them.
            self._session.query(statement("set_readonly").text)
            self._questions_only = True

    def _answer(self, sql: str, layout: str) -> bytes:
        try:
            return bytes(self._session.query(sql, layout).bytes() or b"")
        except RuntimeError as error:
            raise _own_trouble(error) from error

    def _send(self, sql: str, layout: str) -> Any:
        try:
            return self._session.send_query(sql, layout)
        except RuntimeError as error:
            if _NO_STREAM in str(error):
                raise TablesError(_NO_QUESTION, _OWN_HINT) from error
            raise _own_trouble(error) from error


_NO_STREAM = "Streaming query is not supported"
_NO_QUESTION = "only queries that read are allowed: SELECT, WITH, SHOW, DESCRIBE, EXPLAIN, EXISTS"
_READONLY = "(READONLY)"
_TABLES_ALONE = "of these tables alone, without file(), url(), s3() and such, and without SETTINGS"
_REFUSED_HINT = (
    "write to a file that is not there yet (INTO OUTFILE 'new.parquet' FORMAT Parquet); to join "
    "other data, read that file with a ClickHouse of your own"
)
_HINT = "check that the disk has room; what was stored before is safe"
_OWN_HINT = "see what is there: SHOW TABLES, or DESCRIBE TABLE repo_records"


def _own_trouble(error: RuntimeError) -> TablesError:
    if _READONLY in str(error):
        return TablesError(f"{_NO_QUESTION}; {_TABLES_ALONE}", _REFUSED_HINT)
    return TablesError(said(error), _OWN_HINT)


async def open_chdb(folder: Path) -> ChdbTables:
    """Raises TablesBusy when another process has the folder."""
    # Not in a thread: while chDB is imported, the working folder is another one for everybody.
    session_at = _session_type()
    return await asyncio.to_thread(_open, folder, session_at)


def _open(folder: Path, session_at: Any) -> ChdbTables:
    make_directory(folder)
    lock = _take(folder)
    try:
        session = session_at(str(folder))
        session.query(statement("set_plain_numbers").text)
    except RuntimeError as error:
        os.close(lock)
        raise TablesError(f"cannot open the tables in {folder}: {said(error)}", _HINT) from error
    return ChdbTables(session, lock)


def _session_type() -> Any:
    """Imported here: a fifth of a second that only who needs it pays. Half as much again and 40 MB
    would go to pyarrow, which chDB imports if it can, and which nothing here asks it for."""
    is_hidden = "pyarrow" not in sys.modules
    if is_hidden:
        cast(dict[str, Any], sys.modules)["pyarrow"] = None
    try:
        return load("chdb.session:Session")
    except ImportError:
        raise TablesMissing(
            "the embedded ClickHouse is not installed",
            "pip install 'trawlnet[clickhouse]', or name a server: --clickhouse-address",
        ) from None
    finally:
        if is_hidden:
            del sys.modules["pyarrow"]


def _take(folder: Path) -> int:
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise TablesBusy(
            f"the tables in {folder} are in use by pid {pid}",
            "wait, stop that process, or share a server: --clickhouse-address",
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _next_piece(results: Any) -> bytes | None:
    try:
        piece = results.fetch()
    except RuntimeError as error:
        raise _own_trouble(error) from error
    return None if piece is None else bytes(piece.bytes())


def _written(value: Parameter) -> str:
    """A parameter as ClickHouse parses it: escaped, and quoted inside of a list."""
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    if isinstance(value, Sequence):
        return "[" + ",".join(f"'{one.translate(_QUOTED_ESCAPES)}'" for one in value) + "]"
    return str(value)


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"})
_QUOTED_ESCAPES = _ESCAPES | str.maketrans({"'": "\\'"})


# The engine in this process has the user's rights on every file and host. `readonly` closes what
# changes tables and every table function that leaves them; what it does not close is refused below.

# chDB streams results of SELECT alone; and a file that a stream writes is left without its end.
_SHORT_ANSWERS: Final = ("DESC", "DESCRIBE", "EXISTS", "EXPLAIN", "SHOW")
_COMMENT: Final = r"--[^\n]*|\#[ !][^\n]*|/\*.*?\*/"
_TEXT: Final = r"'(?:\\.|[^'\\])*'"
_NAME: Final = r'"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`'
_COMMENTS_AND_TEXTS: Final = re.compile(f"{_COMMENT}|{_TEXT}|({_NAME})", re.DOTALL)
_NAMES: Final = re.compile(_NAME, re.DOTALL)
_INTO_FILE: Final = re.compile(r"\bINTO\s+OUTFILE\b", re.IGNORECASE)
_CHANGES_FILE: Final = re.compile(r"\bOUTFILE\s+(?:AND\s+STDOUT\s+)?(?:TRUNCATE|APPEND)\b", re.I)
# The function of one row; the table function of that name `readonly` refuses.
_READS_FILE: Final = re.compile(r"""(?<![\w$])(?:file|"file"|`file`)\s*\(""")
_ESCAPED_CALL: Final = re.compile(rf"(?:{_NAME})\s*\(", re.DOTALL)


def is_answered_at_once(sql: str) -> bool:
    """Whether the answer is short, or goes to a file: such a one does not come piece by piece."""
    words = _NAMES.sub(" ", _without_texts(sql))
    first = words.split(None, 1)[:1]
    return first[0].upper() in _SHORT_ANSWERS or bool(_INTO_FILE.search(words)) if first else False


def refusal(sql: str) -> str:
    """Why the statement is not given to the engine; empty if it is."""
    words = _without_texts(sql)
    if _CHANGES_FILE.search(_NAMES.sub(" ", words)):
        return "INTO OUTFILE writes new files only, without TRUNCATE and APPEND"
    if _READS_FILE.search(words):
        return "file() reads what is not in the tables"
    if any("\\" in call for call in _ESCAPED_CALL.findall(words)):
        return "the name of a function is written with an escape"
    return ""


def _without_texts(sql: str) -> str:
    return _COMMENTS_AND_TEXTS.sub(lambda found: found[1] or " ", sql)
