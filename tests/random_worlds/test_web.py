"""Sites drawn at random, crawled as anybody would: polite by their own log, and nothing missing."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
import re
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds
from tests.random_worlds.web_world import (
    HOSTS,
    Chosen,
    Host,
    Leaf,
    World,
    allowed,
    configs,
    numbers_of,
    worlds_of_hosts,
)
from tests.support.web.scripted import (
    Answer,
    Asked,
    Crawled,
    VirtualClock,
    basic_config,
    crawl_scripted,
    in_virtual_time,
    scripted_web,
)
from tests.support.web.site import captures
from trawlnet.captures.line import CaptureLine
from trawlnet.engine.control import Ending

INSTANT = 1e-3  # Seconds.
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Visit:
    """All that is left of a crawl: what the servers saw, and what was stored."""

    world: World
    chosen: Chosen
    port: int
    log: Sequence[Asked]
    done: Crawled
    lines: Sequence[CaptureLine]
    folder: Path
    killed_at: float = math.inf  # By the clock of the servers.

    def of(self, host: int) -> list[Asked]:
        return sorted((one for one in self.log if one.host == HOSTS[host]), key=_began)

    def lives(self, log: Sequence[Asked]) -> list[list[Asked]]:
        """Of the process that was killed, and of the one that went on: what one knew of a host's
        wishes need not be known to the other."""
        first = [one for one in log if one.began < self.killed_at]
        return [first, [one for one in log if one.began >= self.killed_at]]

    def target(self, host: int, url: str) -> str:
        """The path and query of a URL at this host; empty for one elsewhere."""
        stem = f"http://{HOSTS[host]}:{self.port}"
        return url.removeprefix(stem) if url.startswith(f"{stem}/") else ""

    def served(self, host: int, number: int) -> bytes:
        """The body of a page, inflated."""
        body = self.world.content(host, number, self.chosen.size)
        if self.world.hosts[host].pages[number].kind in ("gzip", "cut", "unframed"):
            return body
        return body.replace(b"HOST", f"{HOSTS[host]}:{self.port}".encode())


def _began(one: Asked) -> float:
    return one.began


def visited(world: World, chosen: Chosen, folder: Path, kill_at: int | None = None) -> Visit:
    async def main() -> Visit:
        begun = VirtualClock().now()
        kill = Kill(folder / "site", folder / "image", kill_at)

        def answers(host: str, target: str, times: int, now: float) -> Answer:
            kill.one_more()
            answer = world.answer(host, target, times, now - begun, chosen.size)
            here = f"{host}:{server.port}".encode()
            return _named(answer, here)

        names = HOSTS[: len(world.hosts)]
        async with scripted_web(names, answers) as server:
            seeds = [server.url(host) for host in names]
            config = basic_config(**chosen.keys())
            async with asyncio.timeout(40 * DAY):
                done = await kill.survived(crawl_scripted(config, kill.place, seeds))
                if done is None:
                    await asyncio.sleep(INSTANT)
                    done = await crawl_scripted(config, kill.image, seeds, "r2")
            place = kill.place if kill.at == math.inf else kill.image
            left = captures(place)
            return Visit(world, chosen, server.port, server.log, done, left, place, kill.at)

    return in_virtual_time(main())


def _named(answer: Answer, here: bytes) -> Answer:
    """Pages name their host in links, which is known only when it is served."""
    if answer.raw is not None or not answer.content_type.startswith("text/html"):
        return answer
    if dict(answer.headers).get("Content-Encoding"):
        return answer
    return replace(answer, body=answer.body.replace(b"HOST", here))


@dataclass(slots=True)
class Kill:
    """The workspace as a process that dies at that request leaves it."""

    place: Path
    image: Path
    left: int | None  # Requests.
    at: float = math.inf
    dead: asyncio.Event = field(default_factory=asyncio.Event)

    def one_more(self) -> None:
        if self.left is None or self.dead.is_set():
            return
        self.left -= 1
        if self.left <= 0:
            shutil.copytree(self.place, self.image)
            self.at = VirtualClock().now() + INSTANT
            self.dead.set()

    async def survived(self, life: Coroutine[Any, Any, Crawled]) -> Crawled | None:
        """What came of a crawl; None if it was killed."""
        crawling, dying = asyncio.ensure_future(life), asyncio.ensure_future(self.dead.wait())
        await asyncio.wait((crawling, dying), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if not self.dead.is_set():
            return await crawling
        crawling.cancel()
        await asyncio.gather(crawling, return_exceptions=True)
        return None


@worlds(25)
@given(world=worlds_of_hosts, chosen=configs, kill_at=st.none() | st.integers(1, 60))
def test_a_site_is_crawled_politely_and_whole(
    world: World, chosen: Chosen, kill_at: int | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        visit = visited(world, chosen, Path(folder), kill_at)
        for host in range(len(world.hosts)):
            judge_robots(visit, host)
            for asked in visit.lives(visit.of(host)):
                judge_gaps(visit, host, asked)
                judge_waits(asked)
            judge_pages(visit, host)
        judge_crowd(visit)


def judge_robots(visit: Visit, host: int) -> None:
    site, asked = visit.world.hosts[host], visit.of(host)
    assert asked[0].target == "/robots.txt"
    ruling = [one for one in asked if one.target in ("/robots.txt", "/moved.txt")]
    others = [one for one in asked if one not in ruling]
    # "Slow down" is no answer, whatever its status.
    heard = ruling[1:] if site.robots_busy else ruling
    answered = [one for one in heard if one.status in (200, 403, 404)]
    if site.robots == "failing":
        assert not others, "nobody may be asked before robots.txt has answered"
        return
    assert not others or answered[0].ended <= others[0].began + INSTANT
    denied = [one.target for one in others if not allowed(site, one.target)]
    assert not denied, f"robots.txt denies {denied}"


def judge_gaps(visit: Visit, host: int, asked: Sequence[Asked]) -> None:
    """From the end of each answer to the next request; requests overlap only where none is set."""
    site, chosen = visit.world.hosts[host], visit.chosen
    gap = 1 / chosen.rate if chosen.rate else 0.0
    delay = min(site.delay or 0.0, chosen.delay_cap) if site.robots in ("file", "moved") else 0.0
    told = False  # Whether robots.txt has been read.
    for before, after in itertools.pairwise(asked):
        told = told or (before.target.endswith(".txt") and before.status == 200)
        need = max(gap, delay if told else 0.0)
        # Who hangs up on a slow answer has ended the request; its server learns that later.
        ended = min(before.ended, before.began + chosen.timeout)
        if need:
            assert after.began >= ended + need - INSTANT, (before, after, need)
    for one in asked:
        together = sum(_under_way(o, one.began, chosen.timeout) for o in asked)
        assert together <= (chosen.per_host if not gap and not delay else 1) or together <= 1


def judge_waits(asked: Sequence[Asked]) -> None:
    for one in asked:
        if one.wait:
            early = [o for o in asked if one.ended < o.began < one.ended + one.wait]
            assert not early, f"{one.target} asked for {one.wait} s of rest: {early}"


def judge_crowd(visit: Visit) -> None:
    for log in visit.lives(visit.log):
        for one in log:
            together = sum(_under_way(o, one.began, visit.chosen.timeout) for o in log)
            assert together <= visit.chosen.workers


def _under_way(one: Asked, at: float, timeout: float) -> bool:
    return one.began <= at < min(one.ended, one.began + timeout) - INSTANT


def judge_pages(visit: Visit, host: int) -> None:
    """Every page that a captured one leads to is captured with its bytes, or named."""
    site, chosen = visit.world.hosts[host], visit.chosen
    kept = kept_pages(visit, host)
    named = {_spelt(visit.target(host, key)) for key in visit.done.failures}
    wanted = within_reach(visit, host, kept)
    if visit.done.ending is Ending.LIMIT:
        pages = sum(line.http_status == 200 for line in visit.lines)
        assert pages == chosen.pages or (visit.killed_at < math.inf and pages > chosen.pages)
        return
    missing = [n for n in wanted if n not in kept and _spelt(site.pages[n].path) not in named]
    assert not missing, [site.pages[n] for n in missing]
    if site.down == (0.0, 0.0) and site.robots != "failing" and _is_ruled(site, chosen):
        fits = {n for n in wanted if len(visit.served(host, n)) <= chosen.size}
        lost = [
            n for n in wanted if n not in kept and n in fits and _must_come(site.pages[n], chosen)
        ]
        assert not lost, [(site.pages[n], visit.done.failures) for n in lost]


def _is_ruled(site: Host, chosen: Chosen) -> bool:
    """A host without robots.txt is given up unless a probe brings it."""
    return site.robots_busy is None or site.robots_busy.status != 503 or chosen.probes > 0


def kept_pages(visit: Visit, host: int) -> set[int]:
    """By number; their stored bytes must be those that were served."""
    site = visit.world.hosts[host]
    numbers, kept = numbers_of(site.pages), set()
    for line in visit.lines:
        target = visit.target(host, line.url)
        if not target or target not in numbers:
            continue
        number = numbers[target]
        kept.add(number)
        if line.http_status == 200 and site.pages[number].kind != "image":
            body = (visit.folder / line.stored_path).read_bytes()
            served = visit.served(host, number)
            assert body == served
            assert line.content_sha256 == hashlib.sha256(served).hexdigest()
    return kept


def within_reach(visit: Visit, host: int, kept: set[int]) -> dict[int, int]:
    """Pages that are to be asked for, with their distance from a seed."""
    site, chosen = visit.world.hosts[host], visit.chosen
    most = math.inf if chosen.depth is None else chosen.depth
    depths = {0: 0} | {n: 1 for n in site.sitemap if site.robots in ("file", "moved")}
    if not allowed(site, "/sitemap.xml") or site.down != (0.0, 0.0):
        depths = {0: 0}
    if "/" not in {one.target for one in visit.of(host)}:
        return {0: 0} if allowed(site, "/") else {}
    todo = sorted(depths)
    while todo:
        number = todo.pop(0)
        page, depth = site.pages[number], depths[number]
        for link, far in _leads_to(site, page, number in kept, depth):
            if far < depths.get(link, math.inf):
                depths[link] = far
                todo.append(link)
    return {n: d for n, d in depths.items() if d <= most and allowed(site, site.pages[n].path)}


def _leads_to(site: Host, page: Leaf, is_kept: bool, depth: int) -> list[tuple[int, int]]:
    if not is_kept or page.kind == "image":
        return []
    if page.kind == "moved":
        return [(page.number % len(site.pages), depth)]
    # A host's name stands in links only where it could be put in.
    written = [n for n, how in page.links if how not in ("user", "absolute")
               or page.kind not in ("gzip", "unframed", "cut")]  # fmt: skip
    return [(n, depth + 1) for n in written]


def _must_come(page: Leaf, chosen: Chosen) -> bool:
    match page.kind:
        case "good" | "gzip" | "legacy" | "unframed" | "image" | "sized":
            return True
        case "busy":
            return page.stated.status != 503 or chosen.retries >= 1
        case "flaky":
            return page.number <= chosen.retries
        case "slow":
            return page.number / 4 < chosen.timeout - 0.5
        case _:
            return False


def _spelt(target: str) -> str:
    """One spelling for each order of parameters."""
    path, _, query = target.partition("#")[0].partition("?")
    path = re.sub("%[0-9a-f]{2}", lambda found: found[0].upper(), path)
    return path + "?" + "&".join(sorted(query.split("&")))
