"""The compiled reader of pages and its plain twin find the same links, whatever is on a page."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax import lexbor

from trawlnet.native import loader
from trawlnet.native.loader import page_reader
from trawlnet.webpage import links_plain as plain
from trawlnet.webpage.links import PageLink, elements, merged
from trawlnet.webpage.links_plain import TAGS, WORDS_BUDGET, Raw

# More rounds for a long run: TRAWLNET_TWIN_ROUNDS=1000000 pytest <this file>
ROUNDS = int(os.environ.get("TRAWLNET_TWIN_ROUNDS", "4000")) // 4

reader = page_reader()
pytestmark = pytest.mark.skipif(reader is None, reason="the reader of pages was not compiled")

ALL = (1 << len(TAGS)) - 1
PIECES = [
    b"<a href=/a>",
    b"<a href='b.html?x=1&amp;y=2#z' rel='external NoFollow'>",
    b'<A HREF="caf\xc3\xa9" REL=nofollow\xc2\xa0x>',
    b"<a href=''>",
    b"<a href>",
    b"<a href=#top>",
    b"<a href=' /x '>",
    b"<a href=//other.example/>",
    b"<a src=/no href=/yes href=/twice>",
    b"<a rel=nofollow href=mailto:x>",
    b"</a>",
    b"<area href=/area alt=x>",
    b"<iframe src=/frame href=/no></iframe>",
    b"<frameset><frame src=/old></frameset>",
    b"<link rel='next canonical' href=/n>",
    b"<base href=/base/ target=_top>",
    b"<meta http-equiv=refresh content='1;url=/r'>",
    b"<meta name=robots content=nofollow>",
    b"<svg><a xlink:href=/s href=/t><use xlink:href=/u>",
    b"</svg>",
    b"<math><a href=/m>",
    b"<template><a href=/t>",
    b"</template>",
    b"<noscript>",
    b"<table><tr><td>",
    b"</table>",
    b"<select><option>",
    b"</select>",
    b"<p>",
    b"<b><i>",
    b"</b>",
    b"<script>'<a href=/no>'</script>",
    b"<textarea><a href=/no>",
    b"</textarea>",
    b"<!-- <a href=/no> -->",
    b"<![CDATA[ <a href=/no> ]]>",
    b" some  words\n\t",
    b"one\xc2\xa0two\xe2\x80\x83three\xe3\x80\x80",
    b"\x1c\x1f\x85\x0c",
    b"\xff\xfe\xc3",
    b"\xf0\x9f\x8c\x8d \xe6\x97\xa5\xe6\x9c\xac",
    b"&nbsp;&amp;&#8195;&#x1F30D;&notin",
    b"\0",
    b"x" * 90,
    b"word " * 70,
    b"<plaintext>",
]


def agree(
    page: bytes,
    most: int = 5000,
    words: bool = True,
    around: bool = True,
    budget: int = WORDS_BUDGET,
    tags: tuple[str, ...] = TAGS,
) -> list[Raw]:
    assert reader is not None
    bits = sum(1 << TAGS.index(tag) for tag in tags)
    found = reader.elements(page, bits, most, words, around, budget)
    assert found == plain.elements(page, tags, most, words, around, budget)
    links: list[Raw] = found[0]
    return links


def test_pages_put_together_at_random_and_bent() -> None:
    random, met = Random(7), 0
    for _ in range(ROUNDS):
        page = bytearray(b"".join(random.choices(PIECES, k=random.randrange(1, 30))))
        for _ in range(random.choice((0, 0, 1, 3))):
            page[random.randrange(len(page))] = random.randrange(256)
        most = random.choice((5000, 5000, 2))
        budget = random.choice((WORDS_BUDGET, 300))
        links = agree(bytes(page), most, random.random() < 0.8, random.random() < 0.8, budget)
        base = random.choice(("http://h.example/d/p.html?q=1", "https://h.example:8/"))
        most_url = random.choice((2048, 30))
        both = merged(links, base, most_url), plain.merged(links, base, most_url)
        assert both[0] == both[1] and all(type(link) is PageLink for link in both[0])
        met += len(links)
    assert met > ROUNDS


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=20), max_size=30).map(b"".join))
@example(b"<a href=x>" * 300 + b"y" * 5000)
@example(b"<svg><a xlink:href=/only><a src=/none>")
def test_any_page(page: bytes) -> None:
    agree(page)
    agree(page, tags=("a", "meta"))


def test_every_character_is_a_space_or_none_for_both() -> None:
    characters = [chr(number) for number in range(1, 0x110000) if not 0xD800 <= number < 0xE000]
    unusual = [one for one in characters if one.isspace()]
    assert len(unusual) > 20
    for one in {*unusual, *(chr(ord(each) + step) for each in unusual for step in (-1, 1))}:
        page = f"<p>{one}x{one}<a rel='x{one}nofollow' href=/>a{one}b</a>{one}y".encode()
        agree(page)


@pytest.mark.parametrize(
    "spoilt",
    [b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xf0\x9f\x98", b"\xff"],
)
def test_bytes_that_are_no_utf8_are_replaced_alike(spoilt: bytes) -> None:
    agree(
        b"<p>\xc3\xa9"
        + spoilt
        + b"<a rel='"
        + spoilt
        + b" nofollow' href=/>\xf0\x9f\x98\x80"
        + spoilt
    )
    agree(b"<p>x<a href=/>" + "é߿ࠀ\uffff\U00010000\U0010ffff".encode() + spoilt + b"</a>" + spoilt)


def lexbor_of(major: int, minor: int, events: int = 1) -> SimpleNamespace:
    return SimpleNamespace(
        LEXBOR_VERSION_MAJOR=major,
        LEXBOR_VERSION_MINOR=minor,
        LexborDocumentOptions=SimpleNamespace(WO_EVENTS=SimpleNamespace(value=events)),
        __file__=lexbor.__file__,
    )


@pytest.mark.parametrize(
    ("other", "missing"),
    [
        (lexbor_of(2, 1), "Lexbor 3.1"),
        (lexbor_of(4, 0), "Lexbor 3.1"),
        (lexbor_of(3, 2), "Lexbor 3.1"),
        (lexbor_of(3, 0), "Lexbor 3.1"),
        (SimpleNamespace(), "Lexbor 3.1"),
        (lexbor_of(3, 1, events=2), "option WO_EVENTS as Lexbor 3.1 numbers it"),
    ],
)
def test_another_lexbor_is_not_called(other: SimpleNamespace, missing: str) -> None:
    # Its functions may take something else: not even a try is safe.
    assert loader._lacking(None, other) == missing


def test_a_lexbor_that_reads_otherwise_is_not_used() -> None:
    def reads(found: object) -> SimpleNamespace:
        return SimpleNamespace(load=lambda library: None, elements=lambda *args: found)

    ours = lexbor_of(3, 1)
    assert loader._lacking(reader, ours) is None
    assert loader._lacking(reads(([], [])), ours) == "Lexbor that reads a page as 3.1 does"
    assert plain.elements(loader._SPECIMEN, TAGS, 9, True, True, 999) == loader._FOUND


HREFS = st.text("/?#.%:@\\ ab~-_!$&'()*+,;=\u00e9\u65e5[]|\t", max_size=12)


@settings(max_examples=400)
@given(
    st.lists(st.tuples(HREFS, st.booleans(), st.sampled_from(["", "x"])), max_size=8),
    st.sampled_from(["http://h.example/", "http://h.example/a/b?c", "https://h.example:8/x/"]),
    st.integers(15, 40),
)
def test_any_href(found: list[tuple[str, bool, str]], base: str, most: int) -> None:
    raws: list[Raw] = [(href, "a", nofollow, text, text) for href, nofollow, text in found]
    raws += [(f"{base[: base.index('/', 8)]}{href}", "a", no, text, "") for href, no, text in found]
    assert merged(raws, base, most) == plain.merged(raws, base, most)


def test_threads_read_pages_side_by_side() -> None:
    pages = [b"<p>" * 50 + b"before <a href=/%d>text %d</a> after" % (n, n) for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            found = pool.map(lambda page: elements(page, TAGS, 9, words=True, around=True), pages)
            told = [(links[0][0], links[0][3], links[0][4]) for links, _ in found]
            assert told == [
                (f"/{n}", f"text {n}", f"before text {n} after") for n in range(len(pages))
            ]


def test_wrong_calls_are_refused() -> None:
    assert reader is not None
    assert reader.load("/no/such/library.so") == "/no/such/library.so"
    for raws in ([("x",)], [None], [(1, "a", False, "", "")]):
        with pytest.raises(TypeError):
            reader.merged(raws, PageLink, "http://h", "http://h/", 99, str)
    with pytest.raises(ValueError):
        reader.merged([], PageLink, "http://\u00e9", "http://h/", 99, str)
    with pytest.raises(ValueError):
        reader.merged([], dict, "http://h", "http://h/", 99, str)
    raw = ("a b", "a", False, "", "")
    with pytest.raises(ZeroDivisionError):
        reader.merged([raw], PageLink, "http://h", "http://h/", 9, lambda _: 1 / 0)
