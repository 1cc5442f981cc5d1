"""`trawlnet web replay`: rebuilds the page index and the tables from captures."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from trawlnet.captures.line import CaptureLine
from trawlnet.captures.replay import CaptureReplay, replay_archive
from trawlnet.captures.replay import replay as replay_captures
from trawlnet.captures.shared_archive import MANIFEST
from trawlnet.cli.common.errors import CliError, UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, flag
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.verb import WRITES, Verb
from trawlnet.cli.common.workspace import find, locked, shown
from trawlnet.cli.web.flags import load_web
from trawlnet.crawlers.web.discoveries import ask_again
from trawlnet.storage.objects import Objects, open_objects
from trawlnet.storage.s3 import SCHEME, s3_options

Unchecked = Annotated[bool, flag("--no-check", "Do not read the stored bodies.")]
# The archive to read may differ from the one that a crawl writes.
Archive = Annotated[
    str,
    flag(
        "--archive PLACE",
        "The archive of a fleet: s3://BUCKET/FOLDER, or a folder.",
        show_default=False,
        allow_from_autoenv=False,
    ),
]
Output = Annotated[
    Path | None,
    flag(
        "--output, -o DIR",
        "With --archive: folder for pages.csv, edges.csv and index.cdxj.",
        show_default=False,
        allow_from_autoenv=False,
    ),
]


SpreadsheetSafe = Annotated[
    bool,
    flag(
        "--spreadsheet-safe",
        "Put an apostrophe before cells that a spreadsheet would run as a formula.",
    ),
]


def replay(
    workspace: Folder,
    archive: Archive = "",
    output: Output = None,
    no_check: Unchecked = False,
    spreadsheet_safe: SpreadsheetSafe = False,
    json: Json = False,
) -> int:
    """Rebuild the page index and a pages CSV from the capture log and the stored bodies.

    With --archive: the tables of what a fleet has captured, as far as its manifest lists it.
    """
    if bool(archive) is not (output is not None):
        raise UsageTrouble(
            "--archive and -o go together", "trawlnet web replay --archive PLACE -o DIR"
        )
    if output is None:
        result = _replay_workspace(workspace, not no_check, spreadsheet_safe)
    else:
        result = _replay_archive(archive, output, not no_check, spreadsheet_safe)
    for damage in result.damage:
        say(f"{damage.path}: {damage.what}")
    if json:
        emit({"captures": result.captures, "pages": result.pages, "damaged": result.damaged})
    else:
        counted = f"{result.captures:,} captures of {result.pages:,} pages"
        say(f"{counted}; {result.damaged:,} bodies damaged")
    if result.damaged:
        raise CliError(f"{result.damaged:,} stored bodies are damaged", _remedy(workspace, result))
    return 0


def _remedy(workspace: Path, result: CaptureReplay) -> str:
    if not result.lost:
        return "restore them from a copy: they are no page's latest content, or lie in an archive"
    return (
        f"{len(_pages_of(result)):,} pages are in the discovery spool now; "
        f"fetch them again: trawlnet web scrape -w {shown(workspace)}"
    )


def _pages_of(result: CaptureReplay) -> list[CaptureLine]:
    """The pages of damaged bodies, each once; the last capture of a page counts."""
    return list({line.url: line for line in result.lost}.values())


def _replay_workspace(workspace: Path, check_bodies: bool, spreadsheet_safe: bool) -> CaptureReplay:
    place = find(workspace, "web")
    run = f"replay-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    config = load_web(workspace, {}).config
    is_safe = spreadsheet_safe or config.metrics.spreadsheet_safe
    with locked(place):
        result = replay_captures(
            workspace, run, check_bodies=check_bodies, spreadsheet_safe=is_safe
        )
        # Still locked: a crawl that starts now would write to the spool, too.
        if result.lost:
            asyncio.run(ask_again(config, workspace, _pages_of(result)))
    return result


def _replay_archive(
    archive: str, output: Path, check_bodies: bool, spreadsheet_safe: bool
) -> CaptureReplay:
    objects = archived_at(archive)
    return replay_archive(
        objects, output, check_bodies=check_bodies, spreadsheet_safe=spreadsheet_safe
    )


def archived_at(place: str) -> Objects:
    """An existing archive; does not create one."""
    if place.startswith(SCHEME) or Path(place).is_dir():
        objects = open_objects(place, s3_options(os.environ))
        if objects.sizes(MANIFEST):
            return objects
    raise CliError(
        f"no captures of a fleet are listed in {place}",
        "use the --archive of the crawl; the manifest is written at the end of a crawl, or earlier",
    )


REPLAY = Verb(replay, "web replay --archive s3://bucket/site -o ./tables", WRITES, "web")
