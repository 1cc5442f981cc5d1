"""One shard of a crawl: term after term of ownership, until the fleet is told to end."""

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

_PAUSE: Final = 1.0  # Seconds after a server has gone away.
_BEATS: Final = 5  # In the time that a shard stands without one.
_WAKE_EVERY: Final = 1.0  # Seconds between two looks at the lanes that others have given us.
_LOOK_EVERY: Final = 30.0  # Seconds between two looks at all lanes: a word may get lost.
_LANES: Final = 1000  # In one look.

OpenShard = Callable[[Share], AbstractAsyncContextManager[Opened]]


@dataclass(frozen=True, slots=True)
class ShardJob:
    """What a shard has to know. It travels; what is secret in it shows nowhere."""

    shard: int
    crawler: str
    config: Mapping[str, Any] = field(repr=False)
    stands: float  # Seconds without a beat after which it is replaced.
    scratch: str  # Folder on whatever machine it runs.
    # What only some crawlers need.
    store: str = field(default="", repr=False)  # URL of Redis.
    s3: Mapping[str, str] = field(default_factory=dict, repr=False)
    manners_gap: float = 0.0  # Seconds that a lane of another owner is left alone.
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # As in an environment.


class _Stop(Exception):
    """The fleet is to stop now: what is in flight is done again another time."""


@dataclass(frozen=True, slots=True)
class _Term:
    """One term of ownership, as its coroutines see it."""

    job: ShardJob
    plan: FleetPlan
    tenure: ShardLease
    before: Sequence[str]  # Tokens that owned our lanes until now.
    clock: Clock
    teller: Teller

    def share(self) -> Share:
        job, plan, tenure = self.job, self.plan, self.tenure
        scratch = Path(job.scratch) / f"shard-{job.shard}"
        scratch.mkdir(parents=True, exist_ok=True)
        return Share(
            job.shard,
            plan.shards,
            plan.run,
            tenure.token,
            plan.buckets_of(job.shard),
            scratch,
            tenure.barred_until,
            tenure.may_put,
            job.s3,
        )


async def run_shard(job: ShardJob, open_shard: OpenShard, clock: Clock) -> None:
    """Returns when the plan has no more use for this shard. What servers do is waited out; a
    mistake in the config is raised."""
    past: list[str] = []
    while True:
        try:
            if not await _one_term(job, open_shard, clock, past):
                return
        except (StoreUnreachable, SinkUnreachable, ObjectsError, Fenced) as trouble:
            told = {"shard": job.shard, "error": trouble.message}
            log.warning("shard restarted", extra=told)
            await clock.sleep(_PAUSE)


async def _one_term(job: ShardJob, open_shard: OpenShard, clock: Clock, past: list[str]) -> bool:
    """False when there will be no other; `past` are the tokens of those before."""
    keys = await FleetKeys.open(job.store, shard=job.shard)
    try:
        plan = await keys.plan()
        if plan.word is not Word.RUN or job.shard >= plan.shards:
            await keys.forget_shard(job.shard)
            return False
        tenure = ShardLease(keys, job.shard, job.stands, clock)
        before = await tenure.claim(plan, past)
        past.append(keys.token)
        if before is not None:
            told = {"shard": job.shard, "token": keys.token, "before": list(before)}
            log.info("shard owns", extra=told)
            teller = Teller(keys.window, job.shard, plan.shards, clock)
            ending = await _crawl(_Term(job, plan, tenure, before, clock, teller), open_shard)
            if ending is Ending.LIMIT:
                # What one shard has used up alone, all of them have.
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
    await term.tenure.release()
    return ending


async def _let_pass(term: _Term, opened: Opened, control: Control) -> None:
    """Whoever owned these lanes may have asked one of them an instant ago: they have their longest
    gap before anybody asks again."""
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
    """Say that we live, under which version of the plan, and hear what is to be done. Gives the
    version that we live under from now on."""
    beat = await term.tenure.beat(_status(term, opened, control) | {"version": version})
    if beat.plan.word is Word.STOP:
        raise _Stop
    if _is_same(term, beat.plan):
        return beat.plan.version
    control.drain()
    opened.hurry()
    return version


def _is_same(term: _Term, plan: FleetPlan) -> bool:
    """Whether a plan has the same for this shard, though others may exchange lanes."""
    ours, shard = term.plan, term.job.shard
    if replace(plan, version=ours.version, moved=ours.moved) != ours:
        return False
    return plan.buckets_of(shard) == ours.buckets_of(shard)


def _status(term: _Term, opened: Opened, control: Control) -> dict[str, Any]:
    return {
        "token": term.tenure.token,
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
    """Others find work for our lanes: wake those that the schedule may not know of."""
    clock = term.clock
    while True:
        whole = clock.now() + _LOOK_EVERY
        while clock.now() < whole:
            await clock.sleep(_WAKE_EVERY)
            while lanes := await term.tenure.woken(_LANES):
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
