"""From config and workspace to the parts of a crawl.

For now a repository is kept as the CAR that its server sent, in a content-addressed folder with an
index beside it; the archive format takes their place.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.metered import MeteredHttp
from trawlnet.crawlers.repos.config import ReposConfig, manners
from trawlnet.crawlers.repos.handler import ReposHandler
from trawlnet.crawlers.repos.listing import HostRules
from trawlnet.crawlers.repos.source import RelaySource
from trawlnet.engine.crawl import Parts
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock, Ledger
from trawlnet.net.agent import user_agent
from trawlnet.net.answer import Limits
from trawlnet.net.dial import Pools
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.lane import lane_of
from trawlnet.observe.metrics import Metrics
from trawlnet.sink.blobs import BlobStore
from trawlnet.sink.records import RecordSink
from trawlnet.store.open import open_store

INDEX = Path("archive", "index.jsonl")
CARS = Path("archive", "cars")
_STORE = "store"


@asynccontextmanager
async def open_parts(
    config: ReposConfig, workspace: Path, clock: Clock, metrics: Metrics
) -> AsyncIterator[Parts]:
    """Everything that a crawl needs, let go of at the end. Raises NotReady."""
    source, agent = RelaySource([_server(relay) for relay in config.relay]), _agent(config)
    rules = HostRules(config.allow_private_hosts, frozenset(map(_skipped, config.skip_pds)))
    async with AsyncExitStack() as stack:
        store = await open_store(
            config.redis_address or workspace / "state" / "repos" / _STORE, owner=_owner(workspace)
        )
        stack.push_async_callback(store.close)
        if not config.relay and not (await store.counts()).known:
            raise NotReady("no relay to ask for hosts", "name one: --relay https://relay.example")
        blobs = BlobStore(workspace / CARS, suffix=".car")
        stack.callback(blobs.close)
        sink = RecordSink(blobs, workspace / INDEX)
        stack.callback(sink.close)
        gate = Gate(clock, manners(config))
        http = await stack.enter_async_context(_http(config, gate, clock, agent))
        handler = ReposHandler(MeteredHttp(http, metrics.http), rules, _repo_limits(config))
        yield Parts(source, store, handler, sink, gate, clock)


@asynccontextmanager
async def open_ledger(config: ReposConfig, state: Path) -> AsyncIterator[Ledger]:
    """The store alone, for commands that look back; without a name, it takes no work over."""
    store = await open_store(config.redis_address or _begun(state))
    try:
        yield store
    finally:
        await store.close()


def _begun(state: Path) -> Path | str:
    """Looking at a crawl that never began must not begin one."""
    return state / _STORE if (state / _STORE).exists() else "memory:"


def _owner(workspace: Path) -> str:
    """Known across restarts, so that what a killed process had leased is free at once."""
    return f"{socket.gethostname()}:{workspace.resolve()}"


def _http(config: ReposConfig, gate: Gate, clock: Clock, agent: str) -> Http:
    return Http(
        gate,
        clock,
        agent,
        guard=Guard(allow_private=config.allow_private_hosts),
        limits=_repo_limits(config),
        # Waiting for a connection counts against the request: there is one for every worker.
        pools=Pools(total=max(config.workers, 64), per_host=config.pds_concurrency),
    )


def _repo_limits(config: ReposConfig) -> Limits:
    return Limits(
        total=config.request_timeout,
        connect=config.connect_timeout,
        wire=config.max_repo_size,
        inflated=config.max_repo_size,
    )


def _server(url: str) -> str:
    scheme, colon, rest = url.partition("://")
    host = rest.rstrip("/")
    if scheme not in ("http", "https") or not colon or not host or "/" in host:
        raise NotReady(f"{url!r} is not the URL of a server", "write it like https://relay.example")
    return f"{scheme}://{host}"


def _skipped(pds: str) -> str:
    try:
        return lane_of(pds if "://" in pds else f"https://{pds}")
    except ValueError as error:
        raise NotReady(f"{pds!r} is not a host", "write it like pds.example") from error


_NOBODY = "nobody@private.invalid"  # In a private world there is nobody else to complain.


def _agent(config: ReposConfig) -> str:
    contact = config.contact or (_NOBODY if config.allow_private_hosts else "")
    if not contact:
        raise NotReady(
            "the hosts that are crawled must be able to reach you",
            "give an address or a web page: --contact you@example.org",
        )
    try:
        return user_agent(contact)
    except ValueError as error:
        raise NotReady(str(error), "give an address or a web page: --contact you@x.org") from error
