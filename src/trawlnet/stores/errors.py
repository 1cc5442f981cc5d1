"""What can go wrong with the memory of a crawl, each with what to do about it."""

from __future__ import annotations

from trawlnet.engine import ports
from trawlnet.hinted import Hinted


class StoreError(Hinted):
    """The store cannot go on; nothing that it had confirmed is lost."""


class StoreUnreachable(StoreError):
    """The server that holds the store does not answer."""


class StateLost(StoreError):
    """The server is there, and no longer has what it had."""


class Fenced(StoreError):
    """Another shard has taken our lanes over: what we know of them is out of date."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "nothing is lost: whoever replaced this shard does it again")


class UnstorableKey(StoreError, ports.Unstorable):
    """With the key that is the matter, and what to do about it."""
