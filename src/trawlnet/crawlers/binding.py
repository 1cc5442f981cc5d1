"""One Redis, one crawl: two that share the keys would each do a part of one crawl."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from trawlnet.crawlers.errors import NotReady
from trawlnet.engine.durable import make_directory
from trawlnet.engine.ports import Ledger
from trawlnet.storage.files import replace_file
from trawlnet.stores.open import open_store
from trawlnet.stores.redis.work.store import RedisStore

_KEY = "workspace"
_FILE = "redis-workspace"
_UNNAMED = "repos"  # The first crawler that wrote its workspace down did not say which it was.


async def bind(store: Ledger, workspace: Path, crawler: str) -> None:
    """Write down in Redis whose crawl it is, and in the workspace under which name, so that a
    workspace that was moved is still known. Raises NotReady for another's keys."""
    if not isinstance(store, RedisStore):
        return
    state = workspace / "state" / crawler
    await store.ask("SET", _KEY, _name_of(workspace, crawler), "NX")
    holder = (await store.ask("GET", _KEY)).decode()
    if holder not in _names_of(workspace, crawler):
        raise NotReady(
            f"this Redis database holds the crawl of another workspace: {holder}",
            "give each crawl a database of its own, such as redis://HOST:PORT/1; if that "
            f"workspace is gone, forget its crawl first: trawlnet {_crawler_of(holder)} reset, "
            "with the same --store",
        )
    make_directory(state)
    replace_file(state / _FILE, holder.encode())


async def other_holder(url: str, workspace: Path, crawler: str) -> str:
    """Whose crawl this Redis holds, if it is not that of this workspace; empty if it is, and for
    the crawl of a fleet, which belongs to no workspace."""
    store = await open_store(url, begin=False)
    try:
        holder = await store.ask("GET", _KEY) if isinstance(store, RedisStore) else None
    finally:
        await store.close()
    name = (holder or b"").decode()
    return "" if name in _names_of(workspace, crawler) else name


def is_still_here(holder: str) -> bool:
    """Whether the workspace of that name is a folder of this machine."""
    host, _, named = holder.partition(":")
    path = Path(re.sub(r" \(\w+\)$", "", named))
    return host == socket.gethostname() and path.exists()


def _names_of(workspace: Path, crawler: str) -> tuple[str, str]:
    return _name_of(workspace, crawler), _name_in(workspace / "state" / crawler)


def _name_of(workspace: Path, crawler: str) -> str:
    name = f"{socket.gethostname()}:{workspace.resolve()}"
    return name if crawler == _UNNAMED else f"{name} ({crawler})"


def _crawler_of(name: str) -> str:
    named = re.search(r" \((\w+)\)$", name)
    return named[1] if named else _UNNAMED


def _name_in(state: Path) -> str:
    path = state / _FILE
    return path.read_text(encoding="utf-8") if path.exists() else ""
