"""Builds the parts of a crawl from config and workspace."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.ids.alerts import CRAWLER, IdsAlerts
from trawlnet.crawlers.ids.api.api import api_headers
from trawlnet.crawlers.ids.api.presets import api_of, base_of, needs_key
from trawlnet.crawlers.ids.classic.prometheus import PrometheusReader, ReadingPilot
from trawlnet.crawlers.ids.config import IdsConfig, budget_of, manners
from trawlnet.crawlers.ids.controller import Controller
from trawlnet.crawlers.ids.handler import ApiServer, IdsHandler
from trawlnet.crawlers.ids.ledger.askers import Askers
from trawlnet.crawlers.ids.ledger.ledger import IdsLedger
from trawlnet.crawlers.ids.ledger.notes import (
    DECISIONS,
    HEAD,
    MISSED_LOG,
    NOW_NOTE,
    DecisionFile,
    MissedLog,
    NewestIds,
    head_file,
    write_now,
)
from trawlnet.crawlers.ids.ledger.open_ledger import check_shareable, ledger_to_write
from trawlnet.crawlers.ids.ledger.position import LedgerPosition
from trawlnet.crawlers.ids.ledger.second_chances import SHARE, ChancePolicy, SecondChances
from trawlnet.crawlers.ids.ledger.work import IdsWork
from trawlnet.crawlers.ids.model import LedgerEntry
from trawlnet.crawlers.ids.pilot_factory import pilot_for
from trawlnet.crawlers.ids.start import NewestIdFinder, first_id
from trawlnet.crawlers.ids.storing.locations import instances_place, queue_place
from trawlnet.crawlers.ids.storing.publish import QueueingSink
from trawlnet.crawlers.ids.storing.spool_limit import SpoolLimit
from trawlnet.crawlers.metered import MeteredHttp
from trawlnet.crawlers.share import ShardOwnership
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Parts
from trawlnet.engine.durable import make_directory
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import Manners
from trawlnet.net.client.answer import RequestLimits
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http, Turns
from trawlnet.net.lane import lane_of
from trawlnet.observe.alerts.rules import BEGAN, ENDED
from trawlnet.observe.alerts.shapes import Alert
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.ids import IdsMeter, LedgerFigures
from trawlnet.observe.traces.wrappers import traced_turns
from trawlnet.queues.open import open_queue
from trawlnet.tables.instances.instances import latest_stored, opened_instances

_ALONE = ShardOwnership()
_SHARED_EVERY = 5.0  # Seconds between two writes of the figures to Redis.


@asynccontextmanager
async def open_parts(
    config: IdsConfig,
    workspace: Path,
    clock: Clock,
    metrics: CrawlMetrics,
    ownership: ShardOwnership = _ALONE,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[Parts[Sequence[LedgerEntry]]]:
    """Yields the parts of a crawl, and closes them. Raises NotReady and Unanswered."""
    check_shareable(config)
    api, server = api_of(config), server_of(config, environ)
    async with AsyncExitStack() as stack:
        folder = workspace / "state" / CRAWLER
        make_directory(folder)
        ledger = await ledger_to_write(config, folder, server.lane, ownership.token)
        stack.push_async_callback(ledger.close)
        found = await open_queue(queue_place(config, workspace), api.queue)
        stack.push_async_callback(found.close)
        gate = Gate(clock, manners(config), barred_until=ownership.barred_until)
        turns = traced_turns(gate, metrics.ways)
        http = await stack.enter_async_context(_http(config, turns, clock))
        finder = NewestIdFinder(MeteredHttp(http, metrics.http), api, server, clock)
        if ledger.first is None:
            await ledger.begin(await _first(config, workspace, finder))
        meter = IdsMeter(metrics)
        position = await ledger.position()
        askers = _askers(config, ledger, position, clock)
        log = MissedLog(workspace / "logs" / MISSED_LOG, ledger.misses)
        ledger.on_change.append(log.changed)
        ids_alerts = IdsAlerts(config.status_every, clock.now(), api.key_variable)
        decisions = DecisionFile(folder / DECISIONS)
        head = await _head(config, ledger, folder)
        figures = _figures_keeper(config, ledger, folder, clock)
        controller = Controller(
            ledger,
            askers,
            meter,
            metrics.alerts,
            ids_alerts,
            decisions,
            figures,
            head,
            finder,
            clock,
        )
        controller.recall()
        meter.standing = lambda: LedgerFigures(
            askers.pilot.crew,
            ledger.watermark,
            ledger.beyond,
            ledger.lengths,
            head.age(clock.now()),
        )
        handler = IdsHandler(finder.http, api, server, askers, clock, controller.watch)
        sink = QueueingSink(found, meter.published, ownership.may_put)
        companions: list[Callable[[Control], Coroutine[Any, Any, None]]] = [
            controller.steer,
            heeding(gate, server.lane, askers, clock),
        ]
        if config.queue:
            companions.append(lambda control: controller.look_at_queue(found))
        else:  # A server has its own limits.
            room = SpoolLimit(found, askers, config.max_spool, metrics.alerts, clock)
            companions.append(room.watch)
        if api.anchor:
            companions.append(controller.look_for_anchor)
        if config.metrics_from and isinstance(askers.pilot, ReadingPilot):
            prometheus = await stack.enter_async_context(_figures_http(config, clock))
            reader = PrometheusReader(prometheus, config.metrics_from, clock, askers.pilot)
            companions.append(reader.run)
        _say_hello(controller, stack, config)
        yield Parts(
            None,
            IdsWork(ledger, askers),
            handler,
            sink,
            gate,
            clock,
            enough=lambda: _enough(config.until, ledger, askers),
            companions=companions,
            ledger=ledger,
        )


def _enough(until: int | None, ledger: IdsLedger, askers: Askers) -> bool:
    """With --until, gaps below the last id must be surveyed, too."""
    if until is None or ledger.watermark < until:
        return False
    unsurveyed = askers.pilot.unsurveyed_from
    return unsurveyed is None or unsurveyed >= until


def server_of(config: IdsConfig, environ: Mapping[str, str] = os.environ) -> ApiServer:
    """The server and its key. Raises NotReady."""
    base = base_of(config)
    headers = api_headers(api_of(config), environ, required=needs_key(config))
    return ApiServer(base, lane_of(base), headers)


async def _first(config: IdsConfig, workspace: Path, finder: NewestIdFinder) -> int:
    if config.target is not None:
        return first_id(config.target, config.below_latest)
    stored = await _latest_stored(config, workspace)
    newest = stored if stored is not None else await finder.newest()
    return first_id(newest, config.below_latest)


async def _latest_stored(config: IdsConfig, workspace: Path) -> int | None:
    where = instances_place(config, workspace)
    if isinstance(where, Path) and not where.exists():
        return None
    async with opened_instances(where) as tables:
        return await latest_stored(tables)


async def _head(config: IdsConfig, ledger: IdsLedger, folder: Path) -> NewestIds:
    if not config.redis_address:
        return head_file(folder / HEAD)
    # A standby on another machine does not have our file.
    return NewestIds(await ledger.noted("head"), lambda text: ledger.note_soon("head", text))


def _figures_keeper(
    config: IdsConfig, ledger: IdsLedger, folder: Path, clock: Clock
) -> Callable[[Mapping[str, Any]], None]:
    """Saves the present figures: in a file, and beside a ledger in Redis, for other machines."""
    last, refused = -math.inf, False

    def keep(row: Mapping[str, Any]) -> None:
        nonlocal last, refused
        write_now(folder, row)
        due = clock.now() >= last + _SHARED_EVERY or row["key_refused"] is not refused
        if config.redis_address and due:
            last, refused = clock.now(), row["key_refused"]
            ledger.note_soon(NOW_NOTE, {"at": last, **row})

    return keep


def _askers(config: IdsConfig, ledger: IdsLedger, position: LedgerPosition, clock: Clock) -> Askers:
    policy = ChancePolicy(per_second=SHARE * config.max_rps)
    second = SecondChances(policy)
    second.remember(clock.now(), ledger.misses)
    return Askers(pilot_for(config, position), second)


def _http(config: IdsConfig, turns: Turns, clock: Clock) -> Http:
    return Http(
        turns,
        clock,
        agent_for(config.contact, allow_private=config.allow_private_hosts),
        guard=Guard(allow_private=config.allow_private_hosts),
        limits=RequestLimits(
            total=config.request_timeout,
            connect=config.connect_timeout,
            wire=config.max_body,
            inflated=config.max_body,
            redirects=0,
        ),
    )


def _figures_http(config: IdsConfig, clock: Clock) -> Http:
    """A client for the metrics server, which is the user's own and may have a private address."""
    agent = agent_for(config.contact, allow_private=config.allow_private_hosts)
    gate = Gate(clock, Manners(rate=math.inf))
    return Http(
        gate, clock, agent, guard=Guard(allow_private=True), limits=RequestLimits(total=10.0)
    )


def _say_hello(controller: Controller, stack: AsyncExitStack, config: IdsConfig) -> None:
    """Send an alert at the start, and one at the end."""

    def tell(title: str, text: str) -> None:
        controller.alerts.tell(Alert(CRAWLER, title, text, controller.clock.now()))

    workers = controller.askers.pilot.crew
    where = f"at {controller.ledger.watermark}, {config.scaling}, {workers} workers"

    def good_bye() -> None:
        controller.leave_figures(controller.clock.now())
        tell(ENDED, f"at {controller.ledger.watermark}")

    tell(BEGAN, where)
    stack.callback(good_bye)


_LOOK_EVERY = 1.0  # Seconds; meanwhile the gate enforces a smaller budget.


def heeding(
    gate: Gate, lane: str, askers: Askers, clock: Clock
) -> Callable[[Control], Coroutine[Any, Any, None]]:
    """A companion of the crawl. The gate enforces a smaller budget; a larger one is the pilot's."""

    async def heed(control: Control) -> None:
        manners = gate.manners(lane)
        while True:
            await clock.sleep(_LOOK_EVERY)
            if gate.manners(lane) != manners:
                manners = gate.manners(lane)
                askers.allow(clock.now(), budget_of(manners))
                control.wake(lane)

    return heed
