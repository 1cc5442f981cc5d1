"""A simulated web served on loopback: many hosts on one port, made from a seed on request."""

from __future__ import annotations

import asyncio
import gzip
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from trawlnet.engine.ports import Clock
from trawlnet.sim.habits import DEFAULT_TEMPER, Habit, Temper, misbehave
from trawlnet.sim.serve import Call, Served, bind_hosts, loopback_hosts, serve
from trawlnet.sim.web.manifest import seeds, write_manifest
from trawlnet.sim.web.page import HonestAnswer, answer, http_date, status_of, validators
from trawlnet.sim.web.plan import PageKind, SimPage, SimSite, is_trap
from trawlnet.sim.web.robots import REDIRECTED_PATHS, Shape, SimRobots, robots, shape
from trawlnet.sim.web.sitemap import sitemap

# At scale 1 twelve hosts, one for each shape of robots.txt, with 480 pages in all.
_HOSTS = 12
_PAGES = 40
_MOST_HOSTS = 500
_ZIPPED = 6  # One page of so many is sent gzipped to those who accept it.


@dataclass(slots=True)
class WebWorld:
    """A running web; `close` ends it."""

    site: SimSite
    manifest: Path
    served: Served
    _digests: bool

    @property
    def seeds(self) -> list[str]:
        return [self.site.url(node) for node in seeds(self.site)]

    def ready_line(self) -> dict[str, Any]:
        return {"seeds": self.seeds, "manifest": str(self.manifest)}

    async def advance(self) -> None:
        """Publish the next version: some pages change, and the manifest with them."""
        self.site = replace(self.site, version=self.site.version + 1)
        await asyncio.to_thread(write_manifest, self.site, self.manifest, digests=self._digests)

    async def close(self) -> None:
        await self.served.close()


async def serve_web(
    seed: int,
    scale: float = 1.0,
    *,
    manifest: Path,
    clock: Clock,
    hosts: int | None = None,
    pages: int | None = None,
    port: int = 0,
    habits: Sequence[Habit] = (),
    temper: Temper = DEFAULT_TEMPER,
    names: Sequence[str] = (),
    version: int = 0,
    agent: str = "trawlnet",
    crawl_delay: float = 0.05,
    latency: float = 0.0,
    log: Path | None = None,
    digests: bool = True,
    spare_robots: bool = True,
) -> WebWorld:
    """Serve a web of `hosts` healthy hosts with `pages` each, and one more host for each habit.

    `names` stand in URLs instead of the first addresses; a client may connect to any address of
    the world for them, the Host header decides. `spare_robots` keeps habits off /robots.txt, so
    that a crawler which obeys gets to see them. Without `digests` the manifest of a large world
    is written much faster.
    """
    grown = max(1, min(_MOST_HOSTS, round(_HOSTS * math.sqrt(scale))))
    healthy = hosts if hosts is not None else grown
    count = healthy + len(habits)
    addresses = loopback_hosts(count)
    moods = (Habit.GOOD,) * healthy + tuple(habits)
    listening = [a for a, mood in zip(addresses, moods, strict=True) if mood is not Habit.DEAD]
    if not listening:
        raise ValueError("a world needs a host that listens")
    sockets = bind_hosts(listening, port)
    site = SimSite(
        seed=seed,
        hosts=tuple(names[:count]) + tuple(addresses[len(names) :]),
        habits=moods,
        pages=pages if pages is not None else max(1, round(_PAGES * math.sqrt(scale))),
        port=sockets[0].getsockname()[1],
        agent=agent,
        crawl_delay=crawl_delay,
        version=version,
    )
    await asyncio.to_thread(write_manifest, site, manifest, digests=digests)
    numbers = {address: h for h, address in enumerate(addresses)}
    named = {name.lower(): h for h, name in enumerate(names[:count])}

    async def answer_call(call: Call) -> web.StreamResponse:
        name = (call.request.headers.get("Host") or "").partition(":")[0].lower()
        host = named.get(name, numbers[call.host])
        path = call.request.path_qs
        here = world.site

        async def respond() -> web.StreamResponse:
            return honest(here, host, call.request)

        if spare_robots and path == "/robots.txt":
            return await respond()
        return await misbehave(
            moods[host], call.request, respond, turn=call.turn, now=call.now, temper=temper
        )

    served = await serve(answer_call, sockets, clock=clock, latency=latency, log=log)
    world = WebWorld(site, manifest, served, digests)
    return world


def honest(site: SimSite, host: int, request: web.BaseRequest) -> web.Response:
    """What a healthy host answers."""
    if request.method not in ("GET", "HEAD"):
        return web.Response(status=405, headers={"Allow": "GET, HEAD"})
    raw_path = request.raw_path
    if raw_path == "/robots.txt" or (
        raw_path in REDIRECTED_PATHS and shape(site, host) is Shape.REDIRECTED
    ):
        return _robots_response(robots(site, host, raw_path))
    listing = sitemap(site, host, raw_path)
    if listing is not None:
        kind = "application/gzip" if raw_path.endswith(".gz") else "application/xml"
        return web.Response(body=listing, headers={"Content-Type": kind})
    if is_trap(raw_path):
        return _trap_response(raw_path)
    node = site.find(host, raw_path)
    if node is None:
        return web.Response(status=404, text="<h1>Not found</h1>", content_type="text/html")
    return _page_response(site, node, request)


def _robots_response(rules: SimRobots) -> web.Response:
    headers = {"Content-Type": rules.content_type}
    if rules.location is not None:
        headers["Location"] = rules.location
    return web.Response(status=rules.status, body=rules.body, headers=headers)


def _trap_response(raw_path: str) -> web.Response:
    page = trap_page(raw_path)
    if page is None:
        return web.Response(status=404, text="nothing\n")
    return web.Response(text=page, content_type="text/html")


def _page_response(site: SimSite, node: SimPage, request: web.BaseRequest) -> web.Response:
    if status_of(site, node) == 200:
        etag, modified = validators(site, node.host, node.n)
        if _unchanged(request, etag, modified):
            return web.Response(status=304, headers=_validator_headers(etag, modified))
    made = answer(site, node)
    headers = {"Content-Type": made.content_type, **_validator_headers(made.etag, made.modified)}
    if made.location is not None:
        headers["Location"] = made.location
    if made.x_robots is not None:
        headers["X-Robots-Tag"] = made.x_robots
    body = _coded(site, node, made, request, headers)
    return web.Response(status=made.status, body=body, headers=headers)


def _coded(
    site: SimSite,
    node: SimPage,
    made: HonestAnswer,
    request: web.BaseRequest,
    headers: dict[str, str],
) -> bytes:
    wanted = site.lot(node.host, node.n, salt=10, sides=_ZIPPED) == 0
    if not wanted or site.kind(node.host, node.n) is PageKind.MOVED or made.status != 200:
        return made.body
    headers["Vary"] = "Accept-Encoding"
    if "gzip" not in request.headers.get("Accept-Encoding", ""):
        return made.body
    headers["Content-Encoding"] = "gzip"
    return gzip.compress(made.body, compresslevel=1, mtime=0)


def _validator_headers(etag: str | None, modified: int | None) -> dict[str, str]:
    headers = {}
    if etag is not None:
        headers["ETag"] = etag
    if modified is not None:
        headers["Last-Modified"] = http_date(modified)
    return headers


def _unchanged(request: web.BaseRequest, etag: str | None, modified: int | None) -> bool:
    """If-None-Match decides alone when it is there; the date counts only without it."""
    marks = request.headers.get("If-None-Match")
    if marks is not None:
        known = {mark.strip().removeprefix("W/") for mark in marks.split(",")}
        return etag is not None and ("*" in known or etag.removeprefix("W/") in known)
    since = request.headers.get("If-Modified-Since")
    if since is None or modified is None:
        return False
    try:
        return parsedate_to_datetime(since).timestamp() >= modified
    except ValueError:
        return False


_FACETS = ("color=red", "color=blue", "size=s", "size=m", "sort=up", "sort=down", "view=grid")
_MONTH = re.compile(r"/calendar/(\d{1,6})/(\d{2})")
_DEEPEST = 4000  # Characters; a server has a limit for paths, too.


def trap_page(raw_path: str) -> str | None:
    """The page behind a trap's path, or None where even the trap has nothing."""
    if len(raw_path) > _DEEPEST:
        return None
    if raw_path.startswith("/calendar/"):
        hrefs = _months(raw_path)
    elif raw_path.startswith("/maze/"):
        here = raw_path.partition("?")[0].rstrip("/")
        hrefs = [f"{here}/a/", f"{here}/b/", f"{here}/a/b/a/b/"]
    elif raw_path.startswith("/session/"):
        hrefs = _sessions(raw_path)
    else:
        hrefs = _facets(raw_path)
    if hrefs is None:
        return None
    anchors = "".join(f'<a href="{href}">on</a>\n' for href in ("/", *hrefs))
    return f"<!doctype html>\n<html><body>\n<h1>More</h1>\n{anchors}</body></html>\n"


def _months(path: str) -> list[str] | None:
    found = _MONTH.fullmatch(path)
    if found is None:
        return None
    month = int(found[1]) * 12 + int(found[2]) - 1
    return [f"/calendar/{m // 12}/{m % 12 + 1:02}" for m in (month - 1, month + 1, month + 12)]


def _sessions(path: str) -> list[str]:
    # The server forgets whom it met: every page of every visit gives out new session ids.
    mark = zlib.crc32(path.encode("utf-8", "surrogatepass"))
    return [f"/session/item/{n}?sid={zlib.crc32(b'%d %d' % (mark, n)):08x}" for n in range(1, 6)]


def _facets(path: str) -> list[str]:
    chosen = path.partition("?")[2].replace("&amp;", "&").split("&")[-11:]
    return [f"/facets?{'&amp;'.join([*chosen, extra])}" for extra in _FACETS]
