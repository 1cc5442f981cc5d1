"""A snapshot as a block that redraws itself on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trawlnet.observe.lanes import LaneCondition
from trawlnet.observe.progress import LaneLook, Phase, Snapshot
from trawlnet.observe.terminal.render import duration, errors_of, size, speed_of, yields_of


@contextmanager
def drawn_on(out: TextIO) -> Iterator[Callable[[Snapshot], None]]:
    with Live(console=Console(file=out), auto_refresh=False, transient=False) as live:
        yield lambda snap: live.update(block(snap), refresh=True)


def block(snap: Snapshot) -> RenderableType:
    """For rich. Everything is a `Text`: nothing in it is read as markup."""
    rows = [_headline(snap), _bar(snap)]
    if yields := yields_of(snap):
        rows.append(Text(yields))
    if errors := errors_of(snap):
        rows.append(Text(f"errors  {errors}", style="yellow"))
    if lanes := _lane_table([*snap.held, *snap.slow]):
        return Group(*rows, lanes)
    return Group(*rows)


def _headline(snap: Snapshot) -> Text:
    colour = {Phase.RUNNING: "green", Phase.ENDED: "green"}.get(snap.phase, "yellow")
    memory = f", {size(snap.memory)}" if snap.memory else ""
    head = Text(f"{snap.crawler} ", style="bold")
    head.append(snap.phase, style=colour)
    head.append(f" {duration(snap.elapsed)}, {speed_of(snap)}")
    return head.append(f", {snap.in_flight}/{snap.workers} workers{memory}", style="dim")


_BAR_WIDTH = 30


def _bar(snap: Snapshot) -> Text:
    total = snap.done + snap.open
    filled = _BAR_WIDTH * snap.done // total if total else 0
    bar = Text("━" * filled, style="green")
    bar.append("━" * (_BAR_WIDTH - filled), style="bright_black")
    return bar.append(f"  {snap.done:,} done, {snap.open:,} open")


def _lane_table(looks: Sequence[LaneLook]) -> Table | None:
    if not looks:
        return None
    table = Table(box=None, show_header=False, pad_edge=False)
    for look in looks:
        table.add_row(Text(look.lane), Text(look.condition), Text(_lane_story(look), style="dim"))
    return table


def _lane_story(look: LaneLook) -> str:
    match look.condition:
        case LaneCondition.BLOCKED:
            return f"{_failures(look)}; waits for a retry"
        case LaneCondition.PARKED:
            return f"{look.why or 'held'}, for another {duration(look.wait)}"
        case LaneCondition.SLOWED:
            return f"{_failures(look)}; {look.rate:.1f} requests/s"
        case LaneCondition.HEALTHY:
            return f"one task takes {duration(look.longest)} so far"


def _failures(look: LaneLook) -> str:
    return "1 failure" if look.failures == 1 else f"{look.failures} failures in a row"
