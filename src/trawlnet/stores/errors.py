"""The errors of stores, each with a hint."""

from __future__ import annotations

from trawlnet.engine import ports
from trawlnet.hinted import Hinted


class StoreError(Hinted):
    """The store cannot continue; confirmed writes are not lost."""


class StoreUnreachable(StoreError):
    """The server that holds the store does not answer."""


class StateLost(StoreError):
    """The server answers, and has lost the state of the crawl."""


class Fenced(StoreError):
    """Another shard owns our lanes now: our view of them is out of date."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "nothing is lost: the shard that replaced this one repeats it")


class UnstorableKey(StoreError, ports.Unstorable):
    """The store's own Unstorable, with the key and a hint."""
