"""`trawlnet repos report`: what an archive holds, as a page."""

from __future__ import annotations

import time
from pathlib import Path

from trawlnet.archive.survey import survey
from trawlnet.cli.common.archive_location import place_shown, reading, total_size
from trawlnet.cli.common.bar import progress_bar
from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.flags import Json
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.report import PAGE, Output, write_report
from trawlnet.cli.common.verb import PLAIN, Verb
from trawlnet.cli.repos.archive import Where
from trawlnet.crawlers.repos.catalogue import left_out
from trawlnet.crawlers.repos.following.figures.live_report import live_story
from trawlnet.crawlers.repos.report import as_json, as_report


def report(place: Where, output: Output = PAGE, json: Json = False) -> int:
    """Write a page about an archive: collections, PDSes, months, languages, sizes; live following.

    Every record is unpacked once, in bounded memory. With --json the figures go to stdout, and
    no page is written.
    """
    with reading(place), progress_bar("reading", total_size(place)) as progress:
        seen = survey(place, progress)
    folder = place.parent if isinstance(place, Path) and place.is_file() else place
    workspace = folder.resolve().parent if isinstance(folder, Path) else None
    dropped = left_out(workspace) if workspace else {}
    now = time.time()
    live = live_story(workspace, now) if workspace else None
    if json:
        emit(as_json(seen, dropped, live))
    else:
        write_report(as_report(seen, place_shown(place), dropped, now, live), output)
    for damage in seen.tally.damage:
        say(f"damaged: {damage}")
    return 1 if seen.tally.damage else 0


REPORT = Verb(
    report,
    "repos report ./net/archive -o report.html",
    (*PLAIN, Exit.UNREACHABLE),
    "repos",
)
