"""Flags of `sim ids` and `ids simulate` that add pauses, outages and leaps to a world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.common.flags import flag
from trawlnet.sim.ids.events import WorldEvents, read_gap, read_span

T = TypeVar("T")

Gaps = Annotated[
    list[str] | None,
    flag(
        "--gap SIZE@TIME",
        "Skip SIZE ids at TIME after the start, such as 1m@20m (a million after 20 minutes). "
        "Repeatable.",
    ),
]
Pauses = Annotated[
    list[str] | None,
    flag(
        "--pause LENGTH@TIME", "Assign no ids for LENGTH from TIME on, such as 30m@20m. Repeatable."
    ),
]
Outages = Annotated[
    list[str] | None,
    flag(
        "--outage LENGTH@TIME",
        "Switch the API off for LENGTH from TIME on, such as 30m@20m; ids are assigned "
        "meanwhile, unless --pause covers the same time. Repeatable.",
    ),
]


def events_of(
    gaps: list[str] | None, pauses: list[str] | None, outages: list[str] | None
) -> WorldEvents:
    """Raises UsageTrouble that names the flag."""
    return WorldEvents(
        _read("--gap", gaps, read_gap),
        _read("--pause", pauses, read_span),
        _read("--outage", outages, read_span),
    )


def _read(flag: str, texts: list[str] | None, read: Callable[[str], T]) -> Sequence[T]:
    try:
        return tuple(read(text) for text in texts or ())
    except ValueError as error:
        hint = "write a size or a length, @, and when: --gap 1m@20m --pause 30m@20m"
        raise UsageTrouble(f"{flag}: {error}", hint) from None
