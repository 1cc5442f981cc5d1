"""Run a fleet over the simulated web, and look at what it leaves."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.servers import free_port
from tests.support.web.site import KEYS, asked, config_for, forbidden, reachable, requests
from trawlnet.captures.line import CaptureLine
from trawlnet.captures.shared_archive import archived_lines, body_damage, manifest_of
from trawlnet.cli.web.fleet import limits_of
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.engine.partition import bucket_of, owner_of
from trawlnet.fleet.compose_captures import CaptureComposer
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.supervise import Command, Seen, begin, supervise
from trawlnet.net.clock import SystemClock
from trawlnet.sim.serve import loopback_hosts
from trawlnet.sim.web import WebWorld, serve_web
from trawlnet.storage.objects import open_objects
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word
from trawlnet.stores.redis.work.store import RedisStore

STANDS = 1.5  # Seconds.


def web_fleet_config(world: WebWorld, redis: str, archive: str, **more: Any) -> WebConfig:
    given: dict[str, Any] = {"redis_address": redis, "archive": archive, "seeds": world.seeds}
    given |= {"part_seconds": 0.3, "part_size": "200KB", "shard_timeout": STANDS}
    return config_for(world, **(given | more))


def web_job(config: WebConfig, scratch: Path, s3: Mapping[str, str] | None = None) -> ShardJob:
    return ShardJob(
        shard=0,
        crawler="web",
        config=config.model_dump(mode="json"),
        store=config.redis_address,
        s3=s3 or {},
        stands=config.shard_timeout,
        manners_gap=0.0,
        scratch=str(scratch),
    )


@asynccontextmanager
async def split_site(folder: Path, hosts: int, pages: int, **more: Any) -> AsyncIterator[WebWorld]:
    """A site of which two shards, and three, have hosts each: its port decides."""
    world = await serve_web(
        5,
        manifest=folder / "manifest.jsonl",
        clock=SystemClock(),
        hosts=hosts,
        pages=pages,
        port=_splitting_port(hosts),
        crawl_delay=0.02,
        digests=False,
        log=folder / "requests.jsonl",
        **more,
    )
    try:
        yield world
    finally:
        await world.close()


def _splitting_port(hosts: int) -> int:
    while True:
        port = free_port()
        buckets = [bucket_of(f"{host}:{port}") for host in loopback_hosts(hosts)]
        if all(len({owner_of(one, shards) for one in buckets}) == shards for shards in (2, 3)):
            return port


@asynccontextmanager
async def web_command(
    config: WebConfig,
    runtime: Any,
    show: Callable[[Seen], None] = lambda seen: None,
    s3: Mapping[str, str] | None = None,
) -> AsyncIterator[Command]:
    keys = await FleetKeys.open(config.redis_address)
    store = await RedisStore.open(config.redis_address)
    clock = SystemClock()
    begun = clock.now()
    composer = CaptureComposer(keys, open_objects(config.archive, s3 or {}))
    enough = limits_of(config, keys, lambda: clock.now() - begun)
    try:
        yield Command(keys, store, composer, runtime, clock, STANDS, show, enough)
    finally:
        await keys.close()
        await store.close()


async def web_crawl_with(
    config: WebConfig,
    runtime: Any,
    show: Callable[[Seen], None] = lambda seen: None,
    s3: Mapping[str, str] | None = None,
    shards: int = 2,
) -> Word:
    async with web_command(config, runtime, show, s3) as command:
        await begin(command.keys, shards, "web", over=(Word.DONE, Word.LIMIT))
        return await supervise(command)


def captured(archive: str, s3: Mapping[str, str] | None = None) -> list[CaptureLine]:
    """Everything that the manifest lists; its bodies are sound."""
    objects = open_objects(archive, s3 or {})
    lines = [line for one in manifest_of(objects) for line in archived_lines(objects, one)]
    assert [what for line in lines if (what := body_damage(objects.read, line))] == []
    return lines


def pages_of(lines: Sequence[CaptureLine]) -> Counter[str]:
    return Counter(KEYS.key(line.url) for line in lines if line.http_status == 200)


def check_captured(world: WebWorld, lines: Sequence[CaptureLine], log: Path) -> None:
    """Every page that an obedient crawler can reach, each once, and nothing was asked for that
    robots.txt denies."""
    wanted, found = reachable(world, "link", "sitemap"), pages_of(lines)
    assert found.keys() == wanted, (wanted - found.keys(), found.keys() - wanted)
    assert set(found.values()) == {1}
    assert asked(log).keys() & forbidden(world) == set()


def robots_asked(log: Path) -> Counter[str]:
    return Counter({key: n for key, n in asked(log).items() if key.endswith("/robots.txt")})


def least_gap(log: Path) -> float:
    """The shortest time between two requests to one host, at the most that each can have been: a
    server that waits for the processor stamps a request late, and the next one in time."""
    by_host: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in requests(log):
        by_host[row["host"]].append((row["time"], row["since"]))
    pairs = [pair for rows in by_host.values() for pair in itertools.pairwise(sorted(rows))]
    return min(later[0] - first[1] for first, later in pairs)
