"""URLs: what is sent, what is refused, and the keys that fold spellings together."""

from __future__ import annotations

import ada_url
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trawlnet.malformed import Malformed
from trawlnet.webpage.url import Rewrite, UrlKeys, request_url, resolve, split

KEYS = UrlKeys()
BASE = "https://example.com/docs/guide/page.html?x=1"


@pytest.mark.parametrize(
    "text, url",
    [
        ("HTTP://EXAMPLE.com", "http://example.com/"),
        ("http://example.com:80/a", "http://example.com/a"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("http://example.com:8080/a#top", "http://example.com:8080/a"),
        ("http://example.com/a/../b/./c", "http://example.com/b/c"),
        ("http://example.com/a//b/", "http://example.com/a//b/"),
        ("http://example.com/?b=1&a=2&b=0", "http://example.com/?b=1&a=2&b=0"),
        ("http://example.com/a?utm_source=x", "http://example.com/a?utm_source=x"),
        ("http://example.com/%7euser/%2f", "http://example.com/%7euser/%2f"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        (" \thttp://exa\nmple.com/ ", "http://example.com/"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("http://example.com/?", "http://example.com/?"),
    ],
)
def test_a_request_url_is_what_a_browser_would_send(text: str, url: str) -> None:
    assert request_url(text) == url


@pytest.mark.parametrize(
    "text, why",
    [
        ("mailto:a@example.com", "not http: mailto"),
        (" JavaScript:void(0)", "not http: javascript"),
        ("java\nscript:void(0)", "not http: javascript"),
        ("data:text/html,x", "not http: data"),
        ("ftp://example.com/", "not http: ftp"),
        ("file:///etc/passwd", "not http: file"),
        ("http:///", "not a URL"),
        ("http://[bad/", "not a URL"),
        ("/relative", "not a URL"),
        ("", "not a URL"),
        ("http://a b/", "not a URL"),
        ("http://\udcff/", "not a URL"),
        ("http://example.com/" + "a" * 2048, "longer than 2048 characters"),
    ],
)
def test_what_is_not_a_page_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(Malformed, match=f"^{why}$"):
        request_url(text)


@pytest.mark.parametrize(
    "href, url",
    [
        ("other.html", "https://example.com/docs/guide/other.html"),
        ("../up", "https://example.com/docs/up"),
        ("/", "https://example.com/"),
        ("//cdn.example/x", "https://cdn.example/x"),
        ("?page=2", "https://example.com/docs/guide/page.html?page=2"),
        ("#top", "https://example.com/docs/guide/page.html?x=1"),
        ("", "https://example.com/docs/guide/page.html?x=1"),
        ("https://example.com/z", "https://example.com/z"),
        ("https://example.common/z", "https://example.common/z"),
        ("https://example.com", "https://example.com/"),
        ("https:relative", "https://example.com/docs/guide/relative"),
        ("/a/%2e%2e/b", "https://example.com/b"),
        ("mailto:x@y.z", None),
        ("http://[bad", None),
    ],
)
def test_links_are_resolved_against_their_page(href: str, url: str | None) -> None:
    assert resolve(BASE, [href]) == [url]


@pytest.mark.parametrize(
    "url, key",
    [
        ("http://example.com/?b=1&a=2", "http://example.com/?a=2&b=1"),
        ("http://example.com/?a=2&b=1&a=1", "http://example.com/?a=2&a=1&b=1"),
        ("http://example.com/a?utm_source=x&gclid=1", "http://example.com/a"),
        ("http://example.com/a?UTM_Medium=x&q=1&fbclid", "http://example.com/a?q=1"),
        ("http://example.com/a?utm%5Fsource=x&q=1", "http://example.com/a?q=1"),
        ("http://example.com/a?not_utm_x=1", "http://example.com/a?not_utm_x=1"),
        ("http://example.com/a?gclidx=1", "http://example.com/a?gclidx=1"),
        ("http://example.com/a?", "http://example.com/a"),
        ("http://example.com/a?&&b&", "http://example.com/a?b"),
        ("http://example.com/a?b=&c", "http://example.com/a?b=&c"),
        ("http://example.com/%7Euser/%2f/%c3%a9", "http://example.com/~user/%2F/%C3%A9"),
        ("http://example.com/100%/x", "http://example.com/100%25/x"),
        ("http://example.com/%2%65", "http://example.com/%252e"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://example.com.:8080/a", "http://example.com:8080/a"),
        ("http://example.com/a/", "http://example.com/a/"),
        ("http://example.com/a//b", "http://example.com/a//b"),
        ("http://example.com/A", "http://example.com/A"),
        ("http://example.com/?page=2", "http://example.com/?page=2"),
    ],
)
def test_a_key_folds_spellings_of_one_page_and_no_more(url: str, key: str) -> None:
    assert KEYS.key(request_url(url)) == key


def test_a_site_says_which_paths_are_one_page() -> None:
    keys = UrlKeys(rewrites=[Rewrite(r"/blob/master(?=[/?]|$)", "/blob/main")])
    assert keys.key("https://x.example/o/r/blob/master/a.py") == (
        "https://x.example/o/r/blob/main/a.py"
    )
    assert keys.key("https://x.example/o/r/blob/masters") == "https://x.example/o/r/blob/masters"


@pytest.mark.parametrize("odd", ["https://a.example/?b=1&a=2", "https://a.example/%7ex", ""])
def test_keys_of_many_are_the_keys_of_each(odd: str) -> None:
    urls = ["https://a.example./x", "https://a.example/x.", odd or "https://a.example/y"]
    for some in (urls, urls[1:]):
        assert UrlKeys().keys(some) == [UrlKeys().key(url) for url in some]


def test_rules_that_never_settle_leave_the_key_alone() -> None:
    swap = UrlKeys(rewrites=[Rewrite("/(a+)$", r"/\1a")])
    assert swap.key("http://x.example/a") == "http://x.example/a"
    breaks = UrlKeys(rewrites=[Rewrite("^http:", "gopher:")])
    assert breaks.key("http://x.example/a") == "http://x.example/a"


def test_which_parameters_are_noise_is_a_choice() -> None:
    assert UrlKeys(tracking=["sid"]).key("http://x.example/?sid=1&utm_source=2") == (
        "http://x.example/?utm_source=2"
    )
    assert UrlKeys(tracking=[]).key("http://x.example/?sid=1") == "http://x.example/?sid=1"


def test_a_url_comes_apart() -> None:
    assert split("http://[::1]:8080/a?b") == ("http", "[::1]", "8080", "/a", "b", "/a?b")
    assert split("http://[::1]/") == ("http", "[::1]", "", "/", "", "/")
    assert split("https://example.com/a?b=/c").target == "/a?b=/c"
    assert split("https://example.com/a?").target == "/a?"


pieces = st.sampled_from(
    [
        *"/.?#&=%:@\\;~+ab0",
        "..",
        "%2e",
        "%2E",
        "%2f",
        "%7e",
        "%4",
        "//",
        "é",
        "utm_source=1",
        "://",
        "http",
        "https",
        " ",
        "\t",
        "'",
        "|",
        "a.b",
        "[",
        "]",
        "0x7f",
        "example",
        "xn--",
        "\u00ad",
    ]
)
hrefs = st.lists(pieces, max_size=9).map("".join) | st.text(max_size=20)
SWAP = UrlKeys(rewrites=[Rewrite("a", "b"), Rewrite("/b", "/%7e"), Rewrite("b$", "bb")])


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(hrefs)
@example("http://0x7f../")
@example("http://a../")
@example("/a/.%2%65/b")
def test_a_key_is_its_own_key(href: str) -> None:
    for url in resolve(BASE, [href, "http://example.org/" + href, "http://" + href]):
        for keys in (KEYS, SWAP):
            if url is not None:
                key = keys.key(url)
                assert request_url(key) == key
                assert keys.key(key) == key


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(hrefs, st.sampled_from([BASE, "http://example.com:8080/", "http://a/b/c/d;p?q"]))
@example("/a%2e%2e/.b", BASE)
@example("a@b", BASE)
def test_the_short_way_and_the_parser_agree(href: str, base: str) -> None:
    root = base[: base.index("/", 8)]
    for text in (href, "/" + href, root + "/" + href, root + href):
        try:
            joined = ada_url.join_url(base, text).partition("#")[0]
        except ValueError:
            joined = ""
        (url,) = resolve(base, [text])
        if url is not None:
            parsed = ada_url.URL(joined)
            parsed.username = parsed.password = ""
            assert url == parsed.href
        else:
            plain = joined.startswith(("http://", "https://"))
            assert not plain or "//." in joined or "@." in joined


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    try:
        url = request_url(text)
    except Malformed:
        return
    assert url.isascii() and url.startswith(("http://", "https://")) and "#" not in url
    assert split(url).path.startswith("/")


@pytest.mark.parametrize(
    "text, url",
    [
        ("http://user:secret@example.com/a@b?c@d", "http://example.com/a@b?c@d"),
        ("https://user@example.com:8443/", "https://example.com:8443/"),
        ("https://a@b@example.com/", "https://example.com/"),
        ("http://example.org@evil.example/", "http://evil.example/"),
    ],
)
def test_a_link_with_a_user_name_is_asked_for_without_it(text: str, url: str) -> None:
    assert request_url(text) == url
    assert resolve("http://example.net/", [text]) == [url]


@pytest.mark.parametrize(
    "codec, href, url",
    [
        ("cp1252", "/ö?q=ö#ö", "http://h/%C3%B6?q=%F6"),
        ("cp1252", "?q=a&b=\u30bd", "http://h/p/?q=a&b=%26%2312477%3B"),
        ("cp1251", "/s?q=\u041f%20x", "http://h/s?q=%CF%20x"),
        ("cp932", "/s?q=\u30bd", "http://h/s?q=%83\\"),
        ("big5hkscs", "/s?q=\u4e2d", "http://h/s?q=%A4%A4"),
        ("gb18030", "/s?q=\u20ac\u00b2", "http://h/s?q=%A2%E3%810%855"),
        ("gbk", "/s?q=\u4e2d\u20ac\u00b2", "http://h/s?q=%D6%D0%80%26%23178%3B"),
        ("big5hkscs", "/s?q=\u00ca\u0304\u4e2d", "http://h/s?q=%26%23202%3B%26%23772%3B%A4%A4"),
        ("euc-jp", "/s?q=\u65e5\u00e9", "http://h/s?q=%C6%FC%26%23233%3B"),
        # One shift for several characters, and back before what is ASCII.
        ("iso2022-jp", "?q=\u65e5\u672c&b=\u672c", "http://h/p/?q=%1B$BF|K\\%1B(B&b=%1B$BK\\%1B(B"),
        ("iso2022-jp", "?\u65e5\u00e9\u672c", "http://h/p/?%1B$BF|%1B(B%26%23233%3B%1B$BK\\%1B(B"),
        ("utf-16-le", "/s?q=ö", "http://h/s?q=%C3%B6"),
        ("utf-8", "/s?q=ö", "http://h/s?q=%C3%B6"),
        ("cp1252", "/ö", "http://h/%C3%B6"),
    ],
)
def test_a_query_is_sent_in_the_encoding_of_its_page(codec: str, href: str, url: str) -> None:
    """As the URL standard has it, and browsers do; the path is UTF-8 whatever the page is."""
    assert resolve("http://h/p/", [href], codec=codec) == [url]
