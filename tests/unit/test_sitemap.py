"""Sitemaps as they are found: tidy, namespaced, broken, hostile."""

from __future__ import annotations

import gzip
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.sim.habits import Habit
from trawlnet.sim.web.plan import SimSite
from trawlnet.sim.web.sitemap import INDEX, PARTS, listed, sitemap
from trawlnet.webpage.sitemap import SitemapEntry, read_sitemap

SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def entries(text: str | bytes, most: int = 50_000) -> list[SitemapEntry]:
    return read_sitemap(text.encode() if isinstance(text, str) else text, most).entries


def urlset(inside: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {SPACE}>{inside}</urlset>'


def test_a_list_of_pages() -> None:
    text = urlset(
        "<url><loc> http://h/a?x=1&amp;y=2 </loc><lastmod>2024-02-03</lastmod></url>"
        "<url><changefreq>daily</changefreq><loc><![CDATA[http://h/b?c&d]]></loc></url>"
        "<url><loc>http://h/&#233;&#x41;</loc></url><url></url>"
    )
    found = read_sitemap(text.encode())
    assert not found.is_index
    assert found.entries == [
        SitemapEntry("http://h/a?x=1&y=2", 1_706_918_400.0),
        SitemapEntry("http://h/b?c&d"),
        SitemapEntry("http://h/éA"),
    ]


def test_a_list_of_lists() -> None:
    text = f"<sitemapindex {SPACE}><sitemap><loc>http://h/1.xml.gz</loc></sitemap></sitemapindex>"
    found = read_sitemap(text.encode())
    assert found.is_index and found.entries == [SitemapEntry("http://h/1.xml.gz")]


def test_other_namespaces_are_not_taken_for_pages() -> None:
    text = urlset(
        "<url><image:image><image:loc>http://h/i.png</image:loc></image:image>"
        "<xhtml:link href='http://h/fr'/><loc>http://h/a</loc></url>"
    )
    assert entries(text) == [SitemapEntry("http://h/a")]
    assert entries("<s:urlset><s:url><s:loc>http://h/a</s:loc></s:url></s:urlset>") == [
        SitemapEntry("http://h/a")
    ]


def test_what_is_commented_out_is_not_there() -> None:
    inside = "<!-- <url><loc>http://h/no</loc></url> --><url><loc>http://h/a</loc></url><!-- <url>"
    assert entries(urlset(inside + "<loc>http://h/no</loc>")) == [SitemapEntry("http://h/a")]


def test_a_broken_file_gives_what_it_has() -> None:
    text = "<urlset><url><loc>http://h/a&copy=1</loc><url><loc>http://h/b</loc></url><url><loc>htt"
    assert [entry.url for entry in entries(text)] == ["http://h/a&copy=1", "http://h/b", "htt"]


def test_plain_text() -> None:
    assert entries("\ufeffhttp://h/a\r\n\r\n# no\nhttps://h/b \nftp://h/c\n") == [
        SitemapEntry("http://h/a"),
        SitemapEntry("https://h/b"),
    ]


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_other_encodings(codec: str) -> None:
    label = codec.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{label}"?><urlset><url><loc>http://h/é</loc></url>'
    assert entries(text.encode(codec)) == [SitemapEntry("http://h/é")]


@pytest.mark.parametrize(
    "text, instant",
    [
        ("1970-01-02", 86_400.0),
        ("1970", 0.0),
        ("1970-02", 31 * 86_400.0),
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T01:00:10.5+01:00", 10.5),
        ("1970-01-01T00:01", 60.0),
        ("yesterday", None),
        ("1970-13-01", None),
        ("9999-99", None),
        ("", None),
        ("0001-01-01T00:00+23:59", -62_135_683_140.0),
    ],
)
def test_when_a_page_was_changed(text: str, instant: float | None) -> None:
    (entry,) = entries(urlset(f"<url><loc>http://h/</loc><lastmod>{text}</lastmod></url>"))
    assert entry.lastmod == instant


def test_entries_are_counted() -> None:
    assert len(entries(urlset("<url><loc>http://h/</loc></url>" * 50), most=7)) == 7
    assert len(entries("http://h/\n" * 50, most=7)) == 7


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
HOSTILE = {
    "entities": BOMB + "<urlset><url><loc>http://h/&b;&b;</loc></url></urlset>",
    "open comments": "<urlset>" + "--> <!--" * 300_000,
    "open entries": "<urlset>" + "<url>" * 400_000,
    "open data": "<urlset><url>" + "<loc><![CDATA[" * 60_000,
    "open tags": "<urlset>" + "<loc " * 400_000,
    "one long tag": "<urlset><url><loc " + "x" * 2_000_000,
    "one long address": "<urlset><url><loc>" + "x" * 2_000_000,
    "prefixes": "<" + "a" * 2_000_000 + ":loc>",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_costs_little(text: str) -> None:
    before = time.process_time()
    found = entries(text)
    assert time.process_time() - before < 5.0
    assert sum(len(entry.url) for entry in found) < len(text)


def test_entities_are_not_expanded() -> None:
    assert entries(HOSTILE["entities"]) == [SitemapEntry("http://h/&b;&b;")]


scraps = st.sampled_from(
    [
        "<url>",
        "<loc>",
        "</loc>",
        "<lastmod>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "http://h/",
        "&#0;",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(scraps, max_size=20).map("".join).map(str.encode) | st.binary(max_size=100))
def test_no_bytes_are_too_odd(body: bytes) -> None:
    for entry in entries(body) + entries(b"<urlset>" + body):
        assert entry.url


def test_the_sitemaps_of_the_simulated_web_are_read() -> None:
    site = SimSite(3, ("127.0.0.2",), (Habit.GOOD,), 60, 8000)
    index = read_sitemap(sitemap(site, 0, INDEX) or b"")
    assert index.is_index
    assert [entry.url for entry in index.entries] == [f"{site.base(0)}{part}" for part in PARTS]
    bodies = [sitemap(site, 0, part) or b"" for part in PARTS]
    found = {
        entry.url
        for body in bodies
        for entry in entries(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
    }
    assert found == {site.url(node) for node in listed(site, 0)}
