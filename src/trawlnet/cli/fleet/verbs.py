"""`trawlnet fleet`: look at a crawl that many processes share, and steer it from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeVar

from trawlnet.cli.common.errors import CliError, UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, argument, flag
from trawlnet.cli.common.output import emit, listed, say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import READS, Verb
from trawlnet.cli.common.workspace import Workspace, located
from trawlnet.cli.fleet.command import fleet_line, fleet_row
from trawlnet.cli.ids.fleet import holders_row, holders_text
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.storing.locations import KEYS
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.ledger import redis_url
from trawlnet.fleet.standby import holders
from trawlnet.fleet.supervise import Seen
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Word
from trawlnet.stores.redis.work.store import RedisStore

T = TypeVar("T")
Flags = Mapping[str, Any]
Number = Annotated[int, argument("N", "Number of shards.", min=1, max=512)]
Whose = Annotated[
    bool, flag("--ids", "The fleet of an ids crawl: its active process and its standby.")
]


def status(*, workspace: Folder, ids: Whose = False, json: Json = False, flags: Flags) -> int:
    """Show the state of every shard."""
    if ids:
        return _show_holders(_address(workspace, flags, ids), json)
    seen = asyncio.run(_look(_address(workspace, flags)))
    if json:
        emit(fleet_row(seen))
    else:
        print(_text(seen))
    return 0


def scale(shards: Number, *, workspace: Folder, json: Json = False, flags: Flags) -> int:
    """Change the number of shards; only the lanes that must move are moved."""
    return _change(workspace, flags, json, shards=shards)


def drain(*, workspace: Folder, ids: Whose = False, json: Json = False, flags: Flags) -> int:
    """Finish the tasks in flight, then end; the same crawl command continues later."""
    return _change(workspace, flags, json, ids, word="drain")


def stop(*, workspace: Folder, ids: Whose = False, json: Json = False, flags: Flags) -> int:
    """End immediately; tasks in flight are repeated when the crawl continues."""
    return _change(workspace, flags, json, ids, word="stop")


def pause(*, workspace: Folder, json: Json = False, flags: Flags) -> int:
    """Finish the tasks in flight, then wait.

    `fleet resume` continues.
    """
    return _wish(workspace, flags, json, paused=True)


def resume(*, workspace: Folder, json: Json = False, flags: Flags) -> int:
    """Continue after a pause."""
    return _wish(workspace, flags, json, paused=False)


def _place(workspace: Any, flags: Flags) -> str:
    return Workspace(workspace, "repos", given=located(flags)).place


def _address(workspace: Any, flags: Flags, ids: bool = False) -> str:
    config = (
        load_section(Workspace(workspace, "ids"), IdsConfig, flags).config
        if ids
        else load_section(Workspace(workspace, "repos"), ReposConfig, flags).config
    )
    address = config.redis_address or ("" if ids else _of_web(workspace))
    if not address:
        raise UsageTrouble(
            "the address of the fleet's Redis is missing",
            "name it: --store redis://HOST:PORT/0, or in trawlnet.yaml",
        )
    return address


def _of_web(workspace: Any) -> str:
    return redis_url(load_section(Workspace(workspace, "web"), WebConfig).config)


async def _look(url: str) -> Seen:
    store = await RedisStore.open(url)
    try:
        counts = await store.counts()
    finally:
        await store.close()

    async def ask(keys: FleetKeys) -> Seen:
        return Seen(await keys.plan(), await keys.statuses(), counts)

    return await _asked(url, ask)


def _show_holders(url: str, as_json: bool) -> int:
    seen = asyncio.run(holders(url, KEYS))
    if as_json:
        emit(holders_row(seen))
    else:
        print(holders_text(seen))
    return 0


def _change(workspace: Any, flags: Flags, as_json: bool, ids: bool = False, **fields: Any) -> int:
    async def ask(keys: FleetKeys) -> FleetPlan:
        await _refuse_if_idle(keys, "ids" if ids else "repos", _place(workspace, flags))
        return await keys.change(**fields)

    plan = asyncio.run(_asked(_address(workspace, flags, ids), ask, KEYS if ids else "crawler:"))
    if as_json:
        emit({"shards": plan.shards, "word": plan.word, "version": plan.version})
    else:
        see = f"trawlnet fleet status {_place(workspace, flags)}{' --ids' if ids else ''}"
        say(f"sent to the fleet: {plan.word}, {plan.shards} shards; see: {see}")
    return 0


def _wish(workspace: Any, flags: Flags, as_json: bool, *, paused: bool) -> int:
    async def ask(keys: FleetKeys) -> None:
        await _refuse_if_idle(keys, "repos", _place(workspace, flags))
        await keys.window.wish(paused=paused)

    asyncio.run(_asked(_address(workspace, flags), ask))
    if as_json:
        emit({"paused": paused})
    else:
        see = f"trawlnet fleet status {_place(workspace, flags)}"
        say(f"sent to the fleet: {'pause' if paused else 'resume'}; see: {see}")
    return 0


async def _refuse_if_idle(keys: FleetKeys, crawler: str, place: str) -> None:
    if (await keys.plan()).word is not Word.RUN:
        hint = f"start one: trawlnet {crawler} crawl {place} --fleet local"
        raise CliError("no fleet is running there", hint)


async def _asked(url: str, ask: Callable[[FleetKeys], Awaitable[T]], prefix: str = "crawler:") -> T:
    keys = await FleetKeys.open(url, prefix=prefix)
    try:
        return await ask(keys)
    finally:
        await keys.close()


def _text(seen: Seen) -> str:
    lines = [fleet_line(seen)]
    for shard, row in seen.shards.items():
        lines.append(
            f"  shard {shard}: {row['node']} pid {row['pid']}, {row['rate']:g} attempts/s, "
            f"{row['in_flight']} in flight, {_state(row)}; {listed(row['settled'])}"
        )
    return "\n".join(lines)


def _state(row: Mapping[str, Any]) -> str:
    if row["draining"]:
        return "draining"
    if row.get("paused"):
        return "paused"
    return "its source is exhausted" if row["dry"] else "reading"


STATUS, SCALE, PAUSE, RESUME, DRAIN, STOP = (
    Verb(verb, f"fleet {example}", READS, "repos", ReposConfig, ("store", "redis_address"))
    for verb, example in (
        (status, "status -w ./net --json"),
        (scale, "scale 4 --store redis://redis.example:6379/0"),
        (pause, "pause -w ./net"),
        (resume, "resume -w ./net"),
        (drain, "drain -w ./net"),
        (stop, "stop -w ./net"),
    )
)
