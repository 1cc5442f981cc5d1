"""Sitemaps: an index, one plain file and one gzipped; some pages are found only here."""

from __future__ import annotations

import gzip
from html import escape

from trawlnet.sim.web.plan import PageKind, SimPage, SimSite
from trawlnet.sim.web.robots import robots

INDEX = "/sitemap.xml"
PARTS = ("/sitemaps/pages-0.xml.gz", "/sitemaps/pages-1.xml")
_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def listed(site: SimSite, host: int) -> list[SimPage]:
    """What a host's sitemaps name: every page made for them, and each third ordinary one."""
    rules = robots(site, host)
    if not rules.sitemap:
        return []
    found = []
    for n in range(site.pages_on(host)):
        kind = site.kind(host, n)
        named = kind is PageKind.ARCHIVE or (
            n % 3 == 0 and kind.html and kind is not PageKind.PARTNER
        )
        if named and kind not in rules.denied:
            found.append(SimPage(host, n))
    return found


def sitemap(site: SimSite, host: int, path: str) -> bytes | None:
    """The file at this path, or None when the host has no such sitemap."""
    if not robots(site, host).sitemap or path not in (INDEX, *PARTS):
        return None
    if path == INDEX:
        rows = "".join(f"<sitemap><loc>{site.base(host)}{p}</loc></sitemap>\n" for p in PARTS)
        return f"{_XML}<sitemapindex {_SPACE}>\n{rows}</sitemapindex>\n".encode()
    part = PARTS.index(path)
    nodes = listed(site, host)[part :: len(PARTS)]
    rows = "".join(f"<url><loc>{escape(site.url(node))}</loc></url>\n" for node in nodes)
    body = f"{_XML}<urlset {_SPACE}>\n{rows}</urlset>\n".encode()
    return gzip.compress(body, mtime=0) if path.endswith(".gz") else body
