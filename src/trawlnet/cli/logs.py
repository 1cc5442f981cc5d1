"""`trawlnet logs`: shows the logs of a workspace, filtered by lane, reason and time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated

from trawlnet.cli.common.errors import Exit, UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, Why, flag, parse_reason
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.sections import SECTIONS
from trawlnet.cli.common.settings import suggestion
from trawlnet.cli.common.verb import PLAIN, Verb
from trawlnet.cli.common.workspace import find, shown
from trawlnet.crawlers.units import parse_duration
from trawlnet.observe.lanes import shown as harmless
from trawlnet.observe.logs.reader import LEVELS, LogFilter, LogLine, Reader

_LOOK_EVERY = 0.5  # Seconds between two looks for new lines.
_VALUE_CHARS = 120  # Of one value as text; --json has all of it.
_FIRST = ("key", "lane", "reason", "detail")  # Fields that are shown before the others.
_TOLD_APART = ("at", "level", "event", "logger", "exception")

OfCrawler = Annotated[str | None, flag("--crawler C", "Only this crawler, like repos.")]
OnLane = Annotated[str | None, flag("--lane TEXT", "Only lanes that contain this text.")]
OfEvent = Annotated[str | None, flag("--event TEXT", "Only events that contain this text.")]
AtLeast = Annotated[str | None, flag("--level L", "Only this level and worse, like warning.")]
Since = Annotated[
    str | None, flag("--since TIME", "Only lines since then: 2h, or 2024-05-01T12:00:00Z.")
]
Newest = Annotated[int | None, flag("--limit N", "Only the newest N lines.", min=1)]
Follow = Annotated[bool, flag("--follow", "Keep running, and show new lines.")]


def logs(
    workspace: Folder,
    crawler: OfCrawler = None,
    lane: OnLane = None,
    reason: Why = None,
    event: OfEvent = None,
    level: AtLeast = None,
    since: Since = None,
    limit: Newest = None,
    follow: Follow = False,
    json: Json = False,
) -> int:
    """Show the logs of crawls: failed attempts, held lanes, errors.

    The newest line is the last.
    """
    wanted = LogFilter(
        crawler=_one_of(crawler, list(SECTIONS), "crawlers"),
        lane=lane or "",
        reason=parse_reason(reason) or "",
        event=event or "",
        level=_one_of(level, list(LEVELS), "levels"),
        since=_instant(since),
    )
    folder = find(workspace, wanted.crawler or next(iter(SECTIONS))).logs
    reader = Reader(folder, wanted)
    if not folder.is_dir() and not follow:
        say(f"nothing was logged in {shown(workspace)} yet")
    # Only as many lines as are shown stay in memory.
    _show(deque(reader.lines(), limit) if limit else reader.lines(), as_json=json)
    code = _follow(reader.lines, as_json=json) if follow else Exit.DONE
    if reader.unreadable:
        say(f"{reader.unreadable:,} lines could not be read as log lines, and were skipped")
    return code


def _follow(lines: Callable[[], Iterable[LogLine]], *, as_json: bool) -> Exit:
    """Show new lines until a signal ends the command, with exit code 0."""
    try:
        while True:
            time.sleep(_LOOK_EVERY)
            _show(lines(), as_json=as_json)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _show(lines: Iterable[LogLine], *, as_json: bool) -> None:
    for line in lines:
        if as_json:
            emit({**line.fields, "run": line.run})
        else:
            print(_text(line), flush=True)


def _text(line: LogLine) -> str:
    """Values come from servers: control characters must not reach a terminal."""
    fields = line.fields
    names = [name for name in _FIRST if name in fields]
    names += [name for name in fields if name not in (*_FIRST, *_TOLD_APART)]
    head = f"{line.at[:23]:<23} {fields.get('level', '')!s:7.7} {line.run.partition('-')[0]}"
    words = [f"{harmless(str(name), 50)}={_value(fields[name])}" for name in names]
    return "  ".join([head, harmless(str(fields.get("event", "")), _VALUE_CHARS), *words])


def _value(value: object) -> str:
    text = harmless(str(value), _VALUE_CHARS)
    return f'"{text}"' if " " in text or not text else text


def _one_of(word: str | None, known: list[str], label: str) -> str:
    if word is not None and word not in known:
        raise UsageTrouble(f"{word!r} is not one of the {label}", suggestion(word, known, label))
    return word or ""


def _instant(text: str | None) -> str:
    """The time in the format of the log lines; empty without --since."""
    if text is None:
        return ""
    try:
        ago = parse_duration(text)
        moment = datetime.fromtimestamp(time.time() - float(str(ago)), UTC)
    except (ValueError, OverflowError):
        moment = _moment(text)
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat()


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        hint = "write it like 30m, 2h, 2024-05-01 or 2024-05-01T12:00:00Z"
        raise UsageTrouble(f"--since: {text} is not a time", hint) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


LOGS = Verb(
    logs,
    "logs -w ./net --reason timeout --since 2h",
    (*PLAIN, Exit.NO_WORKSPACE, Exit.INTERRUPTED),
)
