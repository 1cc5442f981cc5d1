"""The state of a crawl in Redis, as commands look at it: where it is, and whose crawl it is."""

from __future__ import annotations

from pathlib import Path

from trawlnet.loading import load
from trawlnet.net.redact import redact
from trawlnet.stores.open import erase_store


def shown_keys(address: str, prefix: str = "crawler") -> str:
    """What `reset` deletes there; empty if the state is in the workspace."""
    return f"the keys {prefix}:* in {redact(address)}" if address else ""


async def holder_in(address: str, workspace: Path, crawler: str) -> str:
    """The workspace whose crawl is there, if it is another; else empty."""
    if not address:
        return ""
    holder: str = await load("trawlnet.crawlers.binding:other_holder")(address, workspace, crawler)
    return holder


async def erase(address: str) -> None:
    if address:
        await erase_store(address)
