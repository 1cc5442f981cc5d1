"""`trawlnet sim`: serves small worlds on loopback, to try and test crawlers."""

from __future__ import annotations

import asyncio
import errno
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol

from trawlnet.cli.common.errors import CliError, UsageTrouble
from trawlnet.cli.common.flags import flag
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.verb import SERVES, Verb
from trawlnet.cli.common.world_events import Gaps, Outages, Pauses, events_of
from trawlnet.cli.crawl.signals import stop_event
from trawlnet.net.clock import SystemClock
from trawlnet.sim.atproto.live.relay_stream import Spoiler
from trawlnet.sim.atproto.plan import HABITS
from trawlnet.sim.atproto.world import serve_atproto
from trawlnet.sim.ids.scenarios import scenario_names
from trawlnet.sim.ids.world import serve_ids
from trawlnet.sim.web.world import serve_web

Seed = Annotated[int, flag("--seed N", "Seed; the same seed makes the same world.")]
Scale = Annotated[float, flag("--scale S", "Size of the world; 2 is about twice as large as 1.")]
Port = Annotated[int, flag("--port P", "Port to listen on; 0 picks a free one.", min=0, max=65535)]
Manifest = Annotated[
    Path | None, flag("--manifest FILE", "Write what a perfect crawl would find to this file.")
]
Log = Annotated[Path | None, flag("--log FILE", "Log every request, one JSON object per line.")]
Healthy = Annotated[bool, flag("--healthy", "Let every host behave well.")]

Acts = Annotated[
    float,
    flag(
        "--acts N",
        "Changes per second: records, accounts, keys. The firehose announces them.",
        min=0.0,
    ),
]
Spoilt = Annotated[
    float,
    flag(
        "--spoilt SHARE",
        "Share of messages that the relay drops, repeats, swaps or falsifies.",
        min=0.0,
        max=1.0,
    ),
]

IdsScenario = Annotated[
    str, flag("--scenario NAME", "Named traffic: " + ", ".join(scenario_names()) + ".")
]


class RunningWorld(Protocol):
    def ready_line(self) -> Mapping[str, Any]: ...

    async def close(self) -> None: ...


def atproto(
    seed: Seed = 1,
    scale: Scale = 1.0,
    port: Port = 0,
    manifest: Manifest = None,
    log: Log = None,
    healthy: Healthy = False,
    acts: Acts = 0.0,
    spoilt: Spoilt = 0.0,
) -> int:
    """Serve a PLC directory, a relay, and PDSes with signed repositories."""

    def start(file: Path) -> Awaitable[RunningWorld]:
        habits = () if healthy else HABITS
        return serve_atproto(
            seed,
            scale,
            port=port,
            manifest=file,
            habits=habits,
            log=log,
            acts=acts,
            spoiler=Spoiler(spoilt),
        )

    return _serve(start, scale, port, manifest)


def ids(
    seed: Seed = 1,
    scale: Scale = 1.0,
    port: Port = 0,
    manifest: Manifest = None,
    log: Log = None,
    scenario: IdsScenario = "mixed",
    gap: Gaps = None,
    pause: Pauses = None,
    outage: Outages = None,
) -> int:
    """Serve an API of sequential ids that grows in real time, with gaps."""
    events = events_of(gap, pause, outage)
    if scenario not in scenario_names():
        names = ", ".join(scenario_names())
        raise UsageTrouble(
            f"--scenario: unknown scenario {scenario!r}; choose one of {names}",
            "trawlnet sim --help",
        )

    def start(file: Path) -> Awaitable[RunningWorld]:
        return serve_ids(
            seed,
            scale,
            manifest=file,
            clock=SystemClock(),
            traffic=scenario,
            events=events,
            port=port,
            log=log,
        )

    return _serve(start, scale, port, manifest)


def web(
    seed: Seed = 1,
    scale: Scale = 1.0,
    port: Port = 0,
    manifest: Manifest = None,
    log: Log = None,
) -> int:
    """Serve web sites with robots.txt, sitemaps, redirects and traps."""

    def start(file: Path) -> Awaitable[RunningWorld]:
        return serve_web(seed, scale, manifest=file, clock=SystemClock(), port=port, log=log)

    return _serve(start, scale, port, manifest)


def _serve(
    start: Callable[[Path], Awaitable[RunningWorld]], scale: float, port: int, manifest: Path | None
) -> int:
    """Serve until SIGTERM or Ctrl-C; one line on stdout says when the world is ready."""
    if not 0.0 < scale <= _LARGEST_SCALE:
        raise UsageTrouble(
            f"--scale: expected more than 0 and at most {_LARGEST_SCALE:g}, got {scale:g}",
            "trawlnet sim --help",
        )
    try:
        # The manifest stays after the world has ended, to compare a crawl with it.
        file = manifest or Path(tempfile.mkdtemp(prefix="trawlnet-sim-")) / "manifest.json"
        asyncio.run(_until_stopped(start, file))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise CliError(
            f"port {port} is in use on loopback", "choose another with --port, or leave it out"
        ) from None
    return 0


_LARGEST_SCALE = 1e6


async def _until_stopped(start: Callable[[Path], Awaitable[RunningWorld]], manifest: Path) -> None:
    with stop_event("closing") as stop:
        world = await start(manifest)
        try:
            emit(world.ready_line())
            say("serving; stop with Ctrl-C")
            await stop.wait()
        finally:
            await world.close()


ATPROTO = Verb(atproto, "sim atproto --seed 1 --scale 0.1", SERVES, "sim")
IDS = Verb(ids, "sim ids --seed 1 --scale 1", SERVES, "sim")
WEB = Verb(web, "sim web --seed 1 --scale 1", SERVES, "sim")
