"""A whole crawl of ids in virtual time, killed at any instant and run again on what it left.

Everything is the real one but the network: engine, gate, pilot, ledger and spool. A killed process
writes nothing any more; the next one finds what was on disk, a torn last line included.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import orjson
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from tests.random_worlds.ids_world import Run, Server, World, worlds
from trawlnet.crawlers.ids import build
from trawlnet.crawlers.ids.config import IdsConfig, limits
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.ledger.askers import Askers, PendingRequest
from trawlnet.crawlers.ids.ledger.span_codec import mark_of
from trawlnet.crawlers.ids.model import AnswerVerdict, Ask, LedgerMark, Purpose
from trawlnet.crawlers.share import ShardOwnership
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl
from trawlnet.net.client.answer import Response
from trawlnet.net.http import Turns
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.queues.spool import SpoolWriter
from trawlnet.sim.virtual import SimClock, SimLoop
from trawlnet.stores.lmdb.spans import SpanFile
from trawlnet.stores.redis.spans import SpanKeys
from trawlnet.stores.spans import Span

BASE = "http://ids.example"
STATUSES = {
    AnswerVerdict.STORED: 200,
    AnswerVerdict.FILTERED: 200,
    AnswerVerdict.MALFORMED: 200,
    AnswerVerdict.NOT_FOUND: 404,
    AnswerVerdict.EMBARGOED: 401,
    AnswerVerdict.THROTTLED: 429,
    AnswerVerdict.FAILED: 502,
    AnswerVerdict.DISABLED: 503,
}
# Longer than from an answer to its line in the ledger: who was served before that is settled.
UNSETTLED = 3.0
# A process that has just begun does not know yet how fast ids come, or how late.
AFRESH = 300.0


@dataclass(frozen=True)
class Kill:
    after: float  # Seconds that the process lived before, at least.
    where: str  # `clock`: in whatever it was at; or before, amid or after one of its writes.
    away: float  # Seconds until the next one.


WHERE = ["ledger before", "spool after", "clock", "spool torn", "ledger after", "spool before"]
kills = st.lists(
    st.builds(
        Kill,
        after=st.sampled_from([500.0, 70.0, 1300.0, 3.0, 0.0]),
        where=st.sampled_from(WHERE),
        away=st.sampled_from([2.0, 45.0, 400.0, 0.0]),
    ),
    min_size=2,
    max_size=3,
)


@st.composite
def killed_worlds(draw: st.DrawFn) -> tuple[World, Sequence[Kill]]:
    world, planned = draw(worlds(fastest=2.0)), draw(kills)
    lasts = sum(kill.after + kill.away for kill in planned)
    over = max(world.over, lasts)
    bound = world.bound + sum(AFRESH + 2.0 * kill.away for kill in planned)
    # All that is there is kept, so that what was kept can be held against what is there.
    traffic = replace(world.traffic, raid_share=1.0)
    world = replace(world, traffic=traffic, over=over, bound=bound, end=over + bound + 240.0)
    return world, planned


# Seconds that a process lives on: most die while they write, and one outlives the server's death.
_LAST = {"clock": 0.0, "server": 60.0}


class Killed(BaseException):
    """Nobody catches it by mistake."""


@dataclass
class Life:
    """One process; dead, it leaves nothing behind."""

    begun: float
    kill: Kill | None
    home: Home
    is_dead: bool = False
    has_restarted: bool = False

    @property
    def ends_by_itself(self) -> float:
        """When it dies even if it writes nothing."""
        if self.kill is None:
            return float("inf")
        kind = self.kill.where.partition(" ")[0]
        return self.begun + self.kill.after + _LAST.get(kind, 300.0)

    def write_ledger(self, write: Any) -> Any:
        where = "" if self.has_restarted else self._where("server")
        if where == "before":
            self._restart()
        wrote = self.writing("ledger", write)
        if where == "after":
            self._restart()
        return wrote

    def _restart(self) -> None:
        self.has_restarted = True
        self.home.restart()

    def writing(self, what: str, write: Any, tear: Any = None) -> Any:
        if self.is_dead:
            raise Killed
        where = self._where(what)
        if where == "torn" and tear is not None:
            tear()
        if where in ("before", "torn"):
            self.die()
        wrote = write()
        if where == "after":
            self.die()
        return wrote

    def die(self) -> None:
        self.is_dead = True
        raise Killed

    def _where(self, what: str) -> str:
        now = asyncio.get_running_loop().time()
        if self.kill is None or now < self.begun + self.kill.after:
            return ""
        kind, _, where = self.kill.where.partition(" ")
        return where if kind == what else ""


@dataclass
class SimHttp:
    """The way to the server: a turn, and as long as an answer takes."""

    server: Server
    turns: Turns

    async def get(self, url: str, *, lane: str | None = None, **_: Any) -> Response:
        loop = asyncio.get_running_loop()
        number = int(url.rpartition("/")[2].partition(".")[0])
        async with self.turns.turn(lane or "") as turn:
            await turn.leave()
            answer = self.server.reply(Ask(number, Purpose.FIRST, 1), loop.time())
            await asyncio.sleep(answer.took)
        body = b"{"
        if answer.verdict is not AnswerVerdict.MALFORMED:
            body = orjson.dumps({"id": number, "time": answer.happened_at})
        headers = CIMultiDictProxy(CIMultiDict[str]())
        status = STATUSES[answer.verdict]
        return Response(status, headers, body, url, (), answer.took, len(body), answer.wait)


@dataclass
class KilledRun:
    run: Run
    stored: Counter[int]
    lives: list[float] = field(default_factory=list)  # When each process began.
    kills: list[float] = field(default_factory=list)


class Home(Protocol):
    """Where the ledger is."""

    spans_class: type[SpanFile | SpanKeys]  # That a life writes to.

    def config(self) -> Mapping[str, Any]:
        """What a crawl must be told of it."""

    def mandate(self) -> ShardOwnership:
        """For one more life."""

    def restart(self) -> None:
        """The server of the ledger is killed, and begins again."""

    def spans(self) -> list[Span]: ...


@dataclass(frozen=True)
class FileHome:
    folder: Path
    spans_class: type[SpanFile | SpanKeys] = SpanFile

    def config(self) -> Mapping[str, Any]:
        return {}

    def mandate(self) -> ShardOwnership:
        return ShardOwnership()

    def restart(self) -> None:
        raise AssertionError("it has no server")

    def spans(self) -> list[Span]:
        with closing(SpanFile(self.folder / "state" / "ids" / "ledger", readonly=True)) as file:
            return list(file.spans())


def crawl_killed(
    world: World, controls: Controls, planned: Sequence[Kill], folder: Path, home: Home
) -> KilledRun:
    server = Server(world)
    told = KilledRun(Run(server, Counter(), {}, []), Counter())
    at = 0.0
    for kill in (*planned, None):
        told.lives.append(at)
        config = _config(world, controls, home.config())
        ended = _one_life(Life(at, kill, home), told.run, config, folder, world.end)
        if ended >= world.end:
            break
        told.kills.append(ended)
        at = ended + (kill.away if kill else 0.0)
    _look_at(folder, home, told)
    return told


def _config(world: World, controls: Controls, more: Mapping[str, Any]) -> IdsConfig:
    given: Mapping[str, Any] = {
        **more,
        "base_url": BASE,
        "preset": "json",
        "anchor": "none",
        "key_variable": "none",
        "target": world.traffic.first_id,
        "buffer": 0,
        "workers": controls.workers,
        "min_workers": controls.min_workers,
        "max_workers": controls.max_workers,
        "max_rps": controls.max_rps,
        "freshness": controls.freshness,
        "patience": controls.patience,
        "allow_private_hosts": True,
    }
    return IdsConfig(**given)


def _one_life(life: Life, run: Run, config: IdsConfig, folder: Path, end: float) -> float:
    """Returns when it was killed, or the world's end."""

    @asynccontextmanager
    async def http(config: IdsConfig, turns: Turns, clock: Any) -> AsyncIterator[SimHttp]:
        yield SimHttp(run.server, turns)

    ledger_class: Any = life.home.spans_class
    lay, append = ledger_class.write, SpoolWriter.append

    def write(file: Any, *args: Any, **more: Any) -> Any:
        return life.write_ledger(lambda: lay(file, *args, **more))

    def publish(writer: SpoolWriter, lines: Sequence[bytes]) -> None:
        torn = b"\n".join(lines)[:-3]
        life.writing("spool", lambda: append(writer, lines), lambda: writer._current().append(torn))

    wake_at, asks = Askers.wake_at, Askers.asks
    nothing_at: list[float] = []

    def watched_asks(askers: Askers, now: float, room: int) -> list[PendingRequest]:
        asked = asks(askers, now, room)
        nothing_at[:] = [] if asked or room <= 0 else [now]
        return asked

    def watched_wake_at(askers: Askers, now: float) -> float:
        at = wake_at(askers, now)
        run.idle += [now] if at <= now and now in nothing_at else []
        return at

    mandate = life.home.mandate()
    loop = SimLoop()
    loop.sim_now = life.begun
    with (
        patch.object(build, "_http", http),
        patch.object(build, "MeteredHttp", lambda http, meter: http),
        patch.object(build, "check_shareable", lambda config: None),
        patch.object(ledger_class, "write", write),
        patch.object(SpoolWriter, "append", publish),
        patch.object(Askers, "asks", watched_asks),
        patch.object(Askers, "wake_at", watched_wake_at),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        try:
            runner.run(_crawl(life, config, folder, end, mandate))
        except BaseException:
            if not life.is_dead:
                raise
        return loop.sim_now


async def _crawl(
    life: Life, config: IdsConfig, folder: Path, end: float, mandate: ShardOwnership
) -> None:
    clock, loop = SimClock(), asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None

    def kill() -> None:
        life.is_dead = True
        main.cancel()

    loop.call_at(min(end, life.ends_by_itself), kill)
    metrics = CrawlMetrics("ids", clock)
    async with build.open_parts(config, folder, clock, metrics, mandate) as parts:
        await crawl(parts, limits(config), Control(config.first_workers))


def _look_at(folder: Path, home: Home, told: KilledRun) -> None:
    for span in home.spans():
        mark = mark_of(span.word)
        if mark is LedgerMark.GAP:
            told.run.gaps.append((span.start, span.end))
        elif mark is LedgerMark.DONE:
            told.run.done.update(range(span.start, span.end))
        elif mark is LedgerMark.HOLE:
            told.run.marks |= dict.fromkeys(range(span.start, span.end), mark)
    for segment in sorted((folder / "spool" / "items").glob("*.jsonl")):
        for line in segment.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                told.stored[orjson.loads(line)["id"]] += 1


# --- Judging ---


def lost(told: KilledRun) -> list[int]:
    """Ids that the ledger calls done and that are nowhere."""
    return [i for i in told.run.done if not told.stored[i]]


def unserved(told: KilledRun) -> list[int]:
    served = {i for _, i, verdict in told.run.server.log if verdict is AnswerVerdict.STORED}
    return [i for i in told.stored if i not in served]


def asked_in_vain(told: KilledRun) -> list[tuple[int, float]]:
    """Ids that were served again although nobody was killed right after they were served."""
    last: dict[int, float] = {}
    again = []
    for at, i, verdict in told.run.server.log:
        if verdict is AnswerVerdict.STORED:
            before = last.get(i)
            if before is not None and not any(
                before <= kill <= before + UNSETTLED for kill in told.kills
            ):
                again.append((i, at))
            last[i] = at
    return again


def lives_of(told: KilledRun) -> list[Run]:
    """What the server saw of each process."""
    found = []
    for begun, ended in zip(told.lives, [*told.lives[1:], float("inf")], strict=True):
        log = [row for row in told.run.server.log if begun <= row[0] < ended]
        found.append(Run(Server(told.run.server.world, log), Counter(), {}, []))
    return found
