"""`trawlnet repos replay` and `repos query`: archives into the tables, and a look at them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from trawlnet.archive.reader import Place
from trawlnet.cli.common.archive_location import parse_place, reading, total_size
from trawlnet.cli.common.bar import progress_bar
from trawlnet.cli.common.errors import CliError, Exit, UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, argument, flag
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import READS, RUNS, Verb
from trawlnet.cli.common.workspace import Workspace, create, find, shown
from trawlnet.cli.crawl.signals import stop_event
from trawlnet.cli.repos.plc import CLICKHOUSE
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.replay.reading import CollectionFilter
from trawlnet.crawlers.repos.replay.replay import OneSegment, Replay, ReplayCounts
from trawlnet.crawlers.tables_place import tables_place
from trawlnet.loading import load
from trawlnet.net.clock import SystemClock
from trawlnet.observe.logs.writer import warnings_to
from trawlnet.storage.s3 import s3_options
from trawlnet.tables.clickhouse.open import opened, opened_to_read
from trawlnet.tables.clickhouse.records import forget_records
from trawlnet.tables.clickhouse.server import ClickHouseServer

_ARCHIVE = "archive"  # Folder of the workspace.
_WORKERS = 2

InputDir = Annotated[
    Any,
    flag(
        "--input-dir DIR",
        "Folder of segments, one of them, or s3://BUCKET/FOLDER [archive in the workspace].",
        parser=parse_place,
    ),
]
# The variable is the crawl's filter.
Globs = Annotated[
    list[str] | None,
    flag(
        "--collections GLOB",
        "Only these collections, like app.bsky.feed.*; may be repeated.",
        allow_from_autoenv=False,
    ),
]
# The variable is the crawl's crew.
Workers = Annotated[
    int | None,
    flag(
        "--workers N",
        "Segments replayed at the same time [2; in a fleet one per processor].",
        min=1,
        max=512,
        allow_from_autoenv=False,
    ),
]
# The variable is the crawl's fleet.
Fleet = Annotated[
    str,
    flag(
        "--fleet ADDRESS",
        "Replay with many processes: local, or the address of a Ray cluster.",
        show_default=False,
        allow_from_autoenv=False,
    ),
]
Truncate = Annotated[bool, flag("--truncate", "Empty the table repo_records first.")]
Sql = Annotated[str, argument("SQL", "The query.")]


@dataclass(frozen=True, slots=True)
class _ReplayRequest:
    config: ReposConfig
    workspace: Path
    place: Place
    globs: tuple[str, ...]
    truncate: bool
    as_json: bool


@dataclass(frozen=True, slots=True)
class _Crew:
    """Who replays segments, and how many at once."""

    workers: int
    elsewhere: OneSegment | None = None


def replay(
    *,
    workspace: Folder,
    input_dir: InputDir = None,
    collections: Globs = None,
    workers: Workers = None,
    fleet: Fleet = "",
    truncate: Truncate = False,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Load an archive into the table repo_records.

    Skips segments that were replayed before; replaying one twice changes nothing.
    """
    if input_dir is None:
        find(workspace, "repos")
    config = load_section(Workspace(workspace, "repos"), ReposConfig, flags).config
    place = input_dir or workspace / _ARCHIVE
    if fleet and isinstance(place, Path):
        place = place.resolve()  # The nodes have folders of their own that they work in.
    create(workspace, "repos")
    asked = _ReplayRequest(config, workspace, place, tuple(collections or ()), truncate, json)
    with _crew(asked, fleet, workers) as crew:
        return asyncio.run(_replay(asked, crew))


@contextmanager
def _crew(asked: _ReplayRequest, fleet: str, workers: int | None) -> Iterator[_Crew]:
    """Before the event loop: Ray must not be started from inside of one."""
    if not fleet:
        yield _Crew(workers or _WORKERS)
        return
    server = tables_place(asked.config, asked.workspace)
    if not isinstance(server, ClickHouseServer):
        raise UsageTrouble(
            "a fleet replays into a ClickHouse server, and none is named",
            "name it: --clickhouse-address HOST:PORT",
        )
    ray_tasks = load("trawlnet.fleet.ray:ray_tasks")
    with warnings_to(say), ray_tasks(fleet) as tasks:
        fleet_replay = load("trawlnet.fleet.replay:FleetReplay")
        elsewhere = fleet_replay(tasks, asked.globs, server, s3_options(os.environ))
        yield _Crew(workers or tasks.cpus, elsewhere)


async def _replay(asked: _ReplayRequest, crew: _Crew) -> int:
    clock = SystemClock()
    begun = clock.now()
    with reading(asked.place, "name the folder of segment_0001.rca: --input-dir"):
        total = total_size(asked.place)
        async with opened(tables_place(asked.config, asked.workspace)) as tables:
            if asked.truncate:
                await forget_records(tables)
            with (
                stop_event("storing the rows that were read") as stop,
                progress_bar("replaying", total) as progress,
            ):
                job = Replay(tables, CollectionFilter(asked.globs), stop, progress, crew.elsewhere)
                await job.run(asked.place, crew.workers)
    seconds = clock.now() - begun
    code = Exit.ERROR if job.done.damage else Exit.INTERRUPTED if stop.is_set() else Exit.DONE
    _sum_up(job.done, seconds, code, asked.as_json)
    return code


def _sum_up(done: ReplayCounts, seconds: float, code: Exit, as_json: bool) -> None:
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
        say(f"damaged: {done.untold:,} more places, not listed")
    say(
        f"{'stopped, saved' if code is Exit.INTERRUPTED else 'replayed'}: {done.records:,} records "
        f"of {done.repos:,} repos from {done.segments:,} segments "
        f"({done.skipped:,} already replayed), {done.records / max(seconds, 0.001):,.0f}/s"
    )


def query(sql: Sql, *, workspace: Folder, json: Json = False, flags: Mapping[str, Any]) -> int:
    """Run a SQL query on the tables, and print the rows.

    Repeated rows count once, as if each table were followed by FINAL. Works while
    a crawl runs. On a server, an account that may only read is enough.
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
    async with opened_to_read(tables_place(config, workspace)) as tables:
        async for piece in tables.stream(sql, layout):
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


REPLAY = Verb(
    replay,
    "repos replay -w ./net --collections 'app.bsky.feed.*'",
    RUNS,
    "repos",
    ReposConfig,
    CLICKHOUSE,
)
QUERY = Verb(
    query,
    "repos query -w ./net 'DESCRIBE TABLE repo_records'",
    READS,
    "repos",
    ReposConfig,
    CLICKHOUSE,
)
