"""Links, robots words and text of pages: tidy ones, broken ones and hostile ones."""

from __future__ import annotations

import gc
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trawlnet.sim.habits import Habit
from trawlnet.sim.web.links import links
from trawlnet.sim.web.page import answer, wording
from trawlnet.sim.web.plan import SimPage, SimSite
from trawlnet.webpage.charset import as_utf8, codec_of
from trawlnet.webpage.html import HtmlPage, LinkChoice, read_page
from trawlnet.webpage.html_cost import affordable
from trawlnet.webpage.robots_tag import RobotsWords, robots_words
from trawlnet.webpage.url import UrlKeys

URL = "http://example.com/docs/page.html"
CHOICE = LinkChoice(agent="trawlnet")


def page(html: str | bytes, choice: LinkChoice = CHOICE, **more: object) -> HtmlPage:
    body = html if isinstance(html, bytes) else html.encode()
    return read_page(body, URL, choice, **more)  # type: ignore[arg-type]


def urls(html: str | bytes, choice: LinkChoice = CHOICE, **more: object) -> list[str]:
    return [link.url for link in page(html, choice, **more).links]


@pytest.mark.parametrize(
    "html, found",
    [
        ('<a href="/a">x</a>', ["http://example.com/a"]),
        ("<a href=/a>", ["http://example.com/a"]),
        ("<A HREF='b#c'>", ["http://example.com/docs/b"]),
        ('<a href="/a?x=1&amp;y=2">', ["http://example.com/a?x=1&y=2"]),
        ('<a href="/a?x=1&y=2">', ["http://example.com/a?x=1&y=2"]),
        ('<map><area href="/a"></map>', ["http://example.com/a"]),
        ('<link rel="next prefetch" href="/2">', ["http://example.com/2"]),
        ('<link rel="ALTERNATE" href="/fr">', ["http://example.com/fr"]),
        ('<link rel="stylesheet" href="/x.css">', []),
        ('<iframe src="/f"></iframe>', ["http://example.com/f"]),
        ('<meta http-equiv="Refresh" content="3; URL=\'/r\'">', ["http://example.com/r"]),
        ('<meta http-equiv="refresh" content="3,/r">', ["http://example.com/r"]),
        ('<meta http-equiv="refresh" content="3">', []),
        ('<a href="mailto:x@y.z"><a href=" javascript:x"><a href="tel:1"><a>', []),
        ('<a href="http://u:p@h/"><a href="http://[bad"><a href="">', ["http://h/"]),
        ('<a href="#top">', []),
        ('<!-- <a href="/no"> --><script>"<a href=/no>"</script>', []),
        ('<noscript><a href="/ns">', ["http://example.com/ns"]),
        ('<template><a href="/t"></template>', []),
        ("<table><tr><a href=/t>x", ["http://example.com/t"]),
        ("<svg><a href=/s>x", ["http://example.com/s"]),
        ("<a href=/a><a href=/a><a href=/b>", ["http://example.com/a", "http://example.com/b"]),
    ],
)
def test_the_links_of_a_page(html: str, found: list[str]) -> None:
    assert urls(html) == found


@pytest.mark.parametrize(
    "base, url",
    [
        ('<base href="/other/">', "http://example.com/other/x"),
        ('<base href="http://cdn.example/a/b">', "http://cdn.example/a/x"),
        ('<base target="_top"><base href="/one/"><base href="/two/">', "http://example.com/one/x"),
        ('<base href="data:x">', "http://example.com/docs/x"),
        ('<base href="http://[bad">', "http://example.com/docs/x"),
    ],
)
def test_a_page_can_say_where_its_links_start(base: str, url: str) -> None:
    assert urls(f"{base}<a href=x>") == [url]
    assert urls(f"<a href=x>{base}") == [url]


def test_which_tags_count_is_a_choice() -> None:
    html = (
        '<a href=/a><link rel=next href=/n><iframe src=/i></iframe><link rel=canonical href="/c">'
    )
    only = LinkChoice(tags=("a",))
    assert urls(html, only) == ["http://example.com/a"]
    assert page(html, only).canonical == "http://example.com/c"
    assert urls(html, LinkChoice(tags=("link",), rels=("next",))) == ["http://example.com/n"]


def test_links_are_counted() -> None:
    assert len(urls("".join(f"<a href={n}>" for n in range(50)), LinkChoice(most=7))) == 7


def test_a_link_header_counts_like_a_link_tag() -> None:
    header = '</2>; rel="next"; title="a, b", <x>; rel=stylesheet, <http://h/c>;REL=canonical'
    found = page("", link_headers=[header])
    assert [link.url for link in found.links] == ["http://example.com/2", "http://h/c"]
    assert found.canonical == "http://h/c"


def test_nofollow_holds_only_where_no_other_link_leads_there() -> None:
    (link,) = page('<a rel="external NoFollow" href=/a>').links
    assert link.nofollow
    (link,) = page("<a rel=nofollow href=/a>one</a><a href=/a>two</a>").links
    assert not link.nofollow
    (link,) = page("<a href=/a>one</a><a rel=nofollow href=/a>two</a>").links
    assert not link.nofollow and link.text == "one"


@pytest.mark.slow
def test_a_page_that_was_read_is_let_go_of_at_once() -> None:
    body = (
        b"<base href=/x><meta name=robots content=none><link rel=next href=/n>"
        + b"<a href=/a>a" * 9
    )
    gc.collect()
    gc.disable()
    try:
        read_page(body, "https://a.example/", LinkChoice())
        left = gc.collect()
    finally:
        gc.enable()
    assert left == 0


def test_an_anchor_keeps_its_words_and_a_few_around_them() -> None:
    (link,) = page("<p>Read  the\n<a href=/a><b>fine</b> manual</a> before <i>asking</i>").links
    assert (link.text, link.context) == ("fine manual", "Read the fine manual before")
    (link,) = page(f"{'x' * 5000} <a href=/a>{'y ' * 5000}</a> {'z' * 5000}").links
    assert len(link.text) <= 200 and len(link.context) <= 350
    (link,) = page("pre <a href=/a>in</a>", LinkChoice(words=False)).links
    assert (link.text, link.context) == ("", "")


@pytest.mark.parametrize(
    "html, noindex, nofollow",
    [
        ('<meta name="robots" content="noindex">', True, False),
        ('<meta name=" ROBOTS" content="NoFollow , x">', False, True),
        ('<meta name="robots" content="none">', True, True),
        ('<meta name="trawlnet" content="noindex">', True, False),
        ('<meta name="otherbot" content="noindex">', False, False),
        ("<meta name=robots content=noindex><meta name=robots content=nofollow>", True, True),
        ('<meta name="robots" content="index, follow">', False, False),
        ('<meta name="description" content="noindex">', False, False),
    ],
)
def test_what_a_page_says_to_robots(html: str, noindex: bool, nofollow: bool) -> None:
    assert page(html).robots == RobotsWords(noindex, nofollow)


@pytest.mark.parametrize(
    "headers, words",
    [
        (["noindex"], (True, False)),
        (["noarchive, NOFOLLOW"], (False, True)),
        (["otherbot: noindex, nofollow"], (False, False)),
        (["otherbot: noindex, trawlnet: nofollow"], (False, True)),
        (["unavailable_after: 1 Jan 2030 10:00:00 GMT, noindex"], (True, False)),
        (["none", "x"], (True, True)),
        ([], (False, False)),
    ],
)
def test_what_a_header_says_to_robots(headers: list[str], words: tuple[bool, bool]) -> None:
    assert robots_words(headers, "trawlnet") == words


# --- Encodings. ---


@pytest.mark.parametrize(
    "body, content_type, codec",
    [
        (b"\xef\xbb\xbfx", "text/html; charset=koi8-r", "utf-8"),
        (b"\xff\xfex\0", "", "utf-16-le"),
        (b"\xfe\xff\0x", "", "utf-16-be"),
        (b"<meta charset=utf-8>", "text/html;CHARSET='Windows-1251'", "cp1251"),
        (b"<meta charset='ISO-8859-1'>", "text/html", "cp1252"),
        (b'<meta http-equiv=Content-Type content="text/html; charset=gb2312">', "", "gbk"),
        (b"<meta charset=utf-16>", "", "utf-8"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=sjis>", "", "cp932"),
        (b"<meta charset=utf-7>\xe9 x", "text/html; charset=punycode", "cp1252"),
        (b"\xc3\xa9", "", "utf-8"),
        (b"caf\xe9 au lait", "", "cp1252"),
        (b"caf\xc3", "", "utf-8"),
        (b"", "", "utf-8"),
    ],
)
def test_the_encoding_is_found(body: bytes, content_type: str, codec: str) -> None:
    assert codec_of(body, content_type) == codec


@pytest.mark.parametrize(
    "codec", ["utf-16", "cp1251", "cp932", "gb18030", "gbk", "euc-jp", "utf-8-sig"]
)
def test_links_in_other_encodings_are_read(codec: str) -> None:
    label = {"utf-16": "utf-16le", "cp932": "shift_jis", "utf-8-sig": "utf-8"}.get(codec, codec)
    text = "\u0416" if codec == "cp1251" else "\u65e5\u672c"
    body = f'<a href="/{text}">{text}</a>'.encode(codec)
    (link,) = page(body, content_type=f"text/html; charset={label}").links
    assert link.text == text and link.url.startswith("http://example.com/%")


def test_bytes_that_fit_no_encoding_do_no_harm() -> None:
    (link,) = page(b'<meta charset=utf-8><a href="/a">\xff\xfe\x80</a>').links
    assert link.url == "http://example.com/a"
    assert as_utf8(b"\x81\xff", "cp1252") and as_utf8(b"\xff", "euc-jp")


# --- Text. ---


def test_text_is_what_a_reader_sees() -> None:
    html = "<title>T</title><style>s{}</style><p>One<p>two<script>x</script><svg>no</svg> three"
    assert page(html, with_text=True).text.split() == ["One", "two", "three"]


# --- Hostility. ---

N = 60_000
HOSTILE = {
    "deep": b"<div>" * N + b"<a href=/x>",
    "lists in a deep place": b"<span>" * N + b"<li>" * N,
    "end tags in a deep place": b"<div>" * N + b"</p>" * N,
    "formatting repeated": b"<p>" + b"".join(b"<i a=%d>" % n for n in range(9000)) + b"<p>x" * N,
    "formatting in each paragraph": b"".join(b"<p><b a=%d>" % n for n in range(N)),
    "attributes": b"<a " + b" ".join(b"a%d" % n for n in range(N)) + b">",
    "attributes with brackets": b"<a " + b" ".join(b'a%d=">"' % n for n in range(N)) + b">",
    "options": b"<select>" + b"<option selected>x" * N,
    "anchors in tables in anchors": b"<a href=x><table><tr><td>" * N + b"words " * 9000,
    "wrong end tags": b"<div></x>" * N,
    "brackets": b"<" * N * 10,
    "comments": b"<!--" * N,
    "one long text": b"<a href=/x>" + b"y" * 3_000_000,
    "zeros": b"\0" * 1_000_000,
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_page_costs_little(body: bytes) -> None:
    before = time.process_time()
    found = page(body, with_text=True)
    assert time.process_time() - before < 5.0  # Seconds where an unguarded parser takes hours.
    assert len(found.links) <= CHOICE.most


def test_an_honest_page_is_read_to_its_end() -> None:
    row = '<tr><td><b class="x">cell<td><font color=red>red</font><p>one<p>two</tr>'
    deep = "<div>" * 300 + "<a href=/deep>" + "</div>" * 300
    body = f"<table>{row * 1500}</table>{deep}<a href=/last>".encode()
    assert affordable(body) == body
    found = page(body)
    assert not found.cut and found.links[-1].url == "http://example.com/last"


def test_a_page_that_was_cut_says_so() -> None:
    found = page(b"<a href=/first></a>" + b"<div>" * N + b"<a href=/last>")
    assert found.cut and [link.url for link in found.links] == ["http://example.com/first"]


TAGS = [
    "<a href=",
    "<base href=",
    "<meta ",
    "<link rel=next href=",
    "<table>",
    "<svg>",
    "<b>",
    "<p",
]
MARKS = [">", '"', "'", "<!--", "-->", "</", " ", "=", "\0", "&#xD800;", "/x", "\U0001f600"]
WORDS = ["http-equiv=refresh content=", "0;url=", "<title>", "charset=", "rel=nofollow"]
scraps = st.sampled_from([*TAGS, *MARKS, *WORDS])


@settings(max_examples=300, deadline=None)
@given(st.lists(scraps, max_size=25).map("".join).map(str.encode) | st.binary(max_size=200))
@example(b"<a href='&#xD800;'><meta charset=utf-16>\xff\xfe")
def test_no_bytes_are_too_odd(body: bytes) -> None:
    found = page(body, with_text=True, content_type=body[:40].decode("latin-1"))
    for link in found.links:
        assert link.url.startswith(("http://", "https://"))
        assert link.text.encode() is not None


# --- The simulated web knows where its pages lead. ---

SITE = SimSite(3, tuple(f"127.0.0.{n + 2}" for n in range(6)), (Habit.GOOD,) * 6, 90, 8000)


@pytest.mark.parametrize("host", range(3))
def test_every_link_of_the_simulated_web_is_found(host: int) -> None:
    keys, agent = UrlKeys(), "trawlnet"
    for n in range(SITE.pages):
        if not SITE.kind(host, n).html:
            continue
        node = SimPage(host, n)
        reply = answer(SITE, node)
        # Tags in the head lead where an anchor leads, but without its rel=nofollow.
        choice = LinkChoice(tags=("a",), agent=agent)
        found = read_page(reply.body, SITE.url(node), choice, content_type=reply.content_type)
        got = {keys.key(link.url): link.nofollow for link in found.links}
        wanted = {keys.key(SITE.url(link.target)): link.nofollow for link in links(SITE, host, n)}
        assert wanted.items() <= got.items()
        strangers = {url for url in got if url not in wanted and "127.0.0." in url}
        assert not [url for url in strangers if "/never/" in url]
        said = found.robots | robots_words([reply.x_robots or ""], agent)
        expected = wording(SITE, host, n)
        assert said == (expected.noindex, expected.nofollow)
