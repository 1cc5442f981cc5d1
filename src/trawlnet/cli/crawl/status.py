"""The state of a crawl: from the running process if there is one, else from its store."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from trawlnet.cli.common.errors import CliError
from trawlnet.cli.common.output import listed
from trawlnet.cli.common.workspace import ROLES, Workspace, holder, read_snapshot, shown
from trawlnet.engine.ports import Counts, Positioned

_COUNTS = ("open", "leased", "waiting", "blocked", "scheduled", "known")
_FIRST_SNAPSHOT = 3.0  # Seconds to wait for the first figures of a crawl that has just started.


def status_row(crawler: str, counts: Counts) -> dict[str, Any]:
    row: dict[str, Any] = {"crawler": crawler}
    row |= {name: getattr(counts, name) for name in _COUNTS}
    row["settled"] = {str(reason): count for reason, count in counts.settled.items() if count}
    row["attempts"] = {str(reason): count for reason, count in counts.attempts.items() if count}
    return row


async def cursor_of(store: object) -> str | None:
    """The cursor of a store that has one."""
    return await store.cursor() if isinstance(store, Positioned) else None


def of_running(workspace: Workspace, *, patiently: bool = True) -> dict[str, Any] | None:
    """The figures of the running process; None if none runs, or if it has not written any yet and
    the caller does not wait. Of two processes, the figures of the first role and a note about the
    other."""
    rows = [row for one in workspace.by_role if (row := _of_role(one, patiently))]
    if len(rows) > 1 and rows[0]["running"] != rows[1]["running"]:
        beside = workspace.by_role[1].role
        rows[0][beside] = {name: rows[1][name] for name in ("running", "open", "rate")}
    return rows[0] if rows else None


def _of_role(workspace: Workspace, patiently: bool) -> dict[str, Any] | None:
    deadline = time.monotonic() + _FIRST_SNAPSHOT
    while (pid := holder(workspace)) is not None:
        snapshot = read_snapshot(workspace)
        if snapshot is not None and snapshot.get("running") == pid:
            return snapshot
        if not patiently:
            return None
        if time.monotonic() > deadline:
            raise CliError(
                f"pid {pid} uses the workspace and reports no status", "try again in a few seconds"
            )
        time.sleep(0.1)
    return None


def status_text(row: Mapping[str, Any], facts: Mapping[str, Any], workspace: Workspace) -> str:
    name = workspace.crawler
    lines = [
        f"{name} in {shown(workspace.path)}: {_running(row, facts)}",
        *([f"  the crawl of another workspace: {row['held_by']}"] if row.get("held_by") else ()),
        f"  known     {row['known']:>12,}",
        f"  open      {row['open']:>12,}  ({_parts_of_open(row)})",
        f"  scheduled {row['scheduled']:>12,}",
        f"  settled   {sum(row['settled'].values()):>12,}  ({listed(row['settled'])})",
        f"  attempts  {sum(row['attempts'].values()):>12,}  ({listed(row['attempts'])})",
        f"  cursor    {row['cursor'] or 'none'}",
        *(f"  {role}: {_fact(row[role])}" for role in ROLES.get(name, ()) if role in row),
        *(f"  {name}: {_fact(value)}" for name, value in facts.items() if name != _ELSEWHERE),
    ]
    return "\n".join(lines)


def _running(row: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    if row["running"]:
        return f"running, pid {row['running']}, {row['rate']:g} attempts/s"
    return f"running on {facts[_ELSEWHERE]}" if facts.get(_ELSEWHERE) else "not running"


_ELSEWHERE = "running_on"  # The fact that names a process on another machine, from a server.


def _fact(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, Mapping):
        if all(isinstance(count, int) for count in value.values()):
            return listed(value)
        return ", ".join(f"{name} {_inner(one)}" for name, one in value.items())
    if isinstance(value, list):
        return "; ".join(map(_fact, value)) or "none"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _inner(value: Any) -> str:
    """A fact within another."""
    return f"({_fact(value) or 'none'})" if isinstance(value, Mapping) else _fact(value)


def _parts_of_open(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {row[name]:,}" for name in ("leased", "waiting", "blocked"))
