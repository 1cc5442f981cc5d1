"""The simulated web is what its manifest says, seen by a small crawler with its own rules."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urldefrag, urlencode, urljoin, urlsplit

import aiohttp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trawlnet.net.clock import SystemClock
from trawlnet.sim.habits import Habit, Temper
from trawlnet.sim.web import WebWorld, read_manifest, serve_web
from trawlnet.sim.web.links import links
from trawlnet.sim.web.manifest import rows
from trawlnet.sim.web.page import answer, charset
from trawlnet.sim.web.plan import TRAPS, PageKind, SimPage, SimSite
from trawlnet.sim.web.robots import PARSE_FLOOR, Shape, shape
from trawlnet.sim.web.world import trap_page

AGENT = "trawlnet"


Visit = Callable[[WebWorld, aiohttp.ClientSession], Coroutine[Any, Any, None]]


def in_world(tmp_path: Path, visit: Visit, **options: Any) -> None:
    async def main() -> None:
        chosen: dict[str, Any] = {"hosts": 12, "pages": 40, **options}
        manifest = tmp_path / "manifest.jsonl"
        world = await serve_web(7, manifest=manifest, clock=SystemClock(), **chosen)
        try:
            async with aiohttp.ClientSession(headers={"User-Agent": AGENT}) as session:
                await visit(world, session)
        finally:
            await world.close()

    asyncio.run(main())


def page_rows(world: WebWorld) -> list[dict[str, Any]]:
    return [row for row in read_manifest(world.manifest) if row["type"] == "page"]


def host_rows(world: WebWorld) -> list[dict[str, Any]]:
    return [row for row in read_manifest(world.manifest) if row["type"] == "host"]


def plan(seed: int = 7, hosts: int = 12, pages: int = 40) -> SimSite:
    names = tuple(f"127.0.0.{n + 2}" for n in range(hosts))
    return SimSite(seed, names, (Habit.GOOD,) * hosts, pages, port=8000)


# --- A small crawler, written from the rules alone. ---


class Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.hrefs: list[tuple[str, bool]] = []
        self.nofollow = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "base":
            self.base = values.get("href") or ""
        if tag == "meta" and (values.get("name") or "").lower() == "robots":
            self.nofollow |= "nofollow" in (values.get("content") or "").lower()
        if tag == "a" and values.get("href") is not None:
            nofollow = "nofollow" in (values.get("rel") or "")
            self.hrefs.append((values["href"] or "", nofollow))


def key(url: str) -> str:
    parts = urlsplit(urldefrag(url).url)
    query = [(k, v) for k, v in parse_qsl(parts.query) if not k.startswith(("utm_", "fbc", "gcl"))]
    tail = f"?{urlencode(query)}" if query else ""
    return f"{parts.scheme.lower()}://{parts.netloc}{quote(unquote(parts.path or '/'))}{tail}"


def decode(body: bytes, content_type: str) -> str:
    for mark, codec in ((b"\xff\xfe", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig")):
        if body.startswith(mark):
            return body.decode(codec)
    declared = re.search(r"charset=([\w-]+)", content_type)
    named = declared[1] if declared else ""
    if not named:
        meta = re.search(rb'<meta charset="([\w-]+)"', body[:1024])
        named = meta[1].decode() if meta else "utf-8"
    return body.decode(named, "replace")


def permits(robots: str, agent: str, path: str) -> bool:
    """RFC 9309 in a few lines: the longest rule of the agent's groups wins, a tie allows."""
    groups: dict[str, list[tuple[str, str]]] = {}
    agents: list[str] = []
    in_rules = False
    for line in robots.removeprefix("\ufeff").splitlines():
        name, colon, value = line.partition("#")[0].partition(":")
        name, value = name.strip().lower(), value.strip()
        if name == "user-agent" and colon:
            agents = [value.lower()] if in_rules else [*agents, value.lower()]
            in_rules = False
        elif name in ("allow", "disallow"):
            in_rules = True
            for one in agents:
                groups.setdefault(one, []).append((name, value))
    rules = groups.get(agent.lower(), groups.get("*", []))
    hits = [(len(v), n == "allow") for n, v in rules if v and matches(v, path)]
    return max(hits, default=(0, True))[1]


def matches(rule: str, path: str) -> bool:
    ends = rule.endswith("$")
    pieces = unquote(rule.removesuffix("$")).split("*")
    pattern = ".*".join(re.escape(piece) for piece in pieces)
    return re.match(pattern + ("$" if ends else ""), unquote(path)) is not None


@dataclass
class Crawl:
    session: aiohttp.ClientSession
    hosts: set[str]
    traps: tuple[str, ...]
    pages: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    verdicts: dict[str, str | None] = field(default_factory=dict)

    async def run(self, seeds: list[str]) -> None:
        queue = deque(seeds)
        while queue:
            url = queue.popleft()
            if key(url) in self.pages or not await self.wanted(url):
                continue
            for found in await self.visit(url):
                queue.append(found)

    async def wanted(self, url: str) -> bool:
        parts = urlsplit(url)
        if parts.scheme.lower() != "http" or parts.netloc not in self.hosts:
            return False
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        if path.startswith(self.traps):
            return False
        robots = await self.robots(parts.netloc)
        return robots is not None and permits(robots, AGENT, path or "/")

    async def robots(self, host: str) -> str | None:
        if host not in self.verdicts:
            async with self.session.get(f"http://{host}/robots.txt") as response:
                text = (await response.read())[:PARSE_FLOOR].decode("utf-8", "replace")
            status = response.status
            self.verdicts[host] = None if status >= 500 else "" if status >= 400 else text
        return self.verdicts[host]

    async def visit(self, url: str) -> list[str]:
        async with self.session.get(url, allow_redirects=False) as response:
            body = await response.read()
        self.pages[key(url)] = (response.status, body)
        if "Location" in response.headers:
            return [joined(url, response.headers["Location"])]
        kind = response.headers["Content-Type"]
        if response.status != 200 or not kind.startswith("text/html"):
            return []
        anchors = Anchors()
        anchors.feed(decode(body, kind))
        words = response.headers.get("X-Robots-Tag", "")
        if anchors.nofollow or ("nofollow" in words and ":" not in words):
            return []
        base = urljoin(url, anchors.base)
        return [joined(base, href) for href, nofollow in anchors.hrefs if not nofollow]


def joined(base: str, href: str) -> str:
    with contextlib.suppress(ValueError):
        return urldefrag(urljoin(base, href.strip())).url
    return "malformed:"


# --- What holds. ---


@pytest.mark.slow
def test_a_crawler_that_obeys_finds_exactly_what_the_manifest_promises(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"

    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        pages = page_rows(world)
        head = next(iter(read_manifest(world.manifest)))
        hosts = {urlsplit(row["base"]).netloc for row in host_rows(world)}
        crawl = Crawl(session, hosts, tuple(head["traps"]))
        await crawl.run(head["seeds"])
        expected = {row["url"] for row in pages if row["allowed"] and row["via"] == "link"}
        assert set(crawl.pages) == expected
        assert len(expected) > 300
        for row in pages:
            if row["url"] in expected:
                status, body = crawl.pages[row["url"]]
                assert status == row["status"]
                assert hashlib.sha256(body).hexdigest() == row["sha256"], row["url"]
                assert len(body) == row["length"]

    in_world(tmp_path, visit, log=log)
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    denied = {row["url"] for row in read_manifest(tmp_path / "manifest.jsonl") if _is_denied(row)}
    assert denied
    assert not {key(f"http://{a['host']}:{a['port']}{a['path']}") for a in asked} & denied


def _is_denied(row: dict[str, Any]) -> bool:
    return row["type"] == "page" and not row["allowed"]


def test_depths_are_link_distances(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        depths = Counter(row["depth"] for row in page_rows(world) if row["via"] == "link")
        assert min(depths) == 0
        assert depths[0] >= 3
        assert depths[1] > depths[0]

    in_world(tmp_path, visit)


@pytest.mark.slow
def test_the_same_seed_makes_the_same_world_in_another_process() -> None:
    code = (
        "import json, sys; sys.path[:0] = json.loads(sys.argv[1])\n"
        "import hashlib\n"
        "from trawlnet.sim.habits import Habit\n"
        "from trawlnet.sim.web.manifest import rows\n"
        "from trawlnet.sim.web.plan import SimSite\n"
        "names = tuple(f'127.0.0.{n + 2}' for n in range(12))\n"
        "site = SimSite(7, names, (Habit.GOOD,) * 12, 40, port=8000)\n"
        "print(hashlib.sha256(json.dumps(list(rows(site))).encode()).hexdigest())\n"
    )
    command = [sys.executable, "-c", code, json.dumps(sys.path)]
    made = [
        subprocess.run(
            command, env={"PYTHONHASHSEED": salt}, capture_output=True, check=True, text=True
        ).stdout.strip()
        for salt in ("1", "2")
    ]
    here = hashlib.sha256(json.dumps(list(rows(plan()))).encode()).hexdigest()
    assert made == [here, here]


def test_another_seed_makes_another_world() -> None:
    one = {row["sha256"] for row in rows(plan(seed=1)) if row["type"] == "page"}
    two = {row["sha256"] for row in rows(plan(seed=2)) if row["type"] == "page"}
    assert len(one & two) < 10  # Error pages and redirects have the same short bodies.


def test_every_path_of_the_plan_is_found_again() -> None:
    site = plan(pages=400)
    kinds = set()
    for n in range(400):
        kinds.add(site.kind(3, n))
        assert site.find(3, site.path(3, n)) == SimPage(3, n)
    assert kinds == set(PageKind)
    for path in ("/articles/0.html", "/articles/99999.html", "/list?page=-1", "/list", "/nothing"):
        assert site.find(3, path) is None


def test_robots_files_mean_what_the_plan_says(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        shapes = set()
        crawl = Crawl(session, set(), ())
        for row in host_rows(world):
            shapes.add(row["robots"])
            text = await crawl.robots(urlsplit(row["base"]).netloc)
            for page in page_rows(world):
                if page["host"] == row["host"]:
                    path = page["url"].removeprefix(row["base"])
                    verdict = text is not None and permits(text, AGENT, path)
                    assert verdict == page["allowed"], page["url"]
            if row["crawl_delay"] is not None:
                assert text is not None
                assert f"rawl-delay: {row['crawl_delay']}" in text
        assert shapes == {one.value for one in Shape}

    in_world(tmp_path, visit)


def test_robots_come_with_every_status_and_encoding(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        seen = {}
        for host, row in enumerate(host_rows(world)):
            url = f"{row['base']}/robots.txt"
            async with session.get(url, allow_redirects=False) as response:
                seen[shape(world.site, host)] = (response.status, await response.read())
        assert {one: seen[one][0] for one in seen if seen[one][0] != 200} == {
            Shape.MISSING: 404,
            Shape.FORBIDDEN: 403,
            Shape.REDIRECTED: 301,
            Shape.FAILING: 503,
        }
        assert len(seen[Shape.LONG][1]) > PARSE_FLOOR
        assert seen[Shape.BOM][1].startswith(b"\xef\xbb\xbf")
        with pytest.raises(UnicodeDecodeError):
            seen[Shape.CHARSET][1].decode()

    in_world(tmp_path, visit, pages=2)


def test_pages_look_like_pages() -> None:
    sizes, counts = [], []
    for row in rows(plan()):
        if row["type"] == "page" and row["status"] == 200 and "utf-8" in row["content_type"]:
            sizes.append(row["length"])
    site = plan()
    for n in range(40):
        if site.kind(0, n).html and charset(site, 0, n).codec == "utf-8":
            anchors = Anchors()
            anchors.feed(answer(site, SimPage(0, n)).body.decode())
            counts.append(len(anchors.hrefs))
    assert 5_000 < min(sizes) < max(sizes) < 20_000
    assert 20 < sum(counts) / len(counts) < 40


def test_unchanged_pages_are_not_sent_again_and_changed_ones_are(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        before = {
            row["url"]: row["sha256"]
            for row in page_rows(world)
            if row["status"] == 200 and row["host"] == "127.0.0.2"
        }
        marks = {}
        for url in before:
            async with session.get(url) as response:
                await response.read()
                marks[url] = conditions(response.headers)
        assert Counter(tuple(sorted(mark)) for mark in marks.values()).keys() == {
            (),
            ("If-Modified-Since",),
            ("If-None-Match",),
            ("If-Modified-Since", "If-None-Match"),
        }
        for url, mark in marks.items():
            assert await status(session, url, mark) == (304 if mark else 200)
        await world.advance()
        after = {row["url"]: row["sha256"] for row in page_rows(world)}
        changed = {url for url in before if before[url] != after[url]}
        assert 0 < len(changed) < len(before) / 4
        for url, mark in marks.items():
            expected = 304 if mark and url not in changed else 200
            assert await status(session, url, mark) == expected

    in_world(tmp_path, visit, hosts=1, pages=120)


def conditions(headers: Any) -> dict[str, str]:
    pairs = (("ETag", "If-None-Match"), ("Last-Modified", "If-Modified-Since"))
    return {condition: headers[name] for name, condition in pairs if name in headers}


async def status(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> int:
    async with session.get(url, headers=headers, allow_redirects=False) as response:
        body = await response.read()
        assert response.status != 304 or body == b""
        return response.status


def test_a_wrong_etag_beats_a_right_date(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        for row in page_rows(world):
            if row["status"] == 200:
                async with session.get(row["url"]) as response:
                    mark = conditions(response.headers)
                if len(mark) == 2:
                    mark["If-None-Match"] = '"other"'
                    assert await status(session, row["url"], mark) == 200
                    return
        pytest.fail("no page has both validators")

    in_world(tmp_path, visit, hosts=1)


def test_pages_come_in_every_charset_and_can_be_read() -> None:
    site = plan(hosts=1, pages=2000)
    seen = {}
    for n in range(2000):
        if site.kind(0, n) is PageKind.ARTICLE:
            coding = charset(site, 0, n)
            made = answer(site, SimPage(0, n))
            seen[coding] = decode(made.body, made.content_type)
            assert f"<h1>Page {n}</h1>" in seen[coding]
    assert len(seen) == 9
    broken = [coding for coding, text in seen.items() if "\ufffd" in text]
    assert [(one.codec, one.header) for one in broken] == [("cp1252", "; charset=utf-8")]


def test_redirects_lead_near_far_in_circles_and_out(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        ends: Counter[str] = Counter()
        codes = set()
        for row in page_rows(world):
            if row["location"] is None or row["hop"]:
                continue
            codes.add(row["status"])
            ends[await follow(session, row["url"])] += 1
        assert codes == {301, 302, 303, 307, 308}
        assert set(ends) == {"same host", "other host", "private", "loop", "too long"}

    in_world(tmp_path, visit, hosts=4, pages=400, digests=False)


async def follow(session: aiohttp.ClientSession, url: str) -> str:
    start, seen = urlsplit(url).netloc, {url}
    for _ in range(20):
        async with session.get(url, allow_redirects=False) as response:
            if response.status == 200:
                return "same host" if urlsplit(url).netloc == start else "other host"
            url = urljoin(url, response.headers["Location"])
        if not urlsplit(url).netloc.startswith("127."):
            return "private"
        if url in seen:
            return "loop"
        seen.add(url)
    return "too long"


@pytest.mark.parametrize(
    "door", ["/calendar/2030/01", "/maze/a/", "/session/item/1", "/facets?a=b"]
)
def test_traps_have_no_end(tmp_path: Path, door: str) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        base = f"http://127.0.0.2:{world.site.port}"
        seen, url = set(), base + door
        for _ in range(100):
            assert url not in seen
            seen.add(url)
            async with session.get(url) as response:
                assert response.status == 200
                anchors = Anchors()
                anchors.feed(await response.text())
            found = [urljoin(url, href) for href, _ in anchors.hrefs]
            assert f"{base}/" in found
            url = next(one for one in reversed(found) if one not in seen)

    in_world(tmp_path, visit, hosts=1, pages=3)


def test_sitemaps_name_pages_that_no_link_leads_to(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        named: set[str] = set()
        for row in host_rows(world):
            if row["sitemap"]:
                parts = await locations(session, row["sitemap"])
                assert [part.endswith(".gz") for part in parts] == [True, False]
                for part in parts:
                    named.update(await locations(session, part))
        pages = {row["url"]: row for row in page_rows(world)}
        assert named <= set(pages)
        assert all(pages[url]["allowed"] for url in named)
        only = {url for url, row in pages.items() if row["via"] == "sitemap"}
        assert only
        assert {url for url in only if "/archive/" in url} <= named

    in_world(tmp_path, visit)


async def locations(session: aiohttp.ClientSession, url: str) -> list[str]:
    async with session.get(url) as response:
        body = await response.read()
    text = gzip.decompress(body).decode() if body.startswith(b"\x1f\x8b") else body.decode()
    return [found.replace("&amp;", "&") for found in re.findall(r"<loc>(.*?)</loc>", text)]


def test_hostile_hosts_show_their_habit_and_leave_the_others_alone(tmp_path: Path) -> None:
    habits = (Habit.SERVER_ERROR, Habit.DEAD, Habit.STALL, Habit.TRUNCATING)

    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        sick = {row["habit"]: row["base"] for row in host_rows(world) if row["habit"] != "good"}
        assert list(sick) == [habit.value for habit in habits]
        async with session.get(f"{sick['server_error']}/") as response:
            assert response.status == 500
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"{sick['dead']}/")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await session.get(f"{sick['stall']}/")
        async with session.get(f"{sick['truncating']}/") as response:
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()
        async with session.get(f"{sick['stall']}/robots.txt") as response:
            assert response.status == 200
        async with session.get(world.seeds[0]) as response:
            body = await response.text()
        assert all(base in body or base.removeprefix("http:") in body for base in sick.values())

    in_world(tmp_path, visit, hosts=2, pages=20, habits=habits, temper=Temper(longest=30.0))


def test_a_world_of_sick_hosts_starts_from_them(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        assert len(world.seeds) == 2
        async with session.get(world.seeds[0]) as response:
            assert response.status == 500

    in_world(tmp_path, visit, hosts=0, habits=(Habit.SERVER_ERROR, Habit.DEAD))


def test_a_world_where_nobody_listens_is_refused(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        pytest.fail("it was served")

    with pytest.raises(ValueError, match="listens"):
        in_world(tmp_path, visit, hosts=0, habits=(Habit.DEAD,))


@given(st.text(max_size=60).map(lambda text: f"/{text}"))
@example("/list?page=%zz&page=1")
@example("/moved/1/99")
@example("/calendar/0/00")
@example("http://127.0.0.2/")
@settings(max_examples=300, deadline=None)
def test_no_path_is_too_strange_to_be_answered(path: str) -> None:
    site = plan()
    node = site.find(0, path)
    assert node is None or answer(site, node).status in (200, *range(301, 309), 403, 404, 410, 500)
    for trap in TRAPS:
        page = trap_page(trap + path)
        assert page is None or "<a href" in page


def test_sick_hosts_link_to_nobody_else() -> None:
    site = SimSite(7, ("127.0.0.2", "127.0.0.3"), (Habit.GOOD, Habit.DRIP), 40, port=8000)
    for n in range(site.pages_on(1)):
        assert {link.target.host for link in links(site, 1, n)} == {1}


def test_names_are_told_apart_by_the_host_header(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        port = world.site.port
        assert world.seeds == [f"http://a.test:{port}/", f"http://b.test:{port}/"]
        digests = {row["url"]: row["sha256"] for row in page_rows(world)}
        for name in ("a.test", "b.test"):
            headers = {"Host": f"{name}:{port}"}
            async with session.get(f"http://127.0.0.2:{port}/", headers=headers) as response:
                body = await response.read()
            assert hashlib.sha256(body).hexdigest() == digests[f"http://{name}:{port}/"]

    in_world(tmp_path, visit, hosts=2, names=("a.test", "b.test"))


def test_head_requests_and_other_methods_get_their_due(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        async with session.head(world.seeds[0]) as response:
            assert (response.status, await response.read()) == (200, b"")
            assert int(response.headers["Content-Length"]) > 1000
        async with session.post(world.seeds[0]) as response:
            assert response.status == 405

    in_world(tmp_path, visit, hosts=1)


def test_the_ready_line_names_seeds_and_manifest(tmp_path: Path) -> None:
    async def visit(world: WebWorld, session: aiohttp.ClientSession) -> None:
        line = json.loads(json.dumps(world.ready_line()))
        assert line == {"seeds": world.seeds, "manifest": str(tmp_path / "manifest.jsonl")}

    in_world(tmp_path, visit, hosts=3, pages=5)
