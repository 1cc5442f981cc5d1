"""Tables that only one crawler has: segments, the frontier, decisions and gaps, the registry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trawlnet.cli.common.output import size
from trawlnet.cli.common.workspace import Workspace
from trawlnet.crawlers.ids.ledger.notes import DECISIONS
from trawlnet.crawlers.ids.ledger.open_ledger import looked_at
from trawlnet.crawlers.ids.ledger.span_codec import mark_of, reason_of
from trawlnet.crawlers.ids.model import LedgerMark
from trawlnet.crawlers.web.work import depth_of
from trawlnet.observe.dashboard.place import Draw, Panel
from trawlnet.observe.dashboard.words import UNKNOWN, clock_time, moment
from trawlnet.observe.lanes import shown
from trawlnet.stores.lmdb.frontier import read_frontier

_FEW, _MANY = 20, 100  # Rows.
_TAIL_BYTES = 64 << 10
_OPEN = "Open the registry: search it, and register a PDS"

Facts = Mapping[str, Any]


async def panels_of(name: str, config: Any, workspace: Workspace, facts: Facts) -> Sequence[Panel]:
    return await _PANELS[name](config, workspace, facts)


async def _repos(config: Any, workspace: Workspace, facts: Facts) -> Sequence[Panel]:
    rows = await asyncio.to_thread(_segments, workspace.path / "archive")
    note = f"The newest {_FEW}; each is verified and replayed on its own."
    return [Panel("Segments", ("file", "size", "written"), rows, note=note)]


def _segments(folder: Path) -> list[Sequence[object]]:
    newest = sorted(folder.glob("*.rca"), reverse=True)[:_FEW]
    stats = [(path.name, path.stat()) for path in newest]
    return [(name, size(stat.st_size), moment(stat.st_mtime)) for name, stat in stats]


async def _web(config: Any, workspace: Workspace, facts: Facts) -> Sequence[Panel]:
    if config.redis_address:
        return []
    place = workspace.state / config.frontier.db_name
    frontier = await asyncio.to_thread(read_frontier, place, depth_of)
    depths = sorted(frontier.by_rank.items())[:_MANY]
    hosts = [(shown(lane), count) for lane, count in frontier.by_lane.most_common(_FEW)]
    part = "" if frontier.is_whole else " Only the first million was counted."
    return [
        Panel(
            "Frontier by depth",
            ("depth", "URLs"),
            [(str(depth), count) for depth, count in depths],
            Draw.COLUMNS,
            f"Open URLs by their distance from a seed, in links.{part}",
        ),
        Panel(
            "Frontier by host",
            ("host", "URLs"),
            hosts,
            Draw.BARS,
            f"The {_FEW} hosts with the most open URLs.",
        ),
    ]


async def _ids(config: Any, workspace: Workspace, facts: Facts) -> Sequence[Panel]:
    decisions = await asyncio.to_thread(_last_rows, workspace.state / DECISIONS)
    return [
        Panel(
            "Ids per second: expected and measured",
            ("time", "expected", "measured"),
            [_forecast(row) for row in decisions[-_MANY:]],
            Draw.LINES,
            "What each decision expected, and what was measured ten seconds later.",
            "ids/s",
        ),
        Panel(
            "Decisions",
            ("at", "workers", "requests/s", "ids/s expected", "ids/s measured", "why"),
            [_decision(row) for row in reversed(decisions[-_MANY:])],
            note="Each decision, and the rate measured after the one ten seconds before.",
        ),
        Panel(
            "Gaps",
            ("from", "up to", "ids", "mark", "why"),
            await _gaps(config, workspace.state),
            note="Ranges that were skipped, newest first; the end is not part of a range.",
        ),
    ]


def _last_rows(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(0, end - _TAIL_BYTES))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    return [row for line in lines if (row := _object(line)) is not None]


def _object(line: bytes) -> dict[str, Any] | None:
    """Parse a line; None for one that is cut off."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _decision(row: Mapping[str, Any]) -> Sequence[object]:
    measured = row.get("measured_rate")
    return (
        clock_time(row.get("at", 0.0)),
        row.get("workers", 0),
        _rounded(row.get("rate")),
        _rounded(row.get("predicted_rate")),
        UNKNOWN if measured is None else _rounded(measured),
        str(row.get("reason", "")),
    )


def _forecast(row: Mapping[str, Any]) -> Sequence[object]:
    return (clock_time(row.get("at", 0.0)), row.get("predicted_rate"), row.get("measured_rate"))


def _rounded(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, int | float) else UNKNOWN


async def _gaps(config: Any, state: Path) -> list[Sequence[object]]:
    async with looked_at(config, state) as ledger:
        if ledger is None:
            return []
        spans = await ledger.marked(
            LedgerMark.GAP, LedgerMark.UNSURVEYED, LedgerMark.HOLE, LedgerMark.EMBARGOED
        )
        return [
            (str(s.start), str(s.end), s.end - s.start, str(mark_of(s.word)), reason_of(s.word))
            for s in reversed(spans[-_MANY:])
        ]


async def _pds(config: Any, workspace: Workspace, facts: Facts) -> Sequence[Panel]:
    def bars(title: str, first: str, key: str, note: str, link: str = "") -> Panel:
        counts = sorted(facts.get(key, {}).items(), key=lambda pair: -pair[1])
        rows = [(word.replace("_", " "), count) for word, count in counts]
        return Panel(title, (first, "PDSes"), rows, Draw.BARS, note, "", link, _OPEN)

    note = "The registry now, including changes by other processes."
    return [
        bars("Registry by status", "status", "by_status", note, "/registry/"),
        bars(
            "Registry by source",
            "source",
            "by_source",
            "PDSes by the source that found them first.",
        ),
        bars("Last scans that failed", "reason", "failures", "PDSes by their last failure."),
    ]


_PANELS: Mapping[str, Callable[[Any, Workspace, Facts], Awaitable[Sequence[Panel]]]] = {
    "repos": _repos,
    "web": _web,
    "ids": _ids,
    "pds": _pds,
}
