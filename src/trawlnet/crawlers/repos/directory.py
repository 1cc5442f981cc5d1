"""What the config says about tables and the directory, opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trawlnet.crawlers.atproto.reader import Directory
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.reachable import check_reachable
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import Manners
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.webpage.origin import canonical_origin

_NEVER = 1 << 30  # Failures; the mirror itself decides when to give up.


@asynccontextmanager
async def open_directory(config: ReposConfig, clock: Clock) -> AsyncIterator[Directory]:
    """The PLC directory to mirror, one request at a time. Raises NotReady."""
    private, url = config.allow_private_hosts, directory_url(config)
    agent = agent_for(config.contact, allow_private=private)
    gate = Gate(clock, Manners(rate=config.plc_rps, concurrency=1, block_at=_NEVER))
    async with Http(gate, clock, agent, guard=Guard(allow_private=private)) as http:
        yield Directory(url, http, gate, clock, private)


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
