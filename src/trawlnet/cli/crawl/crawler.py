"""A crawler as the command line sees it: what each shared verb needs to know about one."""

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
    """What a crawl may use, read from its config."""

    workers: int
    manners: Manners
    limits: Limits
    metrics_address: str
    webhook: Webhook
    own_alerts: frozenset[str] = frozenset()  # Titles of alerts that the crawler tells by itself.


def _always_ready(config: Any, workspace: Path) -> None:
    pass


async def _no_facts(config: Any, workspace: Path) -> Mapping[str, Any]:
    return {}


def _nothing_left_out(workspace: Path) -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Crawler(Generic[C]):
    name: str
    config: type[C]
    plan: Callable[[C], CrawlPlan]
    # The parts of a crawl over a workspace; what they hold is let go of at the end.
    open: Callable[[C, Path, Clock, CrawlMetrics], AbstractAsyncContextManager[Parts[Any]]]
    # The store alone, in its state folder, to look back and to put work back.
    ledger: Callable[[C, Path], AbstractAsyncContextManager[Ledger]]
    remote: Callable[[C], str]  # Where state is that is not in the workspace; empty if nowhere.
    forget: Callable[[C], Coroutine[Any, Any, None]]  # Delete state that is not in the workspace.
    outputs: tuple[str, ...]  # What only this crawler leaves in the workspace, as patterns.
    public_key: Callable[[str], str]  # A task's key as users know it.
    example: str  # Flags of an example of `crawl`.
    located_by: tuple[str, ...]  # Config keys that every verb needs, to find the state.
    live: frozenset[str]  # Config keys that can change while a crawl runs.
    spellings: Mapping[str, str] = field(default_factory=dict)  # Key -> another flag for it.
    # Raises NotReady for what no crawl can begin with, before there is a workspace.
    ready: Callable[[C, Path], None] = _always_ready
    # More rows for `status`, about what the crawl has left.
    facts: Callable[[C, Path], Coroutine[Any, Any, Mapping[str, Any]]] = _no_facts
    # What the crawl has met and not asked for, by why; and that for people, the most first.
    left_out: Callable[[Path], Mapping[str, int]] = _nothing_left_out
    tell_left_out: Callable[[Mapping[str, int]], list[str]] = list
    # Whether the ledger lists failures by key; one that does not is sorted by whoever shows it.
    lists_by_key: bool = False
    verb: str = "crawl"  # What to type to go on.
    # The place of what crawls with many processes: Callable[[C, Workspace, bool], int]. Loaded
    # when the config asks for a fleet: Redis and Ray are extras.
    fleet: str = ""
