"""A follower in a living world: started, killed at a drawn moment, and started again on what the
kill has left."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.random_worlds.follow_laws import (
    archived,
    check_identities,
    check_manners,
    check_nothing_invented,
    check_resyncs,
    consumed,
    differences,
    matching,
)
from tests.random_worlds.follow_wire import LivingHttp, Sockets
from tests.random_worlds.follow_world import LivingWorld
from tests.random_worlds.repos_world import EPOCH, PLC, WorldClock
from trawlnet.archive.compact import compact
from trawlnet.crawlers.atproto.streams import subscription
from trawlnet.crawlers.repos import build
from trawlnet.crawlers.repos.config import ReposConfig, limits
from trawlnet.crawlers.repos.events.event_log import EventLog
from trawlnet.crawlers.repos.following.figures import live_meter
from trawlnet.crawlers.repos.following.live_store import LiveStore, look_at_live
from trawlnet.crawlers.repos.sink import ArchiveSink
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl
from trawlnet.net.client.answer import RequestLimits
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.virtual import run_sim

PATIENCE = 36 * 3600.0  # Virtual seconds until everything has to be settled.
PATIENT = 100  # Attempts: more than a server fails in a row.
QUIET = 8000.0  # Seconds without a request: longer than any part waits before it tries again.


@dataclass(frozen=True, slots=True)
class Kill:
    # "request", "frame", "dial", or a durable step, "… half" in the midst of it, "… done" after it.
    moment: str
    number: int  # Which of them.
    down: float  # Seconds until it is started again.
    is_compacted: bool = False  # Meanwhile the archive is.
    after: float = 0.0  # Seconds of the world: earlier moments do not count.


@dataclass(frozen=True, slots=True)
class Plan:
    """What a user asks for."""

    verb: str  # "crawl" or "follow".
    upstreams: str  # "relay", "pdses", "some" (of the PDSes) or "both".
    from_start: bool
    some_dids: bool
    config: dict[str, Any]
    kills: tuple[Kill, ...] = ()


class Following:
    def __init__(self, world: LivingWorld, folder: Path, plan: Plan) -> None:
        self.world, self.folder, self.plan = world, folder, plan
        self.place = folder / "net"
        self.sockets = Sockets(world)
        self.live: LiveStore | None = None
        self.dids = set(list(world.accounts)[::2]) if plan.some_dids else None
        self.config = self._config()

    def _config(self) -> ReposConfig:
        plan, more = self.plan, dict(self.plan.config)
        if plan.verb == "crawl":
            more["attempts"] = PATIENT  # What a crawl gives up is on record, for `retry`.
        pdses = self.world.urls[: 1 if plan.upstreams == "some" else None]
        more["pds"] = () if plan.upstreams == "relay" else tuple(pdses)
        if plan.verb == "crawl" or plan.upstreams in ("relay", "both"):
            more["relay"] = tuple(self.world.relays)
        if self.dids is not None:
            listed = self.folder / "dids"
            listed.write_text("\n".join(sorted(self.dids)))
            more["dids"] = str(listed)
        return ReposConfig(
            **more,
            follow=True,
            live_tables="off",  # Tests of the tables judge those.
            from_start=plan.from_start,
            plc_url=PLC,
            contact="a@b.example",
        )

    def judge(self) -> None:
        run_sim(self._live())
        world, config = self.world, self.config
        is_compacted = any(kill.is_compacted for kill in self.plan.kills)
        check_nothing_invented(world, self.place, is_compacted=is_compacted)
        check_manners(world, config)
        if self.plan.verb == "follow" and not self.plan.kills:
            check_resyncs(world, config)
        self._check_truth()

    def _check_truth(self) -> None:
        world = self.world
        truth = matching(world.truth(), self._is_wanted)
        consumer, kept = consumed(self.place), archived(self.place)
        dids = self._followed()
        wrong = differences(kept, truth, dids)
        assert not wrong, ("archive", wrong)
        wrong = differences(consumer.content, truth, dids)
        assert not wrong, ("events", wrong)
        # Of others nothing is promised, and yet the two agree.
        others = world.accounts.keys() - dids
        wrong = differences(consumer.content, kept, others)
        assert not wrong, ("events and archive", wrong)
        check_identities(world, self.place)
        if not self.plan.kills:
            assert not consumer.odd, consumer.odd
            assert not consumer.repeated, "nothing was killed: each event is there once"

    def _is_wanted(self, collection: str) -> bool:
        patterns = self.config.collections
        return not patterns or any(fnmatchcase(collection, one) for one in patterns)

    def _followed(self) -> set[str]:
        """Accounts whose truth must be known at the end."""
        world, config = self.world, self.config
        found = set(world.accounts) if self.dids is None else set(self.dids)
        if not config.relay:
            hosts = {world.urls.index(url) for url in config.pds}
            found = {did for did in found if world.accounts[did].home in hosts}
        if self.plan.verb == "follow":
            joined = self.sockets.joined
            found &= {
                did for (name, did), at in world.named.items() if at > joined.get(name, math.inf)
            }
        return found

    async def _live(self) -> None:
        living = asyncio.create_task(self.world.live())
        with self._in_world():
            for kill in self.plan.kills:
                if not await self._killed(kill, living):
                    break
                if kill.is_compacted and any((self.place / "archive").glob("*.rca")):
                    compact(self.place / "archive", self.world.now)
                await asyncio.sleep(kill.down)
            following = asyncio.create_task(self._follow())
            await self._settled(following, living)
            following.cancel()
            await _ended(following)
        await living

    async def _killed(self, kill: Kill, living: asyncio.Task[None]) -> bool:
        """The workspace as a process that dies at that moment leaves it; False if none did."""
        dead, left = asyncio.Event(), [kill.number]
        image = self.folder / f"image{self.world.run}"

        def look(moment: str) -> None:
            is_early = self.world.now() < EPOCH + kill.after
            if moment != kill.moment or dead.is_set() or is_early:
                return
            left[0] -= 1
            if left[0] <= 0:
                if self.place.exists():
                    shutil.copytree(self.place, image)
                dead.set()

        self.world.moment = look
        following = asyncio.create_task(self._follow())
        settled = asyncio.create_task(self._settled(following, living))
        dying = asyncio.create_task(dead.wait())
        await asyncio.wait((settled, dying), return_when=asyncio.FIRST_COMPLETED)
        self.world.moment = lambda moment: None
        self.world.run += 1
        for task in (following, settled, dying):
            task.cancel()
        await _ended(following)
        if dead.is_set() and image.exists():
            self.place = image
        self.sockets.forget_but(self._saved_hosts())
        return dead.is_set()

    def _saved_hosts(self) -> Collection[str]:
        look = look_at_live(self.place / "state" / "repos")
        return look.cursors if look else ()

    async def _settled(self, following: asyncio.Task[None], living: asyncio.Task[None]) -> None:
        """Until nothing more happens: the world is quiet, and so is the follower."""
        await asyncio.wait((living, following), return_when=asyncio.FIRST_COMPLETED)
        deadline = self.world.now() + PATIENCE
        while self.world.now() < deadline and not following.done():
            await asyncio.sleep(QUIET / 4)
            last = max((row.end for row in self.world.log), default=0.0)
            behind = [has_more() for has_more in self.world.behind.values()]
            if not any(behind) and behind and not self._is_waiting() and last < self._ago(QUIET):
                return
        if following.done():
            following.result()

    def _ago(self, seconds: float) -> float:
        return self.world.now() - seconds

    def _is_waiting(self) -> bool:
        return self.live is None or bool(self.live.next_due() or self.live.gaps())

    async def _follow(self) -> None:
        clock, self.live = WorldClock(), None
        metrics = CrawlMetrics("repos", clock)
        open_parts = build.open_parts if self.plan.verb == "crawl" else build.open_follow
        async with open_parts(self.config, self.place, clock, metrics) as parts:
            await crawl(parts, limits(self.config), Control(self.config.workers))

    @contextmanager
    def _in_world(self) -> Iterator[None]:
        world = self.world

        def http(config: ReposConfig, turns: Any, clock: WorldClock, agent: str) -> LivingHttp:
            return LivingHttp(world, turns, clock, RequestLimits(total=10.0))  # type: ignore[arg-type]

        async def mirror(*_: Any) -> None:
            return None

        with ExitStack() as stack:
            for place, name, instead in (
                (build, "_http", http),
                (build, "_mirror_in", mirror),
                (subscription, "open_websocket", self.sockets.open),
                (live_meter, "_EVERY", 600.0),
                (LiveStore, "apply", self._watched_store()),
                (LiveStore, "begin_adopting", self._watched(LiveStore.begin_adopting, "adopting")),
                (EventLog, "append", self._watched_halves(EventLog.append, "events")),
                (ArchiveSink, "append", self._watched_halves(ArchiveSink.append, "deltas")),
                (ArchiveSink, "write", self._watched_later(ArchiveSink.write, "blocks")),
            ):
                stack.enter_context(patch.object(place, name, instead))
            yield

    def _watched_store(self) -> Callable[..., Any]:
        watched = self._watched(LiveStore.apply, "states")

        def apply(store: LiveStore, *args: Any) -> Any:
            self.live = store
            return watched(store, *args)

        return apply

    def _watched(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def watched(*args: Any) -> Any:
            self.world.moment(name)
            made = call(*args)
            self.world.moment(f"{name} done")
            return made

        return watched

    def _watched_later(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        async def watched(*args: Any) -> Any:
            self.world.moment(name)
            made = await call(*args)
            self.world.moment(f"{name} done")
            return made

        return watched

    def _watched_halves(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Of what is appended together, a kill may leave some."""

        async def watched(log: Any, several: Sequence[Any], *revs: Mapping[str, str]) -> None:
            self.world.moment(name)
            half = len(several) // 2
            if half:
                await call(log, several[:half], *(dict([*one.items()][:half]) for one in revs))
                self.world.moment(f"{name} half")
            await call(log, several[half:], *(dict([*one.items()][half:]) for one in revs))
            self.world.moment(f"{name} done")

        return watched


async def _ended(task: asyncio.Task[None]) -> None:
    with suppress(asyncio.CancelledError, Exception):
        await task
