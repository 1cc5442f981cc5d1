"""Pages of the PLC directory's export: what to ask, what came, and where the next one begins.

The numbered form (`after=<seq>`) is asked first. A directory that does not have it is read by time:
each page begins a millisecond before the last one ended, since operations may share an instant and
the directory passes over all that are not later than what it is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import orjson

from trawlnet.crawlers.atproto.operations import read_line, used_origins
from trawlnet.crawlers.metered import Getter
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.malformed import Malformed
from trawlnet.net.client.answer import RequestLimits, Stream, outcome_of
from trawlnet.net.trouble import Trouble
from trawlnet.tables.clickhouse.plc_rows import is_row, usual_row
from trawlnet.tables.clickhouse.plc_rows_plain import OperationRow, OriginOf

PAGE = 1000  # Operations; the directory gives no more.
_MOST_LINES = 10 * PAGE  # Of a directory that does not count; the rest is asked for anew.
_LONGEST_LINE = 1 << 20  # Bytes; the directory takes operations of a few kilobytes.
_LIMITS = RequestLimits(total=60.0, wire=32 << 20, inflated=64 << 20)
_MILLISECOND = 1000  # In microseconds.


class ExportForm(StrEnum):
    SEQ = "seq"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class ExportCursor:
    """Where in the export we are."""

    form: ExportForm = ExportForm.SEQ
    position: int = 0  # The last sequence number, or the last instant in microseconds.
    at_position: frozenset[str] = frozenset()  # By time: CIDs of that instant that we have.
    strictly: bool = False  # By time: ask for later ones only; nothing else was new.


@dataclass(frozen=True, slots=True)
class Lines:
    """The body of a page."""

    rows: Sequence[Any]  # Usual ones as rows, others after JSON; None where it was none.
    is_cut: bool  # There was more, or would have been.


@dataclass(frozen=True, slots=True)
class ExportPage:
    rows: Sequence[OperationRow]
    place: ExportCursor  # Where the next page begins.
    is_last: bool
    malformed: int = 0
    # By time: the instant before held more than the directory tells at once, and some of it may
    # be missing.
    was_crowded: bool = False


def page_url(plc: str, place: ExportCursor) -> str:
    url = f"{plc}/export?count={PAGE}"
    if place.form is ExportForm.SEQ:
        return f"{url}&after={place.position}"
    if not place.position:
        return url
    return f"{url}&after={_iso(place.position - (0 if place.strictly else _MILLISECOND))}"


async def fetch_lines(http: Getter, url: str, lane: str, *, allow_private: bool) -> Lines | Outcome:
    """A body that breaks off is used as far as it came: lines are in order."""
    async with http.stream(url, lane=lane, limits=_LIMITS) as answer:
        if isinstance(answer, Trouble):
            return outcome_of(answer)
        if answer.reason is not Reason.OK:
            return Outcome(answer.reason, wait=answer.wait, detail=f"HTTP {answer.status}")
        return await _read(answer, allow_private)


async def _read(answer: Stream, allow_private: bool) -> Lines | Outcome:
    rows: list[Any] = []
    tail = b""
    origin_of = used_origins(allow_private=allow_private)
    async for piece in answer:
        if isinstance(piece, Trouble):
            return Lines(rows, is_cut=True) if rows else outcome_of(piece)
        *whole, tail = (tail + piece).split(b"\n")
        rows += [parsed_line(line, origin_of) for line in whole if line.strip()]
        if len(rows) >= _MOST_LINES or len(tail) > _LONGEST_LINE:
            return Lines(rows or [None], is_cut=True)
    if tail.strip():
        rows.append(parsed_line(tail, origin_of))
    return Lines(rows, is_cut=False)


def parsed_line(line: bytes | str, origin_of: OriginOf) -> Any:
    """None for what is no JSON, or too much of it."""
    if len(line) > _LONGEST_LINE:
        return None
    usual = usual_row(line, origin_of)
    if usual is not None:
        return usual
    try:
        return orjson.loads(line)
    except ValueError:
        return None


def read_page(lines: Lines, place: ExportCursor, *, allow_private: bool) -> ExportPage | None:
    """What a page tells and where the next one begins; None if it is not in the form asked for.
    Raises Malformed for what is no page of an export at all."""
    rows: list[OperationRow] = []
    malformed = 0
    for line in lines.rows:
        try:
            row = read_line(line, allow_private=allow_private)
        except Malformed:
            malformed += 1
            continue
        if place.form is ExportForm.SEQ and not row.seq:
            malformed += 1
        else:
            rows.append(row)
    after = _after_seq if place.form is ExportForm.SEQ else _after_time
    following = after(lines, rows, place)
    if following is None and (place == ExportCursor() or _has_objects(lines)):
        return None
    if following is None or (lines.rows and not rows and _is_foreign(lines, place)):
        raise Malformed(f"none of its {len(lines.rows)} lines is an operation")
    if following != place:
        return ExportPage(rows, following, False, malformed, was_crowded=place.strictly)
    if place.form is ExportForm.TIME and not place.strictly and place.position:
        # The instant may hold more than one page: what lies behind it is asked for before the end.
        return ExportPage(rows, replace(place, strictly=True), False, malformed)
    return ExportPage(rows, replace(place, strictly=False), not lines.is_cut, malformed)


def _is_foreign(lines: Lines, place: ExportCursor) -> bool:
    """Whether a page without any valid line comes from something else than a directory."""
    if place.form is ExportForm.SEQ:
        return False  # Its numbers lead on.
    # The page before was valid, and the last operations of a directory may be of no use.
    return not (place.strictly and _has_objects(lines))


def _has_objects(lines: Lines) -> bool:
    return any(isinstance(line, dict) or is_row(line) for line in lines.rows)


def _after_seq(
    lines: Lines, rows: Sequence[OperationRow], place: ExportCursor
) -> ExportCursor | None:
    # Numbers of lines that are of no use otherwise count: they must not stop us here for ever.
    numbers = [number for line in lines.rows if (number := number_of(line)) is not None]
    if lines.rows and not numbers:
        return None
    return replace(place, position=max([place.position, *numbers]))


def number_of(line: Any) -> int | None:
    """Of a line in the numbered form."""
    if is_row(line):
        number: int = line.seq
        return number
    seq = line.get("seq") if isinstance(line, dict) else None
    return seq if type(seq) is int and 0 < seq < 1 << 63 else None


def _after_time(lines: Lines, rows: Sequence[OperationRow], place: ExportCursor) -> ExportCursor:
    position = max([place.position, *(row.time_us for row in rows)])
    here = frozenset(row.cid for row in rows if row.time_us == position)
    if position > place.position:
        return ExportCursor(ExportForm.TIME, position, here)
    if here <= place.at_position:
        return place
    return ExportCursor(ExportForm.TIME, position, place.at_position | here)


def _iso(microseconds: int) -> str:
    moment = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{microseconds // 1000 % 1000:03}Z"
