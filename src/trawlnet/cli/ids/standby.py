"""A ledger in Redis: one process is active, the others wait as standbys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from trawlnet.cli.common.errors import Interrupted, InUse
from trawlnet.cli.common.output import say
from trawlnet.crawlers.ids.build import open_parts
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.controller import ledger_row
from trawlnet.crawlers.ids.ledger.ledger import IdsLedger
from trawlnet.crawlers.ids.ledger.notes import NOW_NOTE
from trawlnet.crawlers.ids.ledger.open_ledger import check_shareable, looked_at
from trawlnet.crawlers.ids.storing.locations import KEYS
from trawlnet.engine.crawl import Parts
from trawlnet.engine.ports import Clock
from trawlnet.fleet.ids import leadership_of, with_term
from trawlnet.fleet.standby import LeaderFenced, holders, leading
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.stores.errors import StateLost

_SHOWN = ("node", "pid", "token", "rate", "in_flight")


@asynccontextmanager
async def open_in_turn(
    config: IdsConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics
) -> AsyncIterator[Parts[Any]]:
    """Yield the parts of a crawl as soon as no other process is active."""
    check_shareable(config)
    try:
        async with leading(leadership_of(config), clock, _say_waiting) as term:
            say(f"no other process crawls these ids: this one is active, as {term.lease.token}")
            async with open_parts(config, workspace, clock, metrics, term.ownership) as parts:
                with _said_where(parts):
                    yield with_term(parts, term)
    except LeaderFenced as fenced:
        raise Interrupted(fenced.message, fenced.hint) from None


@contextmanager
def _said_where(parts: Parts[Any]) -> Iterator[None]:
    """Name the watermark if Redis lost the ledger: only this process still knows it."""
    try:
        yield
    except StateLost as lost:
        ledger = parts.ledger
        assert isinstance(ledger, IdsLedger)
        raise StateLost(
            lost.message,
            "what is published is whole; make that server keep its data (appendonly yes), then run "
            f"the command again with --target {ledger.watermark} --buffer 0: all below is settled",
        ) from lost


def _say_waiting(active: Mapping[str, Any]) -> None:
    say(f"standing by: {active['node']} pid {active['pid']} is active, as {active['token']}")


@asynccontextmanager
async def instead_of_a_crawl(config: IdsConfig) -> AsyncIterator[str]:
    """Act as the active process while no crawl runs. Raises InUse if one does."""
    found = await holders(config.redis_address, KEYS)
    for one in (found.active, *found.standbys):
        if one is not None:
            who = f"{one['node']} pid {one['pid']}"
            raise InUse(
                f"{who} {'crawls' if one is found.active else 'stands by to crawl'} these ids",
                "end it first: trawlnet fleet drain --ids --store redis://HOST:PORT/0",
            )
    async with leading(leadership_of(config), SystemClock()) as term:
        yield term.lease.token


async def shared_facts(config: IdsConfig, state: Path) -> Mapping[str, Any]:
    """The rows of `status`: the ledger's figures, the active process and the standbys."""
    found = await holders(config.redis_address, KEYS)
    row: dict[str, Any] = {}
    async with looked_at(config, state) as ledger:
        if ledger is not None:
            row |= _figures(await ledger.noted(NOW_NOTE), active=found.active is not None)
            row |= ledger_row(ledger)
    row["active"] = {name: found.active[name] for name in _SHOWN} if found.active else None
    row["standby"] = [{"node": one["node"], "pid": one["pid"]} for one in found.standbys]
    return row


def _figures(noted: Any, *, active: bool) -> dict[str, Any]:
    """The last figures of the active process; after it has ended, only whether the API key was
    refused still counts."""
    if not isinstance(noted, dict):
        return {}
    if not active:
        return {"key_refused": noted.get("key_refused", False)}
    age = noted.get("newest_id_age_s")
    if age is not None:
        noted["newest_id_age_s"] = round(age + max(0.0, SystemClock().now() - noted["at"]), 1)
    return {name: value for name, value in noted.items() if name != "at"}
