"""Structured logs of a run: JSON lines in the workspace, short warnings to people, all bounded."""

from __future__ import annotations

import fcntl
import json
import logging
import logging.handlers
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from trawlnet.engine.durable import make_directory
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Handler
from trawlnet.engine.task import Task
from trawlnet.net.redact import HIDDEN, is_secret, redact
from trawlnet.observe.lanes import shown


@dataclass(frozen=True, slots=True)
class LogLimits:
    file_bytes: int = 50 << 20  # Size at which the file is rotated.
    rotated: int = 3  # Older files of one run that stay.
    runs: int = 20  # Runs of one crawler whose files stay.
    per_kind: int = 100  # Lines of one event per minute; the rest is counted.
    value_chars: int = 500
    trace_chars: int = 4000


@contextmanager
def logging_to(
    folder: Path, name: str, say: Callable[[str], None], limits: LogLimits | None = None
) -> Iterator[Path]:
    """Log to `name`.log in the folder; warnings go to `say`, too, as one short line each.

    The name is `<crawler>-<run>`, where runs sort by age. Deletes the logs of all but the latest
    runs and those in progress.
    """
    limits = limits or LogLimits()
    make_directory(folder)
    _forget_old_runs(folder, name, limits.runs)
    path = folder / f"{name}.log"
    with _handled_by(_RunHandler(_LogFile(path, say, limits), say, limits), logging.INFO):
        yield path


@contextmanager
def warnings_to(say: Callable[[str], None]) -> Iterator[None]:
    """Show warnings of a command that writes no log, like those of one that does."""
    with _handled_by(_RunHandler(logging.NullHandler(), say, LogLimits()), logging.WARNING):
        yield


def log_to_stderr() -> None:
    """Log JSON lines to stderr, for a process whose stderr is saved."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines(LogLimits()))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


@contextmanager
def _handled_by(handler: logging.Handler, level: int) -> Iterator[None]:
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    root.handlers[:] = [handler]
    root.setLevel(level)
    try:
        yield
    finally:
        root.setLevel(before[0])
        root.handlers[:] = before[1]
        handler.close()


def _forget_old_runs(folder: Path, name: str, keep: int) -> None:
    logs = sorted(folder.glob(f"{name.rpartition('-')[0]}-*.log"))
    for path in logs[: max(0, len(logs) - keep + 1)]:
        if not _is_written(path):
            for part in [path, *folder.glob(f"{path.name}.*")]:
                part.unlink(missing_ok=True)


def _is_written(path: Path) -> bool:
    """Whether a process logs to it now: twenty short runs may begin and end beside a long one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


class _JsonLines(logging.Formatter):
    """One object for each record. Every value is cut, so that a server's text cannot make an
    endless line."""

    def __init__(self, limits: LogLimits) -> None:
        super().__init__()
        self._limits = limits

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "event": _message(record),
            "logger": record.name,
            "level": record.levelname.lower(),
        }
        # Fields with a leading underscore belong to libraries: Ray adds one to every record.
        extra = [n for n in vars(record) if n not in _OF_EVERY_RECORD and not n.startswith("_")]
        fields |= {name: getattr(record, name) for name in extra[:_FIELDS]}
        at = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        fields["at"] = f"{at.isoformat(timespec='microseconds')}Z"
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)[-_TRACE:]
        return json.dumps(
            {_cut(str(key), 50): self._short(key, value) for key, value in fields.items()}
        )

    def _short(self, key: str, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and abs(value) < 1 << 63:
            return value
        if is_secret(key):
            return HIDDEN
        # Redacted before it is cut: half a URL would not be recognised.
        text = redact(value if isinstance(value, str) else _text_of(value))
        if key == "exception":
            # The end of a traceback names the error; its beginning is only our own loop.
            return text[-self._limits.trace_chars :]
        return _cut(text, self._limits.value_chars)


_FIELDS = 30  # Fields that a caller may add.
_TRACE = 16 * 1024  # Characters at the end of a traceback that are searched for secrets.
# Standard attributes of records; and uvicorn's second message, with colour codes.
_OF_EVERY_RECORD = frozenset((*vars(logging.makeLogRecord({})), "message", "color_message"))


def _text_of(value: object) -> str:
    # The interpreter refuses to write very large integers in decimal.
    return hex(value) if isinstance(value, int) else repr(value)


def _cut(text: str, most: int) -> str:
    # A lone surrogate is valid in Python and invalid in a UTF-8 file.
    text = text[:most].encode("utf-8", "replace").decode("utf-8")
    return text if len(text) < most else text[: most - 1] + "…"


class _LogFile(logging.handlers.RotatingFileHandler):
    """A log file that cannot be written does not stop the crawl; it is reported once."""

    def __init__(self, path: Path, say: Callable[[str], None], limits: LogLimits) -> None:
        super().__init__(
            path,
            maxBytes=limits.file_bytes,
            backupCount=limits.rotated,
            encoding="utf-8",
            delay=True,
        )
        self.setFormatter(_JsonLines(limits))
        self._say = say
        self._complained = False

    def _open(self) -> TextIOWrapper:
        """Lock the file, also after each rotation. The kernel releases the lock at exit."""
        stream = super()._open()
        with suppress(OSError):  # A file system without locks.
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return stream

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._complained:
            self._complained = True
            self._say(f"warning: cannot write the log {self.baseFilename}: {sys.exc_info()[1]}")


class _RunHandler(logging.Handler):
    """Passes on a bounded number of lines for each event, and logs how many it dropped."""

    def __init__(
        self, file: logging.Handler, say: Callable[[str], None], limits: LogLimits
    ) -> None:
        super().__init__()
        self._file = file
        self._say = say
        self._most = limits.per_kind
        self._minute = 0.0
        self._seen: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.created - self._minute >= 60.0 or record.created < self._minute:
            self._log_suppressed()
            self._minute = record.created
        kind = _kind(record)
        if kind not in self._seen and len(self._seen) >= _KINDS:
            kind = "other events"
        count = self._seen[kind] = self._seen.get(kind, 0) + 1
        if count <= self._most:
            self._pass_on(record)

    def close(self) -> None:
        self._log_suppressed()
        self._file.close()
        super().close()

    def _pass_on(self, record: logging.LogRecord) -> None:
        self._file.emit(record)
        # Warnings of libraries go only to the log; our code reports their consequences.
        if record.levelno >= logging.WARNING and record.name.startswith(_OURS):
            self._say(_short_text(record))

    def _log_suppressed(self) -> None:
        seen, self._seen = self._seen, {}
        for kind, count in seen.items():
            if count > self._most:
                self._pass_on(_suppressed(kind, count - self._most))


_OURS = ("trawlnet", "asyncio")
_KINDS = 200  # Events that are counted separately within a minute.


def _kind(record: logging.LogRecord) -> str:
    """The event without its values, which may come from a server and differ every time."""
    return f"{record.name}: {str(record.msg)[:100]}"


def _suppressed(kind: str, count: int) -> logging.LogRecord:
    record = logging.LogRecord(__name__, logging.INFO, __file__, 0, "suppressed", None, None)
    record.__dict__.update(kind=kind, count=count)
    return record


def _short_text(record: logging.LogRecord) -> str:
    """One line without a traceback, which is in the file."""
    fields = vars(record)
    words = [f"{record.levelname.lower()}: {shown(redact(_message(record)), 200)}"]
    words += [f"{name}={shown(redact(str(fields[name])), 80)}" for name in _SHOWN if name in fields]
    return " ".join(words)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return str(record.msg)  # Wrong format arguments must not raise here.


_SHOWN = ("key", "lane", "host", "reason", "detail", "path", "error")  # Fields that people see.


log = logging.getLogger(__name__)


class LoggedTries:
    """Logs failed attempts. An answer such as "not found" is no failure; a parked lane is logged
    when it is held; an id that is not published yet is expected. The log limits the lines."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, task: Task) -> Outcome:
        outcome = await self._handler(task)
        if not outcome.reason.answer and outcome.reason not in _EXPECTED:
            fields = {"key": task.key, "lane": outcome.lane or task.lane, "attempt": task.attempt}
            fields |= {"reason": str(outcome.reason), "detail": outcome.detail}
            log.info("attempt failed", extra=fields)
        return outcome


_EXPECTED = (Reason.PARKED, Reason.NOT_YET)
