"""Opens the ledger: in the workspace, or in Redis for the active process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.ledger.ledger import IdsLedger
from trawlnet.crawlers.ids.storing.locations import KEYS
from trawlnet.loading import load
from trawlnet.stores.errors import StoreError

if TYPE_CHECKING:
    from trawlnet.stores.redis.spans import SpanKeys

_LEDGER = "ledger"


async def ledger_to_write(
    config: IdsConfig, state: Path, lane: str = "", token: str = ""
) -> IdsLedger:
    """For the one writing process; in Redis its token identifies it."""
    if not config.redis_address:
        return await IdsLedger.open(state / _LEDGER, lane)
    ledger = await IdsLedger.over(partial(_keys, config, lane, token), lane)
    if ledger.first is None and _file_of(state).exists():
        await ledger.close()
        raise NotReady(
            "this workspace has a ledger of its own, and the one in Redis is empty",
            "name another workspace with -w to begin anew, or continue without --store",
        )
    return ledger


def is_begun(config: IdsConfig, state: Path) -> bool:
    """Whether there may be a ledger; one on a server must be queried."""
    return bool(config.redis_address) or _file_of(state).exists()


@asynccontextmanager
async def looked_at(config: IdsConfig, state: Path) -> AsyncIterator[IdsLedger | None]:
    """The present ledger, also while a crawl runs; None if there is none."""
    if not is_begun(config, state):
        yield None
        return
    if config.redis_address:
        ledger = await IdsLedger.over(partial(_keys, config))
    else:
        ledger = await IdsLedger.open(state / _LEDGER, readonly=True)
    try:
        yield ledger if ledger.first is not None else None
    finally:
        await ledger.close()


def check_shareable(config: IdsConfig) -> None:
    """Raises NotReady for a crawl that no standby could take over."""
    if config.redis_address and not config.queue:
        raise NotReady(
            "a ledger in Redis needs a queue that the standby process can reach, too",
            "name one: --queue amqp://USER:PASSWORD@HOST/",
        )
    if config.fleet and not config.redis_address:
        raise NotReady("a fleet keeps its state in Redis", "name one: --store redis://HOST:PORT/0")


def _file_of(state: Path) -> Path:
    return state / _LEDGER / "data.mdb"


def _keys(config: IdsConfig, lane: str = "", token: str = "") -> SpanKeys:
    try:
        keys: type[SpanKeys] = load("trawlnet.stores.redis.spans:SpanKeys")
    except ImportError as error:
        raise StoreError(
            "a ledger in Redis needs the Redis client, which is not installed",
            "pip install 'trawlnet[redis]'",
        ) from error
    return keys(config.redis_address, KEYS, lane=lane, token=token)
