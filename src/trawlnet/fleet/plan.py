"""Estimates how long a crawl takes with N shards: a schedule in virtual time, by host sizes."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trawlnet.engine.partition import Moves, bucket_of, owners

_STEPS = 400  # Steps in the shortest possible time of a schedule.
_DAY = 86_400.0


class HostSize(NamedTuple):
    name: str
    repos: int


@dataclass(frozen=True, slots=True)
class Assumptions:
    small_rps: float = 2.0  # Requests per second to a host of fewer than 100 repositories.
    default_rps: float = 5.0  # To a host of fewer than 1000.
    large_rps: float = 10.0  # To a larger host.
    concurrency: int = 4  # Requests in flight to one host.
    workers: int = 50  # Of one shard.
    latency: float = 0.5  # Seconds to fetch a repository.
    made_per_second: float = 300.0  # Repositories per second that one shard's CPU can process.
    wire_bytes: int = 200_000  # Of one repository as fetched.
    stored_bytes: int = 40_000  # Of one repository as archived.

    def rate(self, host: HostSize) -> float:
        """Repositories per second that the host alone allows."""
        if host.repos < 100:
            most = self.small_rps
        else:
            most = self.default_rps if host.repos < 1000 else self.large_rps
        return min(most, self.concurrency / self.latency)

    @property
    def shard_rate(self) -> float:
        """Repositories per second that a shard can process if the hosts allow it."""
        return min(self.workers / self.latency, self.made_per_second)


@dataclass(frozen=True, slots=True)
class Forecast:
    shards: int
    seconds: float
    floor: float  # Seconds for the slowest host, with any number of shards.
    curve: Sequence[tuple[float, float]]  # Seconds, and repositories done by then.

    @property
    def days(self) -> float:
        return self.seconds / _DAY

    @property
    def repos_per_day(self) -> float:
        """The average until nine of ten repositories are archived."""
        total = self.curve[-1][1]
        at, done = next(point for point in self.curve if point[1] >= 0.9 * total)
        return done / at * _DAY if at else 0.0


def read_hosts(lines: Iterable[str]) -> list[HostSize]:
    """Read lines of `host,repos`, or the same with blanks or tabs; skips a header and comments.
    Raises ValueError with the number of the line."""
    hosts = []
    for number, line in enumerate(lines, 1):
        words = [word for word in re.split(r"[,\s]+", line.strip()) if word]
        if not words or words[0].startswith("#") or (number == 1 and not words[-1].isdigit()):
            continue
        if len(words) < 2 or not words[1].isdigit():
            raise ValueError(f"line {number}: expected HOST,REPOS, got {line.strip()[:60]!r}")
        hosts.append(HostSize(words[0], int(words[1])))
    return hosts


def forecast(
    hosts: Sequence[HostSize], shards: int, assumptions: Assumptions, moved: Moves = ()
) -> Forecast:
    """A forecast in which each shard works on its own lanes, those with the most left first."""
    shares: list[list[HostSize]] = [[] for _ in range(shards)]
    owner = owners(shards, moved)
    for host in hosts:
        shares[owner[bucket_of(host.name)]].append(host)
    floor = max((host.repos / assumptions.rate(host) for host in hosts), default=0.0)
    curves = [list(_schedule(share, assumptions)) for share in shares if share]
    seconds = max((curve[-1][0] for curve in curves), default=0.0)
    return Forecast(shards, seconds, floor, _summed(curves) or [(0.0, 0.0)])


def slowest(
    hosts: Sequence[HostSize], assumptions: Assumptions, most: int
) -> list[tuple[HostSize, float]]:
    """The hosts that take longest, with their seconds."""
    timed = ((host, host.repos / assumptions.rate(host)) for host in hosts)
    return heapq.nlargest(most, timed, key=lambda pair: pair[1])


def _schedule(hosts: Sequence[HostSize], assumptions: Assumptions) -> Iterator[tuple[float, float]]:
    """Seconds, and repositories done by then, of one shard, step by step."""
    left = [float(host.repos) for host in hosts]
    rates = [assumptions.rate(host) for host in hosts]
    least = max(max(map(float.__truediv__, left, rates)), sum(left) / assumptions.shard_rate)
    step, now, done = least / _STEPS or 1.0, 0.0, 0.0
    order = list(range(len(hosts)))
    while order:
        order.sort(key=lambda n: left[n] / rates[n], reverse=True)
        room = assumptions.shard_rate * step
        for n in order:
            some = min(left[n], rates[n] * step, room)
            left[n] -= some
            room -= some
            done += some
            if room <= 0.0:
                break
        order = [n for n in order if left[n] > 1e-6]
        now += step
        yield now, done


def _summed(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """All shards together, at the instants of any of them."""
    changes = sorted(
        (at, after - before)
        for curve in curves
        for (at, after), before in zip(curve, [0.0, *(done for _, done in curve)], strict=False)
    )
    total, points = 0.0, []
    for at, change in changes:
        total += change
        points.append((at, total))
    return points
