"""Web sites drawn at random: what they answer, what a polite crawler must have of them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.random_worlds.stated import PLAIN, Stated, stated
from tests.support.web.scripted import Answer

HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
AGENT = "trawlnet"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One page, by how it behaves."""

    path: str
    kind: str = "good"
    number: int = 0  # How often it fails, how long it takes, how large it is: by kind.
    links: tuple[tuple[int, str], ...] = ()  # Index of a page, and how the link is written.
    stated: Stated = PLAIN  # What a busy one says.


@dataclass(frozen=True, slots=True)
class Host:
    pages: tuple[Leaf, ...]  # The first is the front page, and good.
    rules: tuple[tuple[str, str], ...] = ()  # Of robots.txt: ("Disallow", "/a/").
    robots: str = "file"  # file, none, forbidden, failing, moved.
    delay: float | None = None
    sitemap: tuple[int, ...] = ()  # Pages that it names.
    down: tuple[float, float] = (0.0, 0.0)  # Seconds since the beginning; all fails in between.
    robots_busy: Stated | None = None  # What the first answer for robots.txt is instead.


@dataclass(frozen=True, slots=True)
class World:
    hosts: tuple[Host, ...]

    def answer(self, host: str, target: str, times: int, at: float, size: int) -> Answer:
        site = self.hosts[HOSTS.index(host)]
        if target in ("/robots.txt", "/moved.txt"):
            return _robots(site, target, times, at)
        if site.down[0] <= at < site.down[1]:
            return Answer(502)
        if target == "/sitemap.xml":
            return _sitemap(site, host)
        for page in site.pages:
            if page.path == target:
                return _answer(site, page, times, at, size)
        return Answer(404)

    def content(self, host: int, page: int, size: int) -> bytes:
        site = self.hosts[host]
        return body_of(site, site.pages[page], size)


def body_of(site: Host, page: Leaf, size: int) -> bytes:
    anchors = "".join(_anchor(site.pages[number].path, how) for number, how in page.links)
    html = f"<html><body><p>{page.path}</p>{anchors}</body></html>"
    if page.kind == "legacy":
        meta = '<meta charset="windows-1252"><p>\u00e9\u00df</p>'
        return html.replace("<body>", f"<body>{meta}").encode("cp1252")
    body = html.encode()
    if page.kind == "sized":  # Around the largest size that is fetched.
        body += b" " * max(0, size + page.number - 6 - len(body))
    return body


def _anchor(path: str, how: str) -> str:
    written = {
        "plain": path,
        "fragment": f"{path}#part",
        "dots": f"/x/..{path}",
        "user": f"//me:secret@HOST{path}",
        "absolute": f"http://HOST{path}",
        "space": f"\n {path} ",
        "nofollow": path,
    }[how]
    rel = ' rel="nofollow"' if how == "nofollow" else ""
    return f'<a href="{written}"{rel}>{how}</a>'


def _answer(site: Host, page: Leaf, times: int, at: float, size: int) -> Answer:
    body, number = body_of(site, page, size), page.number
    match page.kind:
        case "broken":
            return Answer(500 + number % 5, b"no")
        case "flaky" if times < number:
            return Answer(500)
        case "busy" if times < 1:
            return _busy(page.stated, at)
        case "missing":
            return Answer(404)
        case "slow":
            return Answer(body=body, latency=number / 4)
        case "moved":
            target = site.pages[number % len(site.pages)].path
            return Answer(301, headers=(("Location", target),))
        case "garbage":
            return Answer(raw=b"this is no HTTP\r\n\r\n")
        case "cut":
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body) + 9}"
            return Answer(raw=head.encode() + b"\r\n\r\n" + body)
        case "unframed":
            return Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body)
        case "gzip":
            return Answer(body=gzip.compress(body), headers=(("Content-Encoding", "gzip"),))
        case "image":
            return Answer(body=b"\x89PNG", content_type="image/png")
        case "legacy":
            return Answer(body=body, content_type="text/html")
        case _:
            return Answer(body=body)


def _busy(said: Stated, at: float) -> Answer:
    return Answer(said.status, headers=tuple(said.headers(at).items()), wait=said.wait)


def _robots(site: Host, target: str, times: int, at: float) -> Answer:
    if site.robots_busy and target == "/robots.txt" and times < 1:
        return _busy(site.robots_busy, at)
    if site.robots == "failing":
        return Answer(503)
    if site.robots in ("none", "forbidden"):
        return Answer(404 if site.robots == "none" else 403)
    if site.robots == "moved" and target == "/robots.txt":
        return Answer(302, headers=(("Location", "/moved.txt"),))
    lines = ["User-agent: other", "Disallow: /", "", "User-agent: *"]
    lines += [f"{word}: {path}" for word, path in site.rules]
    lines += [f"Crawl-delay: {site.delay}"] if site.delay is not None else []
    lines += ["Sitemap: /sitemap.xml"] if site.sitemap else []
    return Answer(body="\n".join(lines).encode(), content_type="text/plain")


def _sitemap(site: Host, host: str) -> Answer:
    urls = "".join(f"<url><loc>{site.pages[n].path}</loc></url>" for n in site.sitemap)
    body = f'<?xml version="1.0"?><urlset>{urls.replace("&", "&amp;")}</urlset>'
    return Answer(body=body.encode(), content_type="application/xml")


# The law of robots.txt, in its own words: the longest rule wins, and of equals the one that allows.
def allowed(site: Host, target: str) -> bool:
    if site.robots == "failing":
        return False
    if site.robots in ("none", "forbidden"):
        return True
    verdicts = [
        (len(path), word == "Allow") for word, path in site.rules if _pattern(path).match(target)
    ]
    return max(verdicts, default=(0, True))[1]


def _pattern(path: str) -> re.Pattern[str]:
    wild = re.escape(path).replace(r"\*", ".*")
    return re.compile(wild[:-2] + "$" if wild.endswith(r"\$") else wild)


KINDS = (
    *(("good",) * 6 + ("broken",) * 3),
    *("flaky", "busy", "busy", "missing", "slow", "moved", "garbage", "cut", "unframed"),
    *("gzip", "image", "legacy", "sized"),
)
SHAPES: Mapping[str, str] = {
    "plain": "/p/{n}",
    "blog": "/blog/2019/05/{d:02d}/post-{n}",
    "old": "/paper/1923/11/{n}-story",
    "forum": "/forum?id={n}",
    "thread": "/t/{t}/{d}",
    "topic": "/viewtopic.php?f=2&start={d}&t={n}",
    "month": "/archive/2021/{m:02d}?n={n}",
    "deep": "/a/b/c/d/e/{n}",
    "quoted": "/caf%C3%A9/{n}%2Fx",
}
WAYS = ("plain", "plain", "plain", "fragment", "dots", "user", "absolute", "space")
RULES = ("/p/", "/forum", "/t/", "/blog/*/05/", "/*?id=", "/archive/", "/p/1$", "/a/b/", "/")
numbers = st.integers(0, 12)
# Without a time, 403 is an answer like others.
limits_stated = stated(1, 5, 12, 700, statuses=(429, 503, 403)).filter(
    lambda said: said.status != 403 or said.wait > 0.0
)


@st.composite
def hosts(draw: st.DrawFn) -> Host:
    size = draw(st.integers(1, 24))
    shape = draw(st.sampled_from(sorted(SHAPES)))
    run = range(1, 1 + draw(st.integers(0, 18)))  # Broken links at the top of the front page.
    kinds = {n: draw(st.sampled_from(KINDS)) for n in range(1, size + 1)}
    pages = [Leaf("/")]
    parents: dict[int, list[tuple[int, str]]] = {}
    for n in range(1, size + len(run) + 1):
        broken = n in run
        path = f"/broken/{n}" if broken else _path(shape, n)
        kind = "broken" if broken else kinds[n - len(run)]
        said = draw(limits_stated) if kind == "busy" else Stated()
        pages.append(Leaf(path, kind, draw(numbers), stated=said))
        parent = 0 if broken else draw(st.integers(0, max(0, n - len(run) - 1)))
        parent += len(run) if parent else 0
        parents.setdefault(parent, []).append((n, draw(st.sampled_from(WAYS))))
    linked = [replace(page, links=tuple(parents.get(n, ()))) for n, page in enumerate(pages)]
    rules = draw(
        st.lists(st.tuples(st.sampled_from(("Allow", "Disallow")), st.sampled_from(RULES[:-1])),
                 max_size=4, unique_by=lambda rule: rule[1])
    )  # fmt: skip
    begin = draw(st.sampled_from((0.0, 0.0, 0.0, 3.0, 20.0)))
    return Host(
        tuple(linked),
        tuple(rules),
        draw(st.sampled_from(("file", "file", "file", "none", "forbidden", "failing", "moved"))),
        draw(st.sampled_from((None, None, 0.7, 3.0, 90.0))),
        tuple(draw(st.lists(st.integers(0, size), max_size=3))),
        (begin, begin + draw(st.sampled_from((5.0, 40.0, 9e9)))) if begin else (0.0, 0.0),
        draw(st.none() | st.none() | limits_stated),
    )


def _path(shape: str, n: int) -> str:
    return SHAPES[shape].format(n=n, d=n % 28 + 1, m=n % 12 + 1, t=1000 + n * 517)


worlds_of_hosts = st.builds(World, st.lists(hosts(), min_size=1, max_size=len(HOSTS)).map(tuple))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A config; no two numbers in it are equal by habit."""

    rate: float = 1.0
    per_host: int = 2
    workers: int = 8
    retries: int = 3
    backoff: float = 0.5
    timeout: float = 20.0
    size: int = 4000
    redirects: int = 5
    depth: int | None = None
    delay_cap: float = 60.0
    block_after: int = 10
    probes: int = 3
    probe_wait: float = 30.0
    pages: int | None = None

    def keys(self) -> dict[str, Any]:
        return {
            "robots": {"max_crawl_delay_sec": self.delay_cap},
            "limits": {
                "req_per_sec": self.rate,
                "per_host_concurrency": self.per_host,
                "global_concurrency": self.workers,
                "max_retries": self.retries,
                "backoff_base_ms": self.backoff * 1000,
                "request_timeout": self.timeout,
                "max_body": self.size,
                "max_redirects": self.redirects,
                "block_after": self.block_after,
                "block_probes": self.probes,
                "probe_wait": self.probe_wait,
            },
            "caps": {"max_depth": self.depth, "max_pages": self.pages},
        }


def _one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


configs = st.builds(
    Chosen,
    rate=_one_of(0.0, 0.31, 1.0, 2.9, 17.0),
    per_host=_one_of(1, 2, 5),
    workers=_one_of(1, 3, 7, 16),
    retries=_one_of(0, 1, 3, 6),
    backoff=_one_of(0.11, 0.6, 2.3),
    timeout=_one_of(1.9, 13.0),
    size=_one_of(2500, 6001),
    redirects=_one_of(0, 1, 5),
    depth=_one_of(None, None, 1, 3),
    delay_cap=_one_of(0.0, 1.3, 45.0),
    block_after=_one_of(3, 6, 11),
    probes=_one_of(0, 1, 4),
    probe_wait=_one_of(2.0, 37.0),
    pages=_one_of(None, None, None, 4, 9),
)


def numbers_of(pages: Sequence[Leaf]) -> dict[str, int]:
    return {page.path: number for number, page in enumerate(pages)}
