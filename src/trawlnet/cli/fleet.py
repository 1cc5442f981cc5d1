"""`trawlnet fleet`: look at a crawl that many processes share, and steer it from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from trawlnet.cli.errors import CliError
from trawlnet.cli.flags import Folder, Json, variables, with_flags
from trawlnet.cli.fleet_plan import plan
from trawlnet.cli.sections import load_section
from trawlnet.cli.talk import emit, listed, say
from trawlnet.cli.workspace import Workspace
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.repos.config import ReposConfig

if TYPE_CHECKING:  # Only a command that asks Redis pays for the import.
    from trawlnet.fleet.supervise import Seen
    from trawlnet.store.redis_fleet import FleetKeys, Plan

app = typer.Typer(
    name="fleet",
    help="Look at a crawl by many processes, and steer it.",
    rich_markup_mode=None,
    epilog="Example: trawlnet fleet status --store redis://redis.example:6379/0",
)
T = TypeVar("T")
Flags = Mapping[str, Any]
Number = Annotated[
    int, typer.Argument(metavar="N", min=1, max=512, show_default=False, help="So many shards.")
]


def status(*, workspace: Folder, json: Json = False, flags: Flags) -> int:
    """Show what every shard is doing."""
    seen = asyncio.run(_look(_address(workspace, flags)))
    if json:
        from trawlnet.cli.fleet_show import fleet_row

        emit(fleet_row(seen))
    else:
        print(_text(seen))
    return 0


def scale(shards: Number, *, workspace: Folder, json: Json = False, flags: Flags) -> int:
    """Share the crawl among so many shards from now on; only what must move moves."""
    return _change(workspace, flags, json, shards=shards)


def drain(*, workspace: Folder, json: Json = False, flags: Flags) -> int:
    """Finish what is in flight, then end; the same crawl command goes on later."""
    return _change(workspace, flags, json, word="drain")


def stop(*, workspace: Folder, json: Json = False, flags: Flags) -> int:
    """End at once; what is in flight is done again when the crawl goes on."""
    return _change(workspace, flags, json, word="stop")


for _verb, _example in (
    (status, "status -w ./net --json"),
    (scale, "scale 4 --store redis://redis.example:6379/0"),
    (drain, "drain -w ./net"),
    (stop, "stop -w ./net"),
):
    app.command(
        _verb.__name__,
        epilog=f"Example: trawlnet fleet {_example}",
        context_settings=variables("repos") | {"allow_interspersed_args": True},
    )(with_flags(ReposConfig, ("store", "redis_address"), _verb))

app.command(
    "plan",
    epilog="Example: trawlnet fleet plan --hosts sizes.csv --shards 8",
    context_settings={"allow_interspersed_args": True},
)(with_flags(PdsConfig, ("registry",), plan))


def _address(workspace: Any, flags: Flags) -> str:
    config = load_section(Workspace(workspace, "repos"), ReposConfig, flags).config
    if not config.redis_address:
        raise CliError(
            "a fleet is found by its Redis, and none is named",
            "name it: --store redis://HOST:PORT/0, or in trawlnet.yaml",
        )
    return config.redis_address


async def _look(url: str) -> Seen:
    from trawlnet.fleet.supervise import Seen
    from trawlnet.store.redis import RedisStore

    store = await RedisStore.open(url)
    try:
        counts = await store.counts()
    finally:
        await store.close()

    async def ask(keys: FleetKeys) -> Seen:
        return Seen(await keys.plan(), await keys.statuses(), counts)

    return await _asked(url, ask)


def _change(workspace: Any, flags: Flags, as_json: bool, **fields: Any) -> int:
    async def ask(keys: FleetKeys) -> Plan:
        from trawlnet.store.redis_fleet import Word

        if (await keys.plan()).word is not Word.RUN:
            raise CliError(
                "no fleet is at work there", "start one: trawlnet repos crawl --fleet local"
            )
        return await keys.change(**fields)

    plan = asyncio.run(_asked(_address(workspace, flags), ask))
    if as_json:
        emit({"shards": plan.shards, "word": plan.word, "version": plan.version})
    else:
        say(f"told: {plan.word}, {plan.shards} shards; see: trawlnet fleet status")
    return 0


async def _asked(url: str, ask: Callable[[FleetKeys], Awaitable[T]]) -> T:
    from trawlnet.store.redis_fleet import FleetKeys

    keys = await FleetKeys.open(url)
    try:
        return await ask(keys)
    finally:
        await keys.close()


def _text(seen: Seen) -> str:
    from trawlnet.cli.fleet_show import fleet_line

    lines = [fleet_line(seen)]
    for shard, row in seen.shards.items():
        state = "draining" if row["draining"] else "its source is dry" if row["dry"] else "reading"
        lines.append(
            f"  shard {shard}: {row['node']} pid {row['pid']}, {row['rate']:g} tries/s, "
            f"{row['in_flight']} in flight, {state}; {listed(row['settled'])}"
        )
    return "\n".join(lines)
