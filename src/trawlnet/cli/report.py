"""`report`: what a crawl brought home, as one HTML file to look at."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trawlnet.cli.archive import Where
from trawlnet.cli.bar import progress_bar
from trawlnet.cli.errors import CliError
from trawlnet.cli.flags import Json, variables
from trawlnet.cli.place import place_shown, reading, total_size
from trawlnet.cli.talk import emit, say

if TYPE_CHECKING:  # Only the command itself pays for the import.
    from trawlnet.observe.report.page import Report

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", show_envvar=False, help="Where to write the page."
    ),
]


def add_repos_report(app: typer.Typer) -> None:
    app.command(
        "report",
        epilog="Example: trawlnet repos report ./net/archive -o report.html",
        context_settings=variables("repos"),
    )(repos_report)


def repos_report(place: Where, output: Output = Path("report.html"), json: Json = False) -> int:
    """Show what an archive holds: by collection, PDS, month, language and size.

    Every record is unpacked once, in bounded memory. With --json the figures go to stdout, and
    no page is written.
    """
    from trawlnet.archive.survey import survey
    from trawlnet.crawlers.repos.archived import left_out
    from trawlnet.crawlers.repos.report import as_json, as_report

    with reading(place), progress_bar("reading", total_size(place)) as progress:
        seen = survey(place, progress)
    folder = place.parent if isinstance(place, Path) and place.is_file() else place
    dropped = left_out(folder.resolve().parent) if isinstance(folder, Path) else {}
    if json:
        emit(as_json(seen, dropped))
    else:
        write_report(as_report(seen, place_shown(place), dropped, time.time()), output)
    for damage in seen.tally.damage:
        say(f"damaged: {damage}")
    return 1 if seen.tally.damage else 0


def write_report(report: Report, output: Path) -> None:
    """The whole file or none of it: somebody may be looking at the last one."""
    from trawlnet.observe.report.page import render

    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        beside.write_text(render(report), "utf-8")
        beside.replace(output)
    except OSError as error:
        beside.unlink(missing_ok=True)
        what = f"cannot write {output}: {error.strerror}"
        raise CliError(what, "choose another: -o FILE") from None
    print(output)
    say(f"open it in a browser: {output.resolve().as_uri()}")
