"""The parts of a crawl, with those that follow firehoses beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from trawlnet.crawlers.atproto.reader import Directory
from trawlnet.crawlers.atproto.stream import LARGEST_MESSAGE
from trawlnet.crawlers.atproto.streams.joined_source import JoinedSource
from trawlnet.crawlers.atproto.streams.subscription import Dialler, Subscription
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.repos.accounts.followed_directory import FollowedDirectory
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.accounts.rates import PdsRates
from trawlnet.crawlers.repos.accounts.visit_planner import VisitPlanner
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.events.event_log import EventLog
from trawlnet.crawlers.repos.following.archived_states import ArchivedStates
from trawlnet.crawlers.repos.following.figures.live_alerts import LiveAlerts
from trawlnet.crawlers.repos.following.figures.live_meter import LiveMeter, MeterOutputs
from trawlnet.crawlers.repos.following.follower import Follower, FollowerParts
from trawlnet.crawlers.repos.following.held_frames import HeldFrames
from trawlnet.crawlers.repos.following.judging import JudgeRules
from trawlnet.crawlers.repos.following.live_store import LiveStore
from trawlnet.crawlers.repos.following.lookups import IdentityLookups
from trawlnet.crawlers.repos.following.resyncs import Resyncs, SharedFrontier
from trawlnet.crawlers.repos.following.roll_call import RollCall
from trawlnet.crawlers.repos.following.unknown_accounts import UnknownAccounts
from trawlnet.crawlers.repos.following.visit_handler import VisitHandler
from trawlnet.crawlers.repos.following.visit_limits import VisitLimits, VisitTurns
from trawlnet.crawlers.repos.following.visit_sink import VisitSink
from trawlnet.crawlers.repos.handler import ReposHandler
from trawlnet.crawlers.repos.settings import follow_settings, upstreams_of, wanted_dids
from trawlnet.crawlers.repos.sink import ArchiveSink
from trawlnet.crawlers.repos.work import lane_at
from trawlnet.engine.crawl import Feed, Parts
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock, Store
from trawlnet.engine.threads import Threads
from trawlnet.net.client.socket_ends import SocketLimits
from trawlnet.net.client.websocket import open_websocket
from trawlnet.net.guard import Guard
from trawlnet.net.lane import lane_of
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.follow import FollowMeter
from trawlnet.queues.queue import Retention
from trawlnet.tables.clickhouse.ports import Tables

_CHECKERS = 2  # Threads: the native part of a check lets others run.
_HELD_SHARE = 4  # One part in so many of the memory is for frames that wait for a visit.
_LEAST_SHARE = (
    64 << 10
)  # Bytes for each of: a socket, a batch that is checked, one being published.


@dataclass(frozen=True, slots=True)
class FollowGround:
    """What a crawl has that following needs as well."""

    archived: ArchiveCatalogue
    store: Store
    gate: Gate
    rates: PdsRates
    workspace: Path
    mirrored: Tables | None = None  # That the PLC directory is mirrored in.


async def followed(
    config: ReposConfig,
    parts: Parts,
    ground: FollowGround,
    metrics: CrawlMetrics,
    stack: AsyncExitStack,
) -> Parts:
    """Raises NotReady."""
    upstreams, clock = upstreams_of(config), parts.clock
    handler = cast(ReposHandler, parts.handler)
    limits = VisitLimits(config.resyncs_per_hour)
    follower = await _follower(config, parts, ground, stack)
    follower.parts.live.follow(one.host for one in upstreams)
    frontier = SharedFrontier(ground.store)
    resyncs = Resyncs(follower, frontier, handler.census, ground.rates, limits, clock)
    lookups = IdentityLookups(
        handler.census.resolver, follower.learn, clock, pause=config.resync_pause
    )
    follower.on_due, follower.on_doubt = resyncs.look, lookups.add
    unknown = UnknownAccounts(follower, handler.census.resolver, ground.gate, clock)
    resyncs.on_unknown = unknown.add
    follower.is_at_home = homes_of(upstreams, handler.census)
    roll = RollCall(follower, config.resyncs_per_hour, clock)
    follower.on_listed = roll.look
    dialler = _dialler(config, ground.gate, clock, len(upstreams))
    streams = [
        Subscription(upstream, dialler, follower, from_start=config.from_start)
        for upstream in upstreams
    ]
    sink = VisitSink(follower, limits)
    await sink.recover()
    await follower.recover()
    outputs = MeterOutputs(metrics.yields, LiveAlerts(config.alert_behind), metrics.alerts)
    meter = LiveMeter(follower, streams, lookups, clock, outputs)
    FollowMeter(metrics, meter.figures)
    news = _directory(config, ground, handler, follower)
    source = None if parts.feed is None else parts.feed.source
    return replace(
        parts,
        feed=Feed(JoinedSource(source, [one.began for one in streams]), frontier),
        handler=_visit_handler(handler, follower, limits, clock),
        sink=sink,
        facts=partial(_facts, meter, news),
        companions=(
            *parts.companions,
            follower.parts.events.attend,
            follower.run,
            resyncs.run,
            roll.run,
            lookups.run,
            unknown.run,
            meter.run,
            *(one.run for one in streams),
            *(one.run for one in news),
        ),
    )


def _directory(
    config: ReposConfig, ground: FollowGround, handler: ReposHandler, follower: Follower
) -> Sequence[FollowedDirectory]:
    """One, or none where nothing is mirrored."""
    if ground.mirrored is None:
        return ()
    settings, gate, clock = follow_settings(config), ground.gate, follower.parts.clock
    private = config.allow_private_hosts
    stream = partial(
        open_websocket,
        agent=settings.agent,
        guard=Guard(allow_private=private),
        limits=SocketLimits(message=LARGEST_MESSAGE),
    )
    directory = Directory(settings.plc, handler.http, gate, clock, private, open_stream=stream)
    return [FollowedDirectory(directory, ground.mirrored, follower.learn_news)]


def _facts(meter: LiveMeter, news: Sequence[FollowedDirectory]) -> Mapping[str, Any]:
    found = dict(meter.facts())
    for one in news:
        found["live"] = {**found["live"], "directory": one.facts()}
    return found


def homes_of(
    upstreams: Sequence[Upstream], planner: VisitPlanner
) -> Callable[[RepoIdentity], bool]:
    """A relay speaks for all servers; of a PDS only those accounts are followed that live there."""
    has_relay = not all(one.is_pds for one in upstreams)
    homes = {lane_of(one.url) for one in upstreams}

    def is_at_home(identity: RepoIdentity) -> bool:
        is_visited = planner.is_visited(identity)
        return is_visited and (has_relay or lane_at(identity.pds) in homes)

    return is_at_home


def _visit_handler(
    handler: ReposHandler, follower: Follower, limits: VisitLimits, clock: Clock
) -> VisitHandler:
    turns = VisitTurns(follower.parts.live, limits, clock)
    visitor = replace(handler.visitor, turn_at=turns.elsewhere)
    return VisitHandler(replace(handler, compare=follower.compare, visitor=visitor), turns)


async def _follower(
    config: ReposConfig,
    parts: Parts,
    ground: FollowGround,
    stack: AsyncExitStack,
) -> Follower:
    live = LiveStore.open(ground.workspace / "state" / "repos")
    stack.callback(live.close)
    retention = Retention(config.event_log_size, config.event_log_age)
    events = await EventLog.open(ground.workspace, parts.clock.now, retention, config.event_queue)
    stack.push_async_callback(events.close)
    pool, thread = Threads(_CHECKERS, "check"), Threads(1, "follow")
    # Waited for: neither may be at work when the store is closed.
    stack.callback(pool.shutdown)
    stack.callback(thread.shutdown)
    held = HeldFrames(config.follow_memory // _HELD_SHARE)
    is_wanted = collections_matcher(config.collections)
    archived = ArchivedStates(ground.workspace / "archive", ground.archived, is_wanted)
    rules = JudgeRules(
        is_wanted,
        not config.collections,
        held.add,
        config.resync_pause,
    )
    sink = cast(ArchiveSink, parts.sink)
    followed_parts = FollowerParts(live, archived, sink, events, parts.clock, pool, thread)
    follower = Follower(followed_parts, rules, held, wanted_dids(config), config.zstd_level)
    follower.figures = live.figures()
    return follower


def _dialler(config: ReposConfig, gate: Gate, clock: Clock, upstreams: int) -> Dialler:
    share = max(_LEAST_SHARE, config.follow_memory // (_HELD_SHARE * upstreams))
    return Dialler(
        gate,
        Guard(allow_private=config.allow_private_hosts),
        follow_settings(config).agent,
        clock,
        SocketLimits(waiting=share),
        share,
    )


def collections_matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """As the archive chooses them: `*` for any run of characters, no pattern for all."""
    if not patterns:
        return lambda collection: True
    texts = [".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns]
    whole = re.compile("|".join(f"(?:{text})" for text in texts), re.DOTALL)
    return lambda collection: whole.fullmatch(collection) is not None
