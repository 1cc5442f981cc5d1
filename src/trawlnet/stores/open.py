"""Opens the store that the configuration names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from trawlnet.engine.ports import Store
from trawlnet.loading import load
from trawlnet.stores.errors import StoreError
from trawlnet.stores.fence import CounterDelta, Fence
from trawlnet.stores.lmdb.store import LmdbStore
from trawlnet.stores.memory import MemoryStore

if TYPE_CHECKING:
    from trawlnet.stores.redis.work.store import RedisStore

_REDIS_SCHEMES: Final = ("redis://", "rediss://", "unix://")


async def open_store(
    where: str | Path,
    *,
    remember_done: bool = True,
    owner: str | None = None,
    prefix: str = "crawler:",
    fence: Fence | None = None,
    begin: bool = True,
) -> Store[CounterDelta]:
    """`memory:`, a Redis URL, or a folder for an LMDB store; `owner`, `prefix` and
    `fence` are for Redis. Without `begin`, a missing folder is an empty store, and is not created:
    commands that only read must not start a crawl."""
    place = str(where)
    if place == "memory:":
        return MemoryStore(remember_done)
    if place.startswith(_REDIS_SCHEMES):
        return await _open_redis(place, remember_done, owner, prefix, fence)
    if "://" in place:
        raise StoreError(
            f"there is no store for {place.partition('://')[0]}:// addresses",
            "name a folder, or redis://host:port/number",
        )
    if not begin and not _has_begun(Path(where)):
        return MemoryStore(remember_done)
    return await LmdbStore.open(Path(where), remember_done=remember_done, look=not begin)


def _has_begun(folder: Path) -> bool:
    return folder.exists()


async def erase_store(url: str, *, prefix: str = "crawler:") -> None:
    """Delete the state of a crawl on a server; the caller deletes a folder."""
    store = await _open_redis(url, True, None, prefix)
    try:
        await store.erase()
    finally:
        await store.close()


async def _open_redis(
    url: str, remember_done: bool, owner: str | None, prefix: str, fence: Fence | None = None
) -> RedisStore:
    try:
        store: type[RedisStore] = load("trawlnet.stores.redis.work.store:RedisStore")
    except ImportError as error:
        raise StoreError(
            "a Redis store needs the Redis client, which is not installed",
            "pip install 'trawlnet[redis]'",
        ) from error
    return await store.open(
        url, owner=owner, prefix=prefix, remember_done=remember_done, fence=fence
    )
