"""One crawler of a workspace as the dashboard knows it: where it is, and whom to ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from trawlnet.engine.outcome import Reason


class Draw(StrEnum):
    BARS = "bars"
    COLUMNS = "columns"
    LINES = "lines"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Something that only one crawler has to show; every text in it may be a stranger's."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    draw: Draw = Draw.TABLE
    note: str = ""
    unit: str = ""
    link: str = ""  # Where there is more, on this site.
    link_words: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What a crawler says in its own terms."""

    facts: Mapping[str, Any]
    exhibits: Sequence[Exhibit]


@dataclass(frozen=True, slots=True)
class Place:
    """How the dashboard asks; all of it may be slow, and none of it changes anything but `retry`,
    which is for a crawl that does not run."""

    crawler: str
    workspace: Path
    state: Path
    holder: Callable[[], int | None]  # The pid of the crawl that runs.
    flag: Callable[[str], Path | None]  # The control file for a word, if it is there.
    counts: Callable[[], Awaitable[Mapping[str, Any]]]  # From the store, in the shape of `status`.
    told: Callable[[], Awaitable[Told]]
    retry: Callable[[Reason | None], Awaitable[int]]
