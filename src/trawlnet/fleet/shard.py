"""One shard of a crawl: claims its buckets, crawls, and starts again, until the fleet ends."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trawlnet.crawlers.share import Opened, Share
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Parts, crawl
from trawlnet.engine.ports import Clock
from trawlnet.fleet.lease import ShardLease
from trawlnet.fleet.telling import Teller
from trawlnet.observe.progress import anonymous_bytes
from trawlnet.storage.errors import SinkUnreachable
from trawlnet.storage.s3 import ObjectsError
from trawlnet.stores.errors import Fenced, StoreUnreachable
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Word

log = logging.getLogger(__name__)

_PAUSE: Final = 1.0  # Seconds to wait after a server has failed.
_BEATS: Final = 5  # Heartbeats within the ttl of a shard.
_WAKE_EVERY: Final = 1.0  # Seconds between two reads of the lanes that others have woken.
_LOOK_EVERY: Final = 30.0  # Seconds between two listings of all lanes: a wake-up may get lost.
_LANES: Final = 1000  # Lanes of one read.

OpenShard = Callable[[Share], AbstractAsyncContextManager[Opened]]


@dataclass(frozen=True, slots=True)
class ShardJob:
    """The arguments of a shard. They are sent to it; secrets are left out of their repr."""

    shard: int
    crawler: str
    config: Mapping[str, Any] = field(repr=False)
    stands: float  # Seconds without a heartbeat after which it is replaced (the ttl).
    scratch: str  # Folder on the machine that it runs on.
    # Fields that only some crawlers need.
    store: str = field(default="", repr=False)  # URL of Redis.
    s3: Mapping[str, str] = field(default_factory=dict, repr=False)
    manners_gap: float = 0.0  # Seconds without requests after a lane has changed its owner.
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # Environment variables.


class _Stop(Exception):
    """The fleet stops immediately; tasks in flight are repeated by the next crawl."""


@dataclass(frozen=True, slots=True)
class _Term:
    """One term of ownership, shared by its coroutines."""

    job: ShardJob
    plan: FleetPlan
    lease: ShardLease
    before: Sequence[str]  # Tokens of the previous owners of our lanes.
    clock: Clock
    teller: Teller

    def share(self) -> Share:
        job, plan, lease = self.job, self.plan, self.lease
        scratch = Path(job.scratch) / f"shard-{job.shard}"
        scratch.mkdir(parents=True, exist_ok=True)
        return Share(
            job.shard,
            plan.shards,
            plan.run,
            lease.token,
            plan.buckets_of(job.shard),
            scratch,
            lease.barred_until,
            lease.may_put,
            job.s3,
        )


async def run_shard(job: ShardJob, open_shard: OpenShard, clock: Clock) -> None:
    """Returns when the plan no longer has this shard. Waits out failing servers; raises an error in
    the config."""
    past: list[str] = []
    while True:
        try:
            if not await _one_term(job, open_shard, clock, past):
                return
        except (StoreUnreachable, SinkUnreachable, ObjectsError, Fenced) as trouble:
            fields = {"shard": job.shard, "error": trouble.message}
            log.warning("shard restarted", extra=fields)
            await clock.sleep(_PAUSE)


async def _one_term(job: ShardJob, open_shard: OpenShard, clock: Clock, past: list[str]) -> bool:
    """Returns whether another term follows; `past` are the tokens of earlier terms."""
    keys = await FleetKeys.open(job.store, shard=job.shard)
    try:
        plan = await keys.plan()
        if plan.word is not Word.RUN or job.shard >= plan.shards:
            await keys.forget_shard(job.shard)
            return False
        lease = ShardLease(keys, job.shard, job.stands, clock)
        before = await lease.claim(plan, past)
        past.append(keys.token)
        if before is not None:
            fields = {"shard": job.shard, "token": keys.token, "before": list(before)}
            log.info("shard owns", extra=fields)
            teller = Teller(keys.window, job.shard, plan.shards, clock)
            ending = await _crawl(_Term(job, plan, lease, before, clock, teller), open_shard)
            if ending is Ending.LIMIT:
                # A limit that one shard has reached alone is reached for all.
                await keys.end(Word.LIMIT)
        return True
    except _Stop:
        return False
    finally:
        await keys.close()


async def _crawl(term: _Term, open_shard: OpenShard) -> Ending:
    async with open_shard(term.share()) as opened:
        control = Control(opened.workers)
        if term.before:
            await _let_pass(term, opened, control)
        companions = (
            *opened.parts.companions,
            lambda control: _beating(term, opened, control),
            lambda control: _looking(term, opened.parts, control),
            lambda control: term.teller.run(opened.parts.gate, control),
        )
        parts = replace(opened.parts, companions=companions)
        ending = await crawl(parts, opened.limits, control)
    await term.lease.release()
    return ending


async def _let_pass(term: _Term, opened: Opened, control: Control) -> None:
    """Wait for the longest gap of these lanes: their previous owner may have sent a request an
    instant ago."""
    ends = term.clock.now() + term.job.manners_gap
    while control.ending is None and (left := ends - term.clock.now()) > 0.0:
        await _beat(term, opened, control, term.plan.version)
        await term.clock.sleep(min(left, term.job.stands / _BEATS))


async def _beating(term: _Term, opened: Opened, control: Control) -> None:
    version = term.plan.version
    while True:
        version = await _beat(term, opened, control, version)
        await term.clock.sleep(term.job.stands / _BEATS)


async def _beat(term: _Term, opened: Opened, control: Control, version: int) -> int:
    """Send a heartbeat with the version of the plan, and obey the command in the answer. Returns
    the version that counts from now on."""
    beat = await term.lease.beat(_status(term, opened, control) | {"version": version})
    if beat.plan.word is Word.STOP:
        raise _Stop
    if _is_same(term, beat.plan):
        return beat.plan.version
    control.drain()
    opened.hurry()
    return version


def _is_same(term: _Term, plan: FleetPlan) -> bool:
    """Whether a plan is the same for this shard; others may exchange lanes."""
    ours, shard = term.plan, term.job.shard
    if replace(plan, version=ours.version, moved=ours.moved) != ours:
        return False
    return plan.buckets_of(shard) == ours.buckets_of(shard)


def _status(term: _Term, opened: Opened, control: Control) -> dict[str, Any]:
    return {
        "token": term.lease.token,
        "node": socket.gethostname(),
        "pid": os.getpid(),
        "dry": control.figures.source_dry,
        "draining": control.ending is not None,
        "paused": control.paused,
        "stands": term.job.stands,
        "workers": control.workers,
        "memory": anonymous_bytes(),
        "in_flight": control.figures.in_flight,
        "started": control.figures.started,
        "attempts": sum(control.figures.tally.values()),
        "settled": {str(reason): count for reason, count in control.figures.settled.items()},
        "rate": round(control.figures.window.rate(term.clock.now()), 2),
        **opened.figures(),
    }


async def _looking(term: _Term, parts: Parts[Any], control: Control) -> None:
    """Wake lanes for which other shards have found work, and which the schedule may not have."""
    clock = term.clock
    while True:
        whole = clock.now() + _LOOK_EVERY
        while clock.now() < whole:
            await clock.sleep(_WAKE_EVERY)
            while lanes := await term.lease.woken(_LANES):
                for lane in lanes:
                    control.wake(lane)
        await _wake_all(parts, control, clock)


async def _wake_all(parts: Parts[Any], control: Control, clock: Clock) -> None:
    after: str | None = None
    while lanes := await parts.store.lanes(after, _LANES):
        for work in lanes:
            if work.due <= clock.now() and work.held <= clock.now():
                control.wake(work.lane)
        after = lanes[-1].lane
