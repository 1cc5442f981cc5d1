"""CPU for the web crawler's rules, beside the libraries that others use, interleaved in one run.

Run: python bench/web_rules.py [repeats]
Peers that are not installed are left out: pip install w3lib lxml beautifulsoup4 protego
"""

from __future__ import annotations

import importlib.util
import random
import statistics
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from urllib.parse import urldefrag, urljoin
from urllib.robotparser import RobotFileParser

import ada_url
from selectolax.lexbor import LexborHTMLParser

from trawlnet.crawlers.web.admission.policy import Policy
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.webpage.html import LinkChoice, read_page
from trawlnet.webpage.robots import parse_robots
from trawlnet.webpage.simhash import simhash
from trawlnet.webpage.sitemap import read_sitemap
from trawlnet.webpage.url import UrlKeys, resolve

ROUNDS = 5
LINKS = 30
BASE = "http://127.0.0.1:8000/docs/page.html"
AGENT = "trawlnet"

Way = Callable[[], object]


def have(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)


def hrefs(rng: random.Random) -> list[str]:
    """As pages have them: mostly plain paths, some queries, some other hosts."""
    plain = [f"/docs/guide/{rng.randrange(5000)}.html#s{n}" for n in range(22)]
    near = [f"page-{rng.randrange(999)}.html" for _ in range(3)]
    asked = [f"/list?page={rng.randrange(99)}&utm_source=x" for _ in range(3)]
    return plain + near + asked + ["https://other.example/a?b=1&a=2", "../up/%7euser/"]


def page(links: list[str]) -> bytes:
    """17 KB with 30 links."""
    rng = random.Random(2)
    words = [f"{rng.choice('bcdfglmnprst')}{rng.choice('aeiou')}{n}" for n in range(400)]
    rows = [
        f'<p class="x">{" ".join(rng.choices(words, k=90))}</p>\n<a href="{href}">to {n}</a>'
        for n, href in enumerate(links)
    ]
    head = "<!doctype html><html><head><meta charset=utf-8><title>Page</title></head><body>"
    return f"{head}{''.join(rows)}</body></html>".encode()


def url_ways(links: list[str]) -> dict[str, Way]:
    keys = UrlKeys()
    ways: dict[str, Way] = {
        "ours: join": lambda: resolve(BASE, links),
        "ours: join + key": lambda: keys.keys(u for u in resolve(BASE, links) if u),
        "ada: join": lambda: [ada_url.join_url(BASE, link) for link in links],
        "urllib: join": lambda: [urldefrag(urljoin(BASE, link)).url for link in links],
    }
    if have("w3lib"):
        from w3lib.url import canonicalize_url

        ways["urllib join + w3lib key"] = lambda: [
            canonicalize_url(urljoin(BASE, link)) for link in links
        ]
    return ways


def page_ways(body: bytes) -> dict[str, Way]:
    choice, bare, keys = LinkChoice(agent=AGENT), LinkChoice(words=False), UrlKeys()
    kind = "text/html; charset=utf-8"

    def ours() -> object:
        found = read_page(body, BASE, choice, content_type=kind)
        return keys.keys(link.url for link in found.links)

    ways: dict[str, Way] = {
        "ours: all, with keys": ours,
        "ours: no anchor text": lambda: read_page(body, BASE, bare, content_type=kind),
        "ours: + text": lambda: read_page(body, BASE, bare, content_type=kind, with_text=True),
        "lexbor: <a href> only": lambda: [
            urljoin(BASE, node.attributes["href"] or "")
            for node in LexborHTMLParser(body).css("a[href]")
        ],
    }
    if have("lxml"):
        import lxml.html

        ways["lxml: iterlinks, not joined"] = lambda: list(
            lxml.html.document_fromstring(body, base_url=BASE).iterlinks()
        )
    if have("bs4"):
        from bs4 import BeautifulSoup

        ways["bs4: <a href> only"] = lambda: [
            urljoin(BASE, tag["href"])
            for tag in BeautifulSoup(body, "html.parser").find_all("a", href=True)
        ]
    return ways


def robots_ways(paths: list[str]) -> dict[str, Way]:
    rules = [f"Disallow: /dir{n}/sub\nAllow: /dir{n}/sub/open\n" for n in range(20)]
    stars = [f"Disallow: /*/*/part{n}\n" for n in range(20)]
    text = f"User-agent: *\n{''.join(rules + stars)}"
    ours = parse_robots(text.encode(), AGENT)
    urllib = RobotFileParser()
    urllib.parse(text.splitlines())
    ways: dict[str, Way] = {
        "ours": lambda: [ours.allows(path) for path in paths],
        "urllib (wrong on stars)": lambda: [urllib.can_fetch(AGENT, path) for path in paths],
    }
    if have("protego"):
        from protego import Protego

        theirs = Protego.parse(text)
        urls = [f"http://h{path}" for path in paths]
        assert [ours.allows(p) for p in paths] == [theirs.can_fetch(u, AGENT) for u in urls]
        ways["protego"] = lambda: [theirs.can_fetch(url, AGENT) for url in urls]
    return ways


def sitemap_ways(count: int) -> dict[str, Way]:
    row = "<url><loc>http://h/{}.html</loc><lastmod>2024-01-02T03:04:05Z</lastmod></url>\n"
    body = f"<urlset>{''.join(row.format(n) for n in range(count))}</urlset>".encode()
    return {
        "ours, dates read": lambda: read_sitemap(body),
        "ElementTree, dates not read": lambda: [
            (one.findtext("loc"), one.findtext("lastmod")) for one in ElementTree.fromstring(body)
        ],
    }


def measure(title: str, unit: str, per: int, ways: Mapping[str, Way], repeats: int) -> None:
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            before = time.process_time()
            for _ in range(repeats):
                way()
            spent[name].append((time.process_time() - before) / repeats / per * 1e6)
    base = statistics.median(next(iter(spent.values())))
    print(f"\n{title}: µs of CPU per {unit}, median of {ROUNDS} (least to most)")
    for name, figures in spent.items():
        middle = statistics.median(figures)
        spread = f"({min(figures):.1f} to {max(figures):.1f})"
        print(f"  {name:28} {middle:9.2f}  {middle / base:6.1f}x  {spread}")


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rng = random.Random(1)
    links = hrefs(rng)
    assert len(links) == LINKS
    body = page(links)
    text = read_page(body, BASE, LinkChoice(), with_text=True).text
    paths = ["/dir3/sub/x", "/a/b/c.html", "/o/r/part7/x", "/dir19/sub/open/1?x=2", "/caf%C3%A9"]
    plain = Policy(WebConfig(), ["127.0.0.1"])
    github = Policy(WebConfig(preset="github"))
    urls = [url for url in resolve(BASE, links) if url]
    repos = [f"https://github.com/o{n}/r/blob/main/a.py" for n in range(LINKS)]
    verdicts: dict[str, Way] = {
        "no patterns": lambda: [plain.verdict(url) for url in urls],
        "github preset": lambda: [github.verdict(url) for url in repos],
    }
    measure("links", "link", LINKS, url_ways(links), repeats)
    measure(f"a page of {len(body)} bytes, {LINKS} links", "page", 1, page_ways(body), repeats)
    measure("simhash", "page", 1, {"ours": lambda: simhash(text)}, repeats)
    measure("robots.txt, 60 rules", "path", len(paths), robots_ways(paths), repeats)
    measure("policy", "link", LINKS, verdicts, repeats)
    measure("sitemap", "entry", 10_000, sitemap_ways(10_000), max(1, repeats // 50))


if __name__ == "__main__":
    main()
