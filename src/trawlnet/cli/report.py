"""`report`: what a crawl brought home, as one HTML file to look at."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from trawlnet.cli.archive import Where
from trawlnet.cli.bar import progress_bar
from trawlnet.cli.errors import CliError
from trawlnet.cli.flags import Folder, Json, variables, with_flags
from trawlnet.cli.place import place_shown, reading, total_size
from trawlnet.cli.sections import load_section
from trawlnet.cli.talk import emit, say
from trawlnet.cli.workspace import Workspace, find, shown
from trawlnet.engine.ports import Counts

if TYPE_CHECKING:  # Only the command itself pays for the import.
    from trawlnet.crawlers.web.survey import WebSurvey
    from trawlnet.observe.report.page import Report

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", show_envvar=False, help="Where to write the page."
    ),
]

_PAGE = Path("report.html")


def add_repos_report(app: typer.Typer) -> None:
    app.command(
        "report",
        epilog="Example: trawlnet repos report ./net/archive -o report.html",
        context_settings=variables("repos"),
    )(repos_report)


def repos_report(place: Where, output: Output = _PAGE, json: Json = False) -> int:
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


def add_web_report(app: typer.Typer) -> None:
    from trawlnet.crawlers.web.config import WebConfig

    _add(app, "web", WebConfig, ("redis_address", "archive"), web_report)


def add_ids_report(app: typer.Typer) -> None:
    from trawlnet.crawlers.ids.config import IdsConfig

    _add(app, "ids", IdsConfig, ("store",), ids_report)


def add_pds_report(app: typer.Typer) -> None:
    from trawlnet.crawlers.pds.config import PdsConfig

    _add(app, "pds", PdsConfig, ("registry",), pds_report)


def _add(
    app: typer.Typer,
    name: str,
    config: type[BaseModel],
    keys: tuple[str, ...],
    verb: Callable[..., int],
) -> None:
    app.command(
        "report",
        epilog=f"Example: trawlnet {name} report -w ./net -o report.html",
        context_settings=variables(name),
    )(with_flags(config, keys, verb))


def web_report(
    *, workspace: Folder, output: Output = _PAGE, json: Json = False, flags: Mapping[str, Any]
) -> int:
    """Show what a web crawl has captured: by host, type, status, depth, size and hour.

    The capture log is read once, in bounded memory, also while a crawl runs; of a fleet, what its
    archive lists. With --json the figures go to stdout, and no page is written.
    """
    from trawlnet.crawlers.web.build import open_ledger
    from trawlnet.crawlers.web.config import WebConfig
    from trawlnet.crawlers.web.report import WebFacts, as_json, as_report
    from trawlnet.sink.counters import latest

    place = Workspace(workspace, "web")
    config = load_section(place, WebConfig, flags).config
    where = config.archive or shown(place.path)
    seen = _seen_in_archive(config.archive) if config.archive else _seen_here(workspace)

    async def counted() -> Counts:
        async with open_ledger(config, place.state) as ledger:
            return await ledger.counts()

    counters = latest(workspace / config.metrics.crawler_csv)
    facts = WebFacts(seen, asyncio.run(counted()), counters)
    return _tell(json, output, lambda: as_json(facts), lambda now: as_report(facts, where, now))


def _seen_here(workspace: Path) -> WebSurvey:
    from trawlnet.crawlers.web.survey import log_bytes, survey_captures

    place = find(workspace, "web")
    if not (total := log_bytes(workspace)):
        raise _nothing(place)
    with progress_bar("reading", total) as progress:
        return survey_captures(workspace, progress)


def _seen_in_archive(archive: str) -> WebSurvey:
    from trawlnet.cli.web_replay import archived_at
    from trawlnet.crawlers.web.survey import survey_archive
    from trawlnet.sink.capture_archive import LOGS

    objects = archived_at(archive)
    with progress_bar("reading", sum(objects.sizes(LOGS).values())) as progress:
        return survey_archive(objects, progress)


def ids_report(
    *, workspace: Folder, output: Output = _PAGE, json: Json = False, flags: Mapping[str, Any]
) -> int:
    """Show how an ids crawl has kept up: lag, gaps, decisions; and what `ids store` has stored.

    Nothing is written but the page, so that a crawl and a store may run meanwhile.
    """
    from trawlnet.crawlers.ids.config import IdsConfig
    from trawlnet.crawlers.ids.report import as_json, as_report
    from trawlnet.crawlers.ids.survey import survey_ids

    place = find(workspace, "ids")
    config = load_section(place, IdsConfig, flags).config
    facts = asyncio.run(survey_ids(config, workspace))
    if facts is None:
        raise _nothing(place)
    where = shown(place.path)
    return _tell(json, output, lambda: as_json(facts), lambda now: as_report(facts, where, now))


def pds_report(
    *, workspace: Folder, output: Output = _PAGE, json: Json = False, flags: Mapping[str, Any]
) -> int:
    """Show the registry of PDSes: by status and source, scans, records, and what failed.

    Nothing is written but the page, so that scans may go on meanwhile.
    """
    from trawlnet.crawlers.pds.build import registry_place
    from trawlnet.crawlers.pds.config import PdsConfig
    from trawlnet.crawlers.pds.report import as_json, as_report
    from trawlnet.observe.history import read_history
    from trawlnet.observe.live import HISTORY
    from trawlnet.tables.registry_report import registry_figures

    here = Workspace(workspace, "pds")
    config = load_section(here, PdsConfig, flags).config
    place = here if "://" in config.registry else find(workspace, "pds")
    figures = asyncio.run(registry_figures(registry_place(config, workspace), time.time()))
    if figures is None:
        raise _nothing(place, "discover")
    history = read_history(place.state / HISTORY, 0.0, _SAMPLES)
    where = shown(place.path)

    def page(now: float) -> Report:
        return as_report(figures, history, where, now)

    return _tell(json, output, lambda: as_json(figures), page)


_SAMPLES = 20_000  # More than a history keeps.


def _tell(
    as_json: bool,
    output: Path,
    figures: Callable[[], Mapping[str, Any]],
    report: Callable[[float], Report],
) -> int:
    if as_json:
        emit(figures())
    else:
        write_report(report(time.time()), output)
    return 0


def _nothing(place: Workspace, verb: str = "crawl") -> CliError:
    where = shown(place.path)
    what = f"there is nothing of {place.crawler} in {where} to report on"
    return CliError(what, f"begin with: trawlnet {place.crawler} {verb} -w {where}")


def write_report(report: Report, output: Path) -> None:
    save_report(report, output)
    print(output)
    say(f"open it in a browser: {output.resolve().as_uri()}")


def save_report(report: Report, output: Path) -> None:
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
