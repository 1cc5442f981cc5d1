"""A crawler as the command line sees it: the data that the shared verbs need."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from trawlnet.engine.crawl import Limits, Parts
from trawlnet.engine.ports import Clock, Ledger
from trawlnet.engine.rules import Manners
from trawlnet.observe.alerts.shapes import Webhook
from trawlnet.observe.metrics.crawl import CrawlMetrics

C = TypeVar("C", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    """The limits and addresses of a crawl, read from its config."""

    workers: int
    manners: Manners
    limits: Limits
    metrics_address: str
    webhook: Webhook
    own_alerts: frozenset[str] = frozenset()  # Titles of alerts that the crawler sends itself.


def _always_ready(config: Any, workspace: Path) -> None:
    pass


async def _nobody_else(config: Any, workspace: Path) -> str:
    return ""


def of_another(holder: str) -> str:
    """What is wrong when state outside the workspace is not this workspace's."""
    return f"this Redis database holds the crawl of another workspace: {holder}"


async def _no_facts(config: Any, workspace: Path) -> Mapping[str, Any]:
    return {}


def _nothing_left_out(workspace: Path) -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Crawler(Generic[C]):
    name: str
    config: type[C]
    plan: Callable[[C], CrawlPlan]
    # Opens the store alone, in its state folder, to list and reopen tasks.
    ledger: Callable[[C, Path], AbstractAsyncContextManager[Ledger]]
    remote: Callable[[C], str]  # The place of state outside the workspace; empty if there is none.
    forget: Callable[[C], Coroutine[Any, Any, None]]  # Delete state that is not in the workspace.
    outputs: tuple[str, ...]  # The output of this crawler in the workspace, as patterns.
    public_key: Callable[[str], str]  # A task's key as users know it.
    example: str  # Flags of an example of `crawl`.
    located_by: tuple[str, ...]  # Config keys that every verb needs, to find the state.
    live: frozenset[str]  # Config keys that can change while a crawl runs.
    spellings: Mapping[str, str] = field(default_factory=dict)  # Key -> another flag for it.
    # Whose crawl the state outside the workspace is, if not this workspace's; else empty.
    held_by: Callable[[C, Path], Coroutine[Any, Any, str]] = _nobody_else
    # Raises NotReady for a config that no crawl can start with, before a workspace is made.
    ready: Callable[[C, Path], None] = _always_ready
    # More rows for `status`.
    facts: Callable[[C, Path], Coroutine[Any, Any, Mapping[str, Any]]] = _no_facts
    # Keys that were left out, counted by reason; and the same as text, the most frequent first.
    left_out: Callable[[Path], Mapping[str, int]] = _nothing_left_out
    tell_left_out: Callable[[Mapping[str, int]], list[str]] = list
    private: str = ""  # The reason of those that --allow-private-hosts would let in.
    # Whether the ledger lists failures in the order of their keys; if not, `failures` sorts them.
    lists_by_key: bool = False
    verb: str = "crawl"  # The verb that continues the crawl.
    # The place of the function that runs a fleet: Callable[[C, Workspace, bool], int]. It is
    # loaded when the config asks for a fleet, because Redis and Ray are extras.
    fleet: str = ""


# Opens the parts of a crawl over a workspace, and closes them at the end.
Opening = Callable[[C, Path, Clock, CrawlMetrics], AbstractAsyncContextManager[Parts[Any]]]


@dataclass(frozen=True, slots=True)
class RunnableCrawler(Generic[C]):
    """A crawler with what a command that crawls needs; the other commands do without."""

    crawler: Crawler[C]
    open: Opening[C]
