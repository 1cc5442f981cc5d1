"""`trawlnet health`: checks whether the processes of a workspace still report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from trawlnet.cli.common.errors import CliError, Exit
from trawlnet.cli.common.flags import Folder, Json, flag
from trawlnet.cli.common.output import emit
from trawlnet.cli.common.sections import SECTIONS
from trawlnet.cli.common.verb import Verb
from trawlnet.cli.common.workspace import Workspace, find, holder, shown

Within = Annotated[float, flag("--within X", "Longest time in seconds without a report.", min=1)]


@dataclass(frozen=True, slots=True)
class LifeSign:
    """The last report of one process; `age` is None if it has started and not reported yet."""

    what: str
    age: float | None
    locked: bool  # The process certainly runs: it holds a lock.


def health(*, workspace: Folder, within: Within = 60.0, json: Json = False) -> int:
    """Check whether what runs in a workspace still reports.

    Checks a crawl, the command of a fleet, and `ids store`. A crawl that has started and not
    reported yet, because it stands by or waits for a server, counts as healthy. Made for health
    checks of containers: it opens no store and sends no request.
    """
    signs = list(signs_of_life(find(workspace, "repos").path, time.time()))
    fresh = [sign for sign in signs if sign.age is None or sign.age <= within]
    if silent := [sign for sign in signs if sign.locked and sign not in fresh]:
        raise CliError(
            f"{shown(workspace)}: {silent[0].what} has reported nothing for {silent[0].age:.0f} s",
            "its process hangs, or its disk is full; see: trawlnet logs",
        )
    if not fresh:
        raise CliError(f"nothing runs in {shown(workspace)}", "name the workspace with -w")
    for sign in fresh:
        if json:
            emit(asdict(sign))
        else:
            print(f"{sign.what}: {_story(sign)}")
    return Exit.DONE


def signs_of_life(path: Path, now: float) -> Iterator[LifeSign]:
    for crawler in SECTIONS:
        whole = Workspace(path, crawler)
        for place in whole.by_role:
            if holder(place) is not None:
                what = f"{crawler} {place.role or 'crawl'}"
                yield LifeSign(what, _age(place.snapshot_file, now), locked=True)
        # These share a workspace with others, and hold no lock.
        beside = {"fleet": whole.fleet_pulse, "store": whole.store_figures}
        for word, file in beside.items():
            if (age := _age(file, now)) is not None:
                yield LifeSign(f"{crawler} {word}", age, locked=False)


def _age(file: Path, now: float) -> float | None:
    try:
        return max(0.0, now - file.stat().st_mtime)
    except FileNotFoundError:
        return None


def _story(sign: LifeSign) -> str:
    return "started, no report yet" if sign.age is None else f"reported {sign.age:.0f} s ago"


HEALTH = Verb(health, "health -w ./net", (Exit.DONE, Exit.ERROR, Exit.USAGE, Exit.NO_WORKSPACE))
