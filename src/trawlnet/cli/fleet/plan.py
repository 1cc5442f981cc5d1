"""`trawlnet fleet plan`: how long a crawl takes with N shards, and which hosts take longest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from trawlnet.cli.common.errors import CliError, UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, flag
from trawlnet.cli.common.output import emit, say, size
from trawlnet.cli.common.verb import READS, Verb
from trawlnet.cli.fleet.host_sizes import registered_hosts
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.fleet.plan import Assumptions, Forecast, HostSize, forecast, read_hosts, slowest
from trawlnet.loading import load

Hosts = Annotated[
    Path | None, flag("--hosts FILE", "File with lines of HOST,REPOS.", show_default=False)
]
FromRegistry = Annotated[
    bool, flag("--from-registry", "Use the account counts of the PDS registry.")
]
Shards = Annotated[
    list[int] | None,
    flag("--shards N", "Number of shards; may be repeated [1 2 4 8 16 32].", min=1, max=512),
]
Rate = Annotated[float, flag("--rps X", "Requests per second to a large host.", min=0.001)]
Workers = Annotated[int, flag("--workers N", "Workers of one shard.", min=1)]
Latency = Annotated[float, flag("--latency X", "Seconds to fetch one repository.", min=0.001)]
Wire = Annotated[int, flag("--wire-bytes N", "Bytes of a repository as fetched.", min=1)]
Stored = Annotated[int, flag("--stored-bytes N", "Bytes of a repository as archived.", min=1)]
Plot = Annotated[Path | None, flag("--plot FILE", "Save a plot as .png or .svg.")]

_USUAL = (1, 2, 4, 8, 16, 32)
_FLOOR_HOSTS = 10
_HINT = "write one host per line: pds.example,1200"
_HELPS = 0.95  # More shards help little if this share of the time remains.


def plan(
    *,
    workspace: Folder,
    hosts: Hosts = None,
    from_registry: FromRegistry = False,
    shards: Shards = None,
    rps: Rate = 10.0,
    workers: Workers = 50,
    latency: Latency = 0.5,
    wire_bytes: Wire = 200_000,
    stored_bytes: Stored = 40_000,
    plot: Plot = None,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Estimate how long a crawl takes with N shards, its traffic and its storage.

    The estimate is a schedule in virtual time, from the sizes of the hosts; no request is sent.
    """
    if (hosts is None) is not from_registry:
        raise UsageTrouble(
            "a plan needs the sizes of hosts from exactly one source",
            "name it: --hosts FILE or --from-registry",
        )
    found = _read(hosts) if hosts else registered_hosts(workspace, flags)
    assumptions = replace(
        Assumptions(),
        large_rps=rps,
        workers=workers,
        latency=latency,
        wire_bytes=wire_bytes,
        stored_bytes=stored_bytes,
    )
    forecasts = [forecast(found, count, assumptions) for count in shards or _USUAL]
    floor = slowest(found, assumptions, _FLOOR_HOSTS)
    if json:
        emit(_row(found, forecasts, floor, assumptions))
    else:
        print(_text(found, forecasts, floor, assumptions))
    if plot is not None:
        _draw(forecasts, plot)
        say(f"saved {plot}")
    return 0


def _read(path: Path) -> list[HostSize]:
    try:
        with path.open(encoding="utf-8") as lines:
            found = read_hosts(lines)
    except ValueError as error:
        raise UsageTrouble(f"{path}, {error}", _HINT) from None
    if not found:
        raise UsageTrouble(f"{path} names no host", _HINT)
    return found


def _row(
    hosts: Sequence[HostSize],
    forecasts: Sequence[Forecast],
    floor: Sequence[tuple[HostSize, float]],
    assumptions: Assumptions,
) -> dict[str, Any]:
    repos = sum(host.repos for host in hosts)
    return {
        "hosts": len(hosts),
        "repos": repos,
        "storage_bytes": repos * assumptions.stored_bytes,
        "wire_bytes": repos * assumptions.wire_bytes,
        "enough_shards": enough(forecasts),
        "floor": [
            {"host": host.name, "repos": host.repos, "seconds": round(seconds)}
            for host, seconds in floor
        ],
        "plans": [
            {
                "shards": one.shards,
                "seconds": round(one.seconds),
                "bytes_per_day": round(one.repos_per_day * assumptions.wire_bytes),
            }
            for one in forecasts
        ],
    }


def enough(forecasts: Sequence[Forecast]) -> int:
    """The smallest of the tried numbers of shards after which more shards help little."""
    best = min(one.seconds for one in forecasts)
    return next(one.shards for one in forecasts if one.seconds * _HELPS <= best)


def _text(
    hosts: Sequence[HostSize],
    forecasts: Sequence[Forecast],
    floor: Sequence[tuple[HostSize, float]],
    assumptions: Assumptions,
) -> str:
    repos = sum(host.repos for host in hosts)
    lines = [
        f"{repos:,} repos on {len(hosts):,} hosts: "
        f"{size(repos * assumptions.wire_bytes)} to fetch, "
        f"{size(repos * assumptions.stored_bytes)} to keep",
        "",
        f"{'shards':>6}  {'takes':>10}  {'repos/s':>8}  {'fetched a day':>13}",
    ]
    for one in forecasts:
        lines.append(
            f"{one.shards:>6}  {_span(one.seconds):>10}  {one.repos_per_day / 86_400:>8,.0f}  "
            f"{size(int(one.repos_per_day * assumptions.wire_bytes)):>13}"
        )
    lines += ["", f"more than {enough(forecasts)} shards help little; these hosts take longest:"]
    for host, seconds in floor:
        lines.append(f"  {host.name:<40} {host.repos:>12,} repos  {_span(seconds):>10}")
    return "\n".join(lines)


def _span(seconds: float) -> str:
    for unit, name in ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.0f} s"


def _draw(forecasts: Sequence[Forecast], path: Path) -> None:
    try:
        new_figure = load("matplotlib.figure:Figure")
    except ImportError as error:
        raise CliError("a picture needs matplotlib", "pip install 'trawlnet[plot]'") from error
    figure = new_figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for one in forecasts:
        days = [0.0, *(at / 86_400 for at, _ in one.curve)]
        done = [0.0, *(done / 1e6 for _, done in one.curve)]
        axes.plot(days, done, label=f"{one.shards} shards")
    axes.set_xscale("symlog", linthresh=0.5)
    axes.set_xlabel("days")
    axes.set_ylabel("million repositories archived")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)


PLAN = Verb(
    plan,
    "fleet plan --hosts sizes.csv --shards 8",
    READS,
    config=PdsConfig,
    keys=("registry",),
)
