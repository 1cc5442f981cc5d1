"""`trawlnet repos replay` and `repos query`: archives into the tables, and a look at them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trawlnet.cli.bar import progress_bar
from trawlnet.cli.errors import CliError, Exit
from trawlnet.cli.flags import Folder, Json, variables, with_flags
from trawlnet.cli.place import parse_place, reading, total_size
from trawlnet.cli.plc import CLICKHOUSE, stopped_by_signals
from trawlnet.cli.sections import load_section
from trawlnet.cli.talk import emit, say
from trawlnet.cli.workspace import Workspace, create, find, shown
from trawlnet.crawlers.repos.config import ReposConfig

if TYPE_CHECKING:  # Only a replay that runs pays for the import.
    from trawlnet.archive.segment import Place
    from trawlnet.crawlers.repos.replay import Replayed

_ARCHIVE = "archive"  # Folder of the workspace.

InputDir = Annotated[
    Any,
    typer.Option(
        "--input-dir",
        metavar="DIR",
        parser=parse_place,
        show_envvar=False,
        help="Folder of segments, one of them, or s3://BUCKET/FOLDER [archive in the workspace].",
    ),
]
Globs = Annotated[
    list[str] | None,
    typer.Option(
        "--collections",
        metavar="GLOB",
        show_envvar=False,
        allow_from_autoenv=False,  # The variable is the crawl's filter.
        help="Only these, like app.bsky.feed.*; may be repeated.",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        max=64,
        show_envvar=False,
        allow_from_autoenv=False,  # The variable is the crawl's crew.
        help="Segments at once.",
    ),
]
Truncate = Annotated[
    bool,
    typer.Option("--truncate", show_envvar=False, help="Empty the table of records first."),
]
Sql = Annotated[str, typer.Argument(metavar="SQL", show_default=False, help="What to ask.")]


def add_table_verbs(app: typer.Typer) -> None:
    for verb, example in (
        (replay, "replay -w ./net --collections 'app.bsky.feed.*'"),
        (query, "query -w ./net 'DESCRIBE TABLE repo_records'"),
    ):
        app.command(
            verb.__name__,
            epilog=f"Example: trawlnet repos {example}",
            context_settings=variables("repos") | {"allow_interspersed_args": True},
        )(with_flags(ReposConfig, CLICKHOUSE, verb))


def replay(
    *,
    workspace: Folder,
    input_dir: InputDir = None,
    collections: Globs = None,
    workers: Workers = 2,
    truncate: Truncate = False,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Fill the table repo_records from an archive.

    Segments that were replayed before are left out; to repeat one changes nothing.
    """
    if input_dir is None:
        find(workspace, "repos")
    config = load_section(Workspace(workspace, "repos"), ReposConfig, flags).config
    place = input_dir or workspace / _ARCHIVE
    create(workspace, "repos")
    globs = tuple(collections or ())
    return asyncio.run(_replay(config, workspace, place, globs, workers, truncate, json))


async def _replay(
    config: ReposConfig,
    workspace: Path,
    place: Place,
    globs: tuple[str, ...],
    workers: int,
    truncate: bool,
    as_json: bool,
) -> int:
    from trawlnet.crawlers.repos.replay import Replay
    from trawlnet.crawlers.repos.replay_read import Filter
    from trawlnet.crawlers.repos.tabled import tables_place
    from trawlnet.net.clock import SystemClock
    from trawlnet.tables.open import opened
    from trawlnet.tables.records import forget_records

    clock = SystemClock()
    begun = clock.now()
    with reading(place, "name the folder of segment_0001.rca: --input-dir"):
        total = total_size(place)
        async with opened(tables_place(config, workspace)) as tables:
            if truncate:
                await forget_records(tables)
            with stopped_by_signals() as stop, progress_bar("replaying", total) as progress:
                job = Replay(tables, Filter(globs), stop, progress)
                await job.run(place, workers)
    seconds = clock.now() - begun
    code = Exit.ERROR if job.done.damage else Exit.INTERRUPTED if stop.is_set() else Exit.DONE
    _sum_up(job.done, seconds, code, as_json)
    return code


def _sum_up(done: Replayed, seconds: float, code: Exit, as_json: bool) -> None:
    names = ("segments", "skipped", "repos", "records", "repeats", "removed")
    if as_json:
        row: dict[str, Any] = {"event": "summary", "exit_code": int(code)}
        row |= {name: getattr(done, name) for name in names} | {"seconds": round(seconds, 3)}
        row["damage"] = [
            {"file": str(one.path), "offset": one.offset, "what": one.what} for one in done.damage
        ]
        emit(row)
        return
    for damage in done.damage:
        say(f"damaged: {damage}")
    if done.untold:
        say(f"damaged: {done.untold:,} more places")
    say(
        f"{'stopped, saved' if code is Exit.INTERRUPTED else 'replayed'}: {done.records:,} records "
        f"of {done.repos:,} repos from {done.segments:,} segments "
        f"({done.skipped:,} were replayed before), {done.records / max(seconds, 0.001):,.0f}/s"
    )


def query(sql: Sql, *, workspace: Folder, json: Json = False, flags: Mapping[str, Any]) -> int:
    """Ask the tables something, and print the rows.

    Repeated rows count once, as if each table were followed by FINAL.
    """
    config = load_section(Workspace(workspace, "repos"), ReposConfig, flags).config
    if not config.clickhouse_address:
        find(workspace, "repos")
        if not (workspace / "tables").exists():
            raise CliError(
                f"there are no tables in {shown(workspace)}",
                f"make some: trawlnet repos plc -w {shown(workspace)}",
            )
    layout = "JSONEachRow" if json else "PrettyCompactMonoBlock"
    asyncio.run(_query(config, workspace, sql.strip().rstrip(";"), layout))
    return 0


async def _query(config: ReposConfig, workspace: Path, sql: str, layout: str) -> None:
    from trawlnet.crawlers.repos.tabled import tables_place
    from trawlnet.tables.open import opened

    async with opened(tables_place(config, workspace)) as tables:
        async for piece in tables.stream(sql, layout):
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
