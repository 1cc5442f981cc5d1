"""`trawlnet pds remove`, `ban`, `unban`, `bans`: servers that must not be contacted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from trawlnet.cli.common.errors import CliError, Exit, UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, argument, flag
from trawlnet.cli.common.output import emit, iso, say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import WRITES, Verb
from trawlnet.cli.common.workspace import Workspace, create, located
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.registry_place import opened_registry
from trawlnet.net.clock import SystemClock
from trawlnet.observe.lanes import shown as harmless
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.scanned.scanned import Scanned
from trawlnet.webpage.domain import is_address
from trawlnet.webpage.origin import canonical_host

_KEYS = ("registry",)
_CHARS = 200  # Characters of a name or reason that are shown.

Url = Annotated[str, argument("URL", "URL of the PDS.")]
Name = Annotated[str, argument("URL|DOMAIN", "URL of a PDS, or a domain with its subdomains.")]
Why = Annotated[str, flag("--reason TEXT", "Reason, shown by `pds bans`.")]
Erase = Annotated[bool, flag("--erase", "Erase its records instead of marking them as deleted.")]


def remove(
    *,
    url: Url,
    workspace: Folder,
    erase: Erase = False,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Delete a PDS from the registry, with its scan progress and its records.

    Discovery can add it again; `ban` prevents that.
    """

    async def act() -> list[str]:
        async with _opened(workspace, flags) as (registry, scanned):
            known = await registry.remove(url)
            if known is not None:
                await scanned.remove(known, _now(), erase=erase)
            return [known] if known else []

    urls = asyncio.run(act())
    place = Workspace(workspace, "pds", given=located(flags)).place
    _tell(urls, json)
    if not urls:
        raise CliError(
            f"not in the registry: {harmless(url, _CHARS)}",
            f"list the registry: trawlnet pds list {place}",
        )
    if not json:
        ban_it = f"trawlnet pds ban {place} {quote(urls[0])}"
        say(f"hint: discovery can add it again; to prevent that: {ban_it}")
    return Exit.DONE


def ban(
    *,
    name: Name,
    workspace: Folder,
    reason: Why = "",
    erase: Erase = False,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Remove a PDS or a whole domain, and never contact or register it again."""
    host = host_of(name)

    async def act() -> list[str]:
        async with _opened(workspace, flags) as (registry, scanned):
            urls = await registry.bans.add(host, reason[:_CHARS], _now())
            for url in urls:
                await scanned.remove(url, _now(), erase=erase)
            return urls

    _tell(asyncio.run(act()), json, banned=host)
    return Exit.DONE


def unban(*, name: Name, workspace: Folder, json: Json = False, flags: Mapping[str, Any]) -> int:
    """Allow a PDS or a domain to be registered again."""
    host = host_of(name)

    async def act() -> bool:
        async with _opened(workspace, flags) as (registry, _):
            return await registry.bans.lift(host)

    lifted = asyncio.run(act())
    if json:
        emit({"name": host, "unbanned": lifted})
    elif lifted:
        say(f"no longer banned: {host}")
    if not lifted:
        place = Workspace(workspace, "pds", given=located(flags)).place
        raise CliError(f"not banned: {host}", f"list the bans: trawlnet pds bans {place}")
    return Exit.DONE


def bans(*, workspace: Folder, json: Json = False, flags: Mapping[str, Any]) -> int:
    """List bans and their reasons."""

    async def act() -> int:
        async with _opened(workspace, flags) as (registry, _):
            for one in await registry.bans.all():
                row = {"name": one.name, "reason": one.reason, "banned_at": iso(one.banned_at)}
                if json:
                    emit(row)
                else:
                    print(f"{one.name}  {iso(one.banned_at)}  {harmless(one.reason, _CHARS)}")
        return Exit.DONE

    return asyncio.run(act())


def host_of(text: str) -> str:
    """The host of a URL, or a domain. Raises UsageTrouble."""
    host = canonical_host(text)
    if "." not in host and ":" not in host:
        raise UsageTrouble(f"{text!r} is neither a host nor a domain", "write it like pds.example")
    return host


def _tell(urls: Sequence[str], as_json: bool, banned: str = "") -> None:
    if as_json:
        emit({"removed": list(urls)} | ({"banned": banned} if banned else {}))
        return
    for url in urls:
        say(f"removed: {url}")
    if banned:
        say(f"banned: {banned}{'' if is_address(banned) else ', and its subdomains'}")


@asynccontextmanager
async def _opened(path: Path, flags: Mapping[str, Any]) -> AsyncIterator[tuple[Registry, Scanned]]:
    config = load_section(Workspace(path, "pds"), PdsConfig, flags).config
    create(path, "pds")
    # The registry finds a PDS by its URL, also one with a private address.
    anywhere = config.model_copy(update={"allow_private_hosts": True})
    async with opened_registry(anywhere, path) as registry:
        scanned = Scanned(registry.db)
        await scanned.migrate()
        yield registry, scanned


def _now() -> float:
    return SystemClock().now()


REMOVE, BAN, UNBAN, BANS = (
    Verb(verb, f"pds {verb.__name__} -w ./net {rest}", WRITES, "pds", PdsConfig, _KEYS)
    for verb, rest in (
        (remove, "https://pds.example"),
        (ban, "pds.example --reason 'asked by mail'"),
        (unban, "pds.example"),
        (bans, "--json"),
    )
)
