"""One Redis, one workspace: two that share the keys would each archive a part of one crawl."""

from __future__ import annotations

from pathlib import Path

from trawlnet.crawlers.errors import NotReady
from trawlnet.engine.durable import make_directory
from trawlnet.engine.ports import Ledger
from trawlnet.storage.files import replace_file
from trawlnet.stores.redis.work.store import RedisStore

_KEY = "workspace"
_FILE = "redis-workspace"


async def bind(store: Ledger, state: Path, owner: str) -> None:
    """Write down in Redis whose crawl it is, and in the workspace under which name, so that a
    workspace that was moved is still known. Raises NotReady for another's keys."""
    if not isinstance(store, RedisStore):
        return
    names = {owner, _name_in(state)}
    await store.ask("SET", _KEY, owner, "NX")
    holder = (await store.ask("GET", _KEY)).decode()
    if holder not in names:
        raise NotReady(
            f"this Redis database holds the crawl of another workspace: {holder}",
            "give each workspace a database of its own, such as redis://HOST:PORT/1; if that "
            "workspace is gone, forget its crawl first: trawlnet repos reset",
        )
    _write_down(state, holder)


def _name_in(state: Path) -> str:
    path = state / _FILE
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _write_down(state: Path, name: str) -> None:
    make_directory(state)
    replace_file(state / _FILE, name.encode())
