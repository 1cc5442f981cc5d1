"""Structured logs of a run: JSON lines in the workspace, short warnings to people, all bounded."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from trawlnet.observe.lanes import shown


@dataclass(frozen=True, slots=True)
class LogLimits:
    file_bytes: int = 50 << 20  # Then the file is rotated.
    rotated: int = 3  # Older files kept of one run.
    runs: int = 20  # Runs of one crawler whose files are kept.
    per_kind: int = 100  # Lines of one event per minute; the rest is counted.
    value_chars: int = 500
    trace_chars: int = 4000


@contextmanager
def logging_to(
    folder: Path, name: str, say: Callable[[str], None], limits: LogLimits | None = None
) -> Iterator[Path]:
    """Log to `name`.log in the folder; warnings go to `say`, too, as one short line each.

    The name is `<crawler>-<run>`, where runs sort by age: only the latest logs are kept.

    Takes in structlog and the standard library's loggers alike: the engine knows only the latter.
    """
    limits = limits or LogLimits()
    folder.mkdir(parents=True, exist_ok=True)
    _forget_old_runs(folder, name, limits.runs)
    path = folder / f"{name}.log"
    handler = _RunHandler(path, say, limits)
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    structlog.configure(
        processors=[*_PREPARE, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    try:
        yield path
    finally:
        root.setLevel(before[0])
        root.handlers[:] = before[1]
        handler.close()
        structlog.reset_defaults()


def _forget_old_runs(folder: Path, name: str, keep: int) -> None:
    logs = sorted(folder.glob(f"{name.rpartition('-')[0]}-*.log"))
    for path in logs[: max(0, len(logs) - keep + 1)]:
        for part in [path, *folder.glob(f"{path.name}.*")]:
            part.unlink(missing_ok=True)


_PREPARE: list[structlog.typing.Processor] = [
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    structlog.processors.format_exc_info,
]


def _json_formatter(limits: LogLimits) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_PREPARE,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _Shorten(limits),
            structlog.processors.JSONRenderer(),
        ],
    )


class _Shorten:
    """Cuts every value: what a server says must not become a line without end."""

    def __init__(self, limits: LogLimits) -> None:
        self._limits = limits

    def __call__(
        self, logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        return {
            _cut(str(key), 50): self._short(key, value)
            for key, value in list(event.items())[:_FIELDS]
        }

    def _short(self, key: str, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and abs(value) < 1 << 63:
            return value
        text = value if isinstance(value, str) else _text_of(value)
        if key == "exception":
            # The end of a trace names the error; the beginning names only our own loop.
            return text[-self._limits.trace_chars :]
        return _cut(text, self._limits.value_chars)


_FIELDS = 30


def _text_of(value: object) -> str:
    # The interpreter refuses to write very large integers in decimal.
    return hex(value) if isinstance(value, int) else repr(value)


def _cut(text: str, most: int) -> str:
    # A lone surrogate is valid in Python and invalid in a UTF-8 file.
    text = text[:most].encode("utf-8", "replace").decode("utf-8")
    return text if len(text) < most else text[: most - 1] + "…"


class _LogFile(logging.handlers.RotatingFileHandler):
    """A log that cannot be written is no reason to stop a crawl, but one to say so, once."""

    def __init__(self, path: Path, say: Callable[[str], None], limits: LogLimits) -> None:
        super().__init__(
            path,
            maxBytes=limits.file_bytes,
            backupCount=limits.rotated,
            encoding="utf-8",
            delay=True,
        )
        self.setFormatter(_json_formatter(limits))
        self._say = say
        self._complained = False

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._complained:
            self._complained = True
            self._say(f"warning: cannot write the log {self.baseFilename}: {sys.exc_info()[1]}")


class _RunHandler(logging.Handler):
    """Passes a bounded number of lines per event on, and counts the others aloud."""

    def __init__(self, path: Path, say: Callable[[str], None], limits: LogLimits) -> None:
        super().__init__()
        self._file = _LogFile(path, say, limits)
        self._say = say
        self._most = limits.per_kind
        self._minute = 0.0
        self._seen: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.created - self._minute >= 60.0 or record.created < self._minute:
            self._tell_suppressed()
            self._minute = record.created
        kind = _kind(record)
        if kind not in self._seen and len(self._seen) >= _KINDS:
            kind = "other events"
        count = self._seen[kind] = self._seen.get(kind, 0) + 1
        if count <= self._most:
            self._pass_on(record)

    def close(self) -> None:
        self._tell_suppressed()
        self._file.close()
        super().close()

    def _pass_on(self, record: logging.LogRecord) -> None:
        self._file.emit(record)
        # What a library warns of is for the log; what comes of it is told by whoever used it.
        if record.levelno >= logging.WARNING and record.name.startswith(_OURS):
            self._say(_short_text(record))

    def _tell_suppressed(self) -> None:
        seen, self._seen = self._seen, {}
        for kind, count in seen.items():
            if count > self._most:
                self._pass_on(_suppressed(kind, count - self._most))


_OURS = ("trawlnet", "asyncio")
_KINDS = 200  # Events that are told apart within a minute.


def _kind(record: logging.LogRecord) -> str:
    """The event, not its values: these may come from a server and be different every time."""
    event = record.msg.get("event", "") if isinstance(record.msg, dict) else record.msg
    return f"{record.name}: {str(event)[:100]}"


def _suppressed(kind: str, count: int) -> logging.LogRecord:
    record = logging.LogRecord(__name__, logging.INFO, __file__, 0, "suppressed", None, None)
    record.__dict__.update(kind=kind, count=count)
    return record


def _short_text(record: logging.LogRecord) -> str:
    """One line without a trace: that is in the file."""
    fields = record.msg if isinstance(record.msg, dict) else record.__dict__
    event = fields.get("event", "") if isinstance(record.msg, dict) else _message(record)
    words = [f"{record.levelname.lower()}: {shown(str(event), 200)}"]
    words += [f"{name}={shown(str(fields[name]), 80)}" for name in _TOLD if name in fields]
    return " ".join(words)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return str(record.msg)  # Arguments that do not fit are the caller's slip, not our end.


_TOLD = ("key", "lane", "reason", "detail", "path", "error")  # Fields a person gets to see.
