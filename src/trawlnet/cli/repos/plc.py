"""`trawlnet repos plc`: mirror the PLC directory into the tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.flags import Folder, Json, flag
from trawlnet.cli.common.output import at_once_and_then, emit, listed, now_and_then, say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import RUNS, Verb
from trawlnet.cli.common.workspace import Workspace, create, shown
from trawlnet.cli.crawl.signals import stop_event
from trawlnet.crawlers.atproto.mirror import PlcMirror
from trawlnet.crawlers.atproto.reader import Directory, MirrorCounts, Wait
from trawlnet.crawlers.atproto.stream import LARGEST_MESSAGE
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.reachable import check_reachable
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.tables_place import TABLES, tables_place
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import Manners
from trawlnet.net.client.socket_ends import SocketLimits
from trawlnet.net.client.websocket import open_websocket
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.plc import mirror_counts, refusals
from trawlnet.tables.clickhouse.ports import Tables
from trawlnet.webpage.origin import canonical_origin

CLICKHOUSE = (
    "clickhouse_address",
    "clickhouse_username",
    "clickhouse_password",
    "clickhouse_database",
)
_KEYS = ("plc_url", "plc_rps", *CLICKHOUSE, "allow_private_hosts", "contact")

Follow = Annotated[
    bool,
    flag(
        "--follow",
        "Keep running, and mirror new operations until stopped: by the directory's stream "
        "if it has one, else by polling every few seconds.",
    ),
]


def plc(
    *, workspace: Folder, follow: Follow = False, json: Json = False, flags: Mapping[str, Any]
) -> int:
    """Mirror the PLC directory: every operation, and the current state of each DID.

    Continues where it stopped; ends when the mirror is up to date.
    """
    config = load_section(Workspace(workspace, "repos"), ReposConfig, flags).config
    agent_for(config.contact, allow_private=config.allow_private_hosts)
    directory_url(config)
    create(workspace, "repos")
    return asyncio.run(_mirror(config, workspace, follow, json))


async def _mirror(config: ReposConfig, path: Path, follow: bool, as_json: bool) -> int:
    clock = SystemClock()
    async with (
        open_directory(config, clock) as directory,
        opened(tables_place(config, path)) as tables,
    ):
        with stop_event("storing the operations that were read") as stop:
            say(f"mirroring {directory.url} into {_where(config, path)}")
            directory = replace(directory, on_wait=at_once_and_then(clock, wait_line))
            mirror = PlcMirror(directory, tables, stop, follow=follow)
            await mirror.run(_progress(clock))
        code = Exit.INTERRUPTED if stop.is_set() else Exit.DONE
        await _sum_up(mirror, tables, code, as_json)
    if code is Exit.INTERRUPTED:
        say(f"hint: continue: trawlnet repos plc -w {shown(path)}, with the same flags")
    return code


def _progress(clock: Clock) -> Callable[[MirrorCounts], None]:
    """A line now and then, and one as soon as the mirror is up to date: a stream that is quiet
    gives no occasion for another."""
    now_then, begun, has_said = now_and_then(clock, _line), clock.now(), False

    def tell(tally: MirrorCounts) -> None:
        nonlocal has_said
        if tally.caught_up and not has_said:
            has_said = True
            say(_line(tally, max(clock.now() - begun, 0.001)))
        else:
            now_then(tally)

    return tell


def wait_line(wait: Wait) -> str:
    what = "operations" if wait.was_answered else "answer"
    return f"no {what} from {wait.url}: {wait.why}; retrying in {wait.seconds:.0f} s"


def _where(config: ReposConfig, path: Path) -> str:
    return config.clickhouse_address or shown(path / TABLES)


def _line(tally: MirrorCounts, seconds: float) -> str:
    return (
        f"plc: {tally.operations:,} operations, {tally.operations / seconds:,.0f}/s, "
        f"{tally.form} {tally.position}{', up to date' if tally.caught_up else ''}"
        f"{', by stream' if tally.stream == 'open' else ''}"
    )


async def _sum_up(mirror: PlcMirror, tables: Tables, code: Exit, as_json: bool) -> None:
    tally, counts, refused = mirror.tally, await mirror_counts(tables), await refusals(tables)
    if as_json:
        run = {"pages": tally.pages, "operations": tally.operations, "retries": tally.retries}
        run |= {
            name: getattr(tally, name) for name in ("malformed", "orphans", "crowded", "streamed")
        }
        row = {"event": "summary", "exit_code": int(code), "up_to_date": tally.caught_up}
        row |= {"form": str(tally.form), "position": tally.position, "run": run}
        emit(row | {**counts, "refused": refused})
        return
    say(
        f"{'up to date' if tally.caught_up else 'stopped, saved'}: "
        f"{counts['operations']:,} operations ({tally.operations:,} in this run) of "
        f"{counts['dids']:,} DIDs; {counts['with_pds']:,} on {counts['pds']:,} PDS hosts, "
        f"{counts['tombstoned']:,} tombstoned"
    )
    if refused:
        say(f"unusable PDS endpoints, by reason: {listed(refused)}")
    if tally.malformed:
        say(f"{tally.malformed:,} lines of the export were malformed and skipped")
    if tally.crowded:
        say(
            f"{tally.crowded:,} timestamps had more operations than one export page "
            "returns; some may be missing"
        )


PLC = Verb(plc, "repos plc -w ./net --contact you@example.org", RUNS, "repos", ReposConfig, _KEYS)


_STREAM = SocketLimits(message=LARGEST_MESSAGE)
_NEVER = 1 << 30  # Failures; the mirror itself decides when to give up.


@asynccontextmanager
async def open_directory(config: ReposConfig, clock: Clock) -> AsyncIterator[Directory]:
    """The PLC directory to mirror, one request at a time. Raises NotReady."""
    private, url = config.allow_private_hosts, directory_url(config)
    agent = agent_for(config.contact, allow_private=private)
    gate = Gate(clock, Manners(rate=config.plc_rps, concurrency=1, block_at=_NEVER))
    guard = Guard(allow_private=private)
    stream = partial(open_websocket, agent=agent, guard=guard, limits=_STREAM)
    async with Http(gate, clock, agent, guard=guard) as http:
        yield Directory(url, http, gate, clock, private, open_stream=stream)


def directory_url(config: ReposConfig) -> str:
    """Raises NotReady for one that is no URL, or that we may not ask."""
    origin = canonical_origin(config.plc_url, allow_private=True)
    if not origin.url:
        raise NotReady(
            f"{config.plc_url!r} is not the URL of a PLC directory",
            "write it like --plc-url https://plc.directory",
        )
    check_reachable(origin.url, allow_private=config.allow_private_hosts)
    return origin.url
