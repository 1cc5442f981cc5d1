"""The manifest of a simulated web: what a crawl that obeys the rules must find, as JSON lines.

The first line describes the world, then comes a line for each host, then one for each page:

- `{"type": "world", "seed", "version", "agent", "port", "seeds", "traps", "tracking"}`; `traps` are
  path prefixes without end, `tracking` are query parameters that change nothing.
- `{"type": "host", "host", "base", "habit", "recovers", "robots", "crawl_delay", "sitemap"}`;
  `robots` names the shape of robots.txt, `sitemap` is a URL or null.
- `{"type": "page", "url", "host", "status", "hop", "content_type", "location", "sha256", "length",
  "allowed", "noindex", "nofollow", "depth", "via"}`.

`url` has no fragment and no tracking parameters. `allowed` is the verdict of robots.txt. `sha256`
and `length` are of the body without content coding, null when digests were not asked for. `via`
is how a page can be found by somebody who fetches allowed pages only and enters no trap: `link`;
`sitemap` when sitemaps are needed; `nofollow` when nofollow links or pages must be followed, too;
null for not at all. `depth` is the least number of links from a seed (or from the sitemap or the
nofollow link that was needed); a redirect counts as none.
So the pages to expect on healthy hosts are those with `allowed`, status 200 and `via` `link`.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trawlnet.sim.web.links import hops, links, redirect
from trawlnet.sim.web.page import answer, status_of, wording
from trawlnet.sim.web.plan import TRACKING, TRAPS, PageKind, SimPage, SimSite
from trawlnet.sim.web.robots import robots, shape
from trawlnet.sim.web.sitemap import INDEX, listed

_SEEDS = 3


def seeds(site: SimSite) -> list[SimPage]:
    """The front pages of a few healthy hosts; where nobody is healthy, of all."""
    return [SimPage(host, 0) for host in site.good[:_SEEDS] or range(len(site.hosts))]


@dataclass(frozen=True, slots=True)
class Reach:
    via: str
    depth: int


def reach(site: SimSite) -> dict[SimPage, Reach]:
    """How every node can be found: first by links, then with sitemaps, then by nofollow, too."""
    search = _Search(site, [robots(site, host).denied for host in range(len(site.hosts))])
    search.spread("link", seeds(site))
    visited = sorted({node.host for node in search.found})
    search.spread("sitemap", [node for host in visited for node in listed(site, host)])
    search.spread("nofollow", sorted(search.held_back))
    return search.found


@dataclass(slots=True)
class _Search:
    site: SimSite
    denied: list[frozenset[PageKind]]
    found: dict[SimPage, Reach] = field(default_factory=dict)
    held_back: set[SimPage] = field(default_factory=set)  # Named in links not to be followed.

    def spread(self, via: str, starts: Iterable[SimPage]) -> None:
        """Breadth first, redirects at no cost; forbidden pages are found but never opened."""
        queue = deque((node, 0) for node in starts)
        while queue:
            node, depth = queue.popleft()
            if node in self.found:
                continue
            self.found[node] = Reach(via, depth)
            kind = self.site.kind(node.host, node.n)
            if kind in self.denied[node.host]:
                continue
            if kind is PageKind.MOVED:
                target = redirect(self.site, node).target
                if target is not None:
                    queue.appendleft((target, depth))
            elif kind.html:
                for target in self._leads_to(node, all_links=via == "nofollow"):
                    queue.append((target, depth + 1))

    def _leads_to(self, node: SimPage, *, all_links: bool) -> Iterator[SimPage]:
        closed = wording(self.site, node.host, node.n).nofollow
        for target, nofollow in links(self.site, node.host, node.n):
            if target in self.found:
                continue
            if all_links or not (closed or nofollow):
                yield target
            else:
                self.held_back.add(target)


def rows(site: SimSite, *, digests: bool = True) -> Iterator[dict[str, Any]]:
    found = reach(site)
    yield {
        "type": "world",
        "seed": site.seed,
        "version": site.version,
        "agent": site.agent,
        "port": site.port,
        "seeds": [site.url(node) for node in seeds(site)],
        "traps": list(TRAPS),
        "tracking": list(TRACKING),
    }
    for host in range(len(site.hosts)):
        yield _host_row(site, host)
    for host in range(len(site.hosts)):
        denied = robots(site, host).denied
        for n in range(site.pages_on(host)):
            further = hops(site, host, n) if site.kind(host, n) is PageKind.MOVED else 0
            for hop in range(further + 1):
                node = SimPage(host, n, hop)
                allowed = site.kind(host, n) not in denied
                yield _page_row(site, node, found.get(node), allowed=allowed, digests=digests)


def _host_row(site: SimSite, host: int) -> dict[str, Any]:
    rules = robots(site, host)
    return {
        "type": "host",
        "host": site.hosts[host],
        "base": site.base(host),
        "habit": site.habits[host].value,
        "recovers": site.habits[host].recovers,
        "robots": shape(site, host).value,
        "crawl_delay": rules.crawl_delay,
        "sitemap": f"{site.base(host)}{INDEX}" if rules.sitemap else None,
    }


def _page_row(
    site: SimSite, node: SimPage, reached: Reach | None, *, allowed: bool, digests: bool
) -> dict[str, Any]:
    made = answer(site, node) if digests else None
    said = wording(site, node.host, node.n)
    moved = site.kind(node.host, node.n) is PageKind.MOVED
    return {
        "type": "page",
        "url": site.url(node),
        "host": site.hosts[node.host],
        "status": status_of(site, node),
        "hop": node.hop,
        "content_type": made.content_type if made else None,
        "location": redirect(site, node).location if moved else None,
        "sha256": hashlib.sha256(made.body).hexdigest() if made else None,
        "length": len(made.body) if made else None,
        "allowed": allowed,
        "noindex": said.noindex,
        "nofollow": said.nofollow,
        "depth": reached.depth if reached else None,
        "via": reached.via if reached else None,
    }


def write_manifest(site: SimSite, path: Path, *, digests: bool = True) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        for row in rows(site, digests=digests):
            file.write(json.dumps(row) + "\n")
    partial.replace(path)


def read_manifest(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
