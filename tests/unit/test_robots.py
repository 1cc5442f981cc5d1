"""RFC 9309, clause by clause; and the cases that other parsers are known to get wrong."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from protego import Protego

from trawlnet.sim.habits import Habit
from trawlnet.sim.web.plan import SimSite
from trawlnet.sim.web.robots import REDIRECTED_PATHS, Shape, robots, shape
from trawlnet.webpage.robots import ALLOW_ALL, MAX_ROBOTS, RobotsRules, parse_robots, product_token
from trawlnet.webpage.robots_answer import (
    RobotsPolicy,
    crawl_delay,
    is_fresh,
    next_entry,
    robots_from,
)

AGENT = "trawlnet"
DAY = 86_400.0


def rules(*lines: str, agent: str = AGENT) -> RobotsRules:
    return parse_robots("\n".join(lines).encode(), agent)


def allowed(path: str, *lines: str, agent: str = AGENT) -> bool:
    return rules(*lines, agent=agent).allows(path)


# --- Whom a group is for (2.2.1). ---


@pytest.mark.parametrize("name", ["trawlnet", "TRAWLNET", "TrawlNet", "trawlnet/1.0", "trawlnet x"])
def test_the_product_token_is_matched_whatever_its_case(name: str) -> None:
    assert not allowed("/x", f"User-agent: {name}", "Disallow: /")


@pytest.mark.parametrize("name", ["trawl", "trawlnets", "net", "a-trawlnet", "", "*trawlnet"])
def test_another_name_is_another_crawler(name: str) -> None:
    assert allowed("/x", f"User-agent: {name}", "Disallow: /")


@pytest.mark.parametrize(
    "agent, token",
    [
        ("trawlnet/1.0 (+https://example.org/bot)", "trawlnet"),
        ("Mozilla/5.0 (compatible; TrawlNet/1.0; +https://example.org)", "trawlnet"),
        ("Mozilla/5.0 (X11; Linux)", "mozilla"),
        ("MJ12bot", "mj12bot"),
        ("Some-Bot_x/2", "some-bot_x"),
        ("(nobody)", ""),
    ],
)
def test_the_token_is_taken_from_a_whole_user_agent(agent: str, token: str) -> None:
    assert product_token(agent) == token


def test_groups_for_one_crawler_are_one_group() -> None:
    lines = ("User-agent: trawlnet", "Disallow: /a", "", "User-agent: other", "Disallow: /b")
    more = ("User-agent: TRAWLNET", "Disallow: /c")
    assert [allowed(p, *lines, *more) for p in ("/a", "/b", "/c")] == [False, True, False]


def test_everybody_else_means_those_who_are_not_named() -> None:
    lines = ("User-agent: *", "Disallow: /", "User-agent: trawlnet", "Disallow:")
    assert allowed("/x", *lines) and not allowed("/x", *lines, agent="other")


def test_groups_for_everybody_are_one_group_too() -> None:
    lines = ("User-agent: *", "Disallow: /a", "User-agent: *", "Disallow: /b")
    assert not allowed("/a", *lines) and not allowed("/b", *lines)


def test_a_group_may_be_for_several() -> None:
    lines = ("User-agent: other", "", "User-agent: trawlnet", "# who else", "Disallow: /a")
    assert not allowed("/a", *lines) and not allowed("/a", *lines, agent="other")


def test_rules_before_any_group_are_for_nobody() -> None:
    assert allowed("/a", "Disallow: /", "User-agent: trawlnet", "Disallow: /b")


def test_nobody_named_and_nothing_for_everybody_means_all_is_allowed() -> None:
    assert allowed("/a", "User-agent: other", "Disallow: /")


PROBES = {
    "allow after disallow": ("User-agent: *\nDisallow: /a\nAllow: /a/b\n", "/a/b", True),
    "a star": ("User-agent: *\nDisallow: /*/x\n", "/a/x", False),
    "a dollar sign": ("User-agent: *\nDisallow: /a$\n", "/ab", True),
    "two groups": (
        "User-agent: trawlnet\nDisallow: /a\n\nUser-agent: trawlnet\nDisallow: /b\n",
        "/b",
        False,
    ),
    "a blank line in a group": ("User-agent: *\n\nDisallow: /a\n\nDisallow: /b\n", "/b", False),
    "an encoded slash": ("User-agent: *\nDisallow: /a%2Fb\n", "/a/b", True),
    "a tie": ("User-agent: *\nDisallow: /a\nAllow: /a\n", "/a", True),
    "a byte order mark": ("\ufeffUser-agent: *\nDisallow: /a\n", "/a", False),
    "an unknown line among names": (
        "User-agent: trawlnet\nNoindex: /\nUser-agent: other\nDisallow: /a\n",
        "/a",
        False,
    ),
}


@pytest.mark.parametrize("text, path, verdict", PROBES.values(), ids=PROBES)
def test_cases_that_parsers_are_known_to_get_wrong(text: str, path: str, verdict: bool) -> None:
    assert parse_robots(text.encode(), AGENT).allows(path) is verdict


# --- What a rule matches (2.2.2, 2.2.3). ---

CASES = [
    ("/", "/anything", True),
    ("/fish", "/fish", True),
    ("/fish", "/fish.html", True),
    ("/fish", "/fisheries/x", True),
    ("/fish", "/Fish", False),
    ("/fish", "/catfish", False),
    ("/fish*", "/fish", True),
    ("/fish/", "/fish", False),
    ("/*.php", "/a/b.php?x=1", True),
    ("/*.php", "/b.PHP", False),
    ("/*.php$", "/b.php", True),
    ("/*.php$", "/b.php?x", False),
    ("/*.php$", "/b.php.php", True),
    ("/fish*.php", "/fisheries/a.php?b", True),
    ("/$", "/", True),
    ("/$", "/a", False),
    ("*/x", "/a/x", True),
    ("/a*b*c$", "/abbc", True),
    ("/a*bc$", "/abc", True),
    ("/ab*bc$", "/abc", False),
    ("/a$b", "/a$b", True),
    ("/a$b", "/a", False),
    ("/a%24", "/a$x", True),
    ("/a%2A", "/a*", True),
    ("/a%2A", "/abc", False),
    ("/*?x=", "/p?x=1", True),
    ("/p?", "/p", False),
    ("/%7Ejoe", "/~joe", True),
    ("/~joe", "/%7ejoe", True),
    ("/a%2fb", "/a%2Fb", True),
    ("/a%2Fb", "/a/b", False),
    ("/a/b", "/a%2Fb", False),
    ("/café", "/caf%C3%A9", True),
    ("/caf%c3%a9", "/café", True),
    ("/a%3cd", "/a%3Cd", True),
    ("/%62ar", "/bar", True),
    ("fish", "/fish", False),
    ("", "/fish", False),
]


@pytest.mark.parametrize("pattern, path, match", CASES)
def test_a_rule_matches_octets(pattern: str, path: str, match: bool) -> None:
    assert allowed(path, "User-agent: *", f"Disallow: {pattern}") is not match
    lines = ("User-agent: *", "Disallow: /*", f"Allow: {pattern}")
    if len(pattern) > 2:
        assert allowed(path, *lines) is match


@pytest.mark.parametrize(
    "allow, disallow, path, verdict",
    [
        ("/p", "/", "/page", True),
        ("/folder", "/folder", "/folder/page", True),  # A tie.
        ("/page", "/*.htm", "/page.htm", False),
        ("/page", "/*.ph", "/page.php5", True),
        ("/$", "/", "/", True),
        ("/$", "/", "/page.htm", False),
        ("/example/page/", "/example/page/disallowed.gif", "/example/page/disallowed.gif", False),
        ("/caf%C3%A9", "/café", "/caf%c3%a9", True),  # The same octets: a tie.
    ],
)
@pytest.mark.parametrize("swap", [False, True])
def test_the_longest_match_decides_and_a_tie_allows(
    allow: str, disallow: str, path: str, verdict: bool, swap: bool
) -> None:
    said = [f"Allow: {allow}", f"Disallow: {disallow}"]
    assert allowed(path, "User-agent: *", *(reversed(said) if swap else said)) is verdict


def test_the_file_itself_is_always_allowed() -> None:
    assert allowed("/robots.txt", "User-agent: *", "Disallow: /")
    assert allowed("/robots.txt", "User-agent: *", "Disallow: /robots.txt")
    assert not allowed("/robots.txt.bak", "User-agent: *", "Disallow: /")


# --- How the file is read (2.2, 2.2.4, 2.5). ---


def test_unknown_lines_do_not_end_a_group() -> None:
    lines = ("User-agent: trawlnet", "Crawl-delay: 1", "Noindex: /", "Host: x", "what?")
    more = ("User-agent: other", "Sitemap: https://example.org/s.xml", "Disallow: /a")
    assert not allowed("/a", *lines, *more) and not allowed("/a", *lines, *more, agent="other")


def test_sitemaps_belong_to_no_group() -> None:
    found = rules(
        "Sitemap: https://example.org/1.xml",
        "User-agent: other",
        "SITEMAP : https://example.org/2.xml # second",
        "Disallow: /",
        "Sitemap:",
    )
    assert found.sitemaps == ("https://example.org/1.xml", "https://example.org/2.xml")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_in_any_way_and_space_does_not_matter(end: str) -> None:
    text = end.join(["  user-AGENT :\t* # all", "", " disallow:/a#b", "\tDISALLOW : /c "])
    found = parse_robots(text.encode(), AGENT)
    assert [found.allows(p) for p in ("/a", "/b", "/c")] == [False, True, False]


TEXT = "User-agent: *\nDisallow: /private\n"


@pytest.mark.parametrize(
    "body",
    [
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        "# f\u00fcr alle\n".encode("latin-1") + TEXT.encode(),
        b"\x00\xff\x80\n" + TEXT.encode(),
        TEXT.strip().encode(),
    ],
)
def test_odd_encodings_are_read(body: bytes) -> None:
    found = parse_robots(body, AGENT)
    assert not found.allows("/private/x") and found.allows("/public")


def test_octets_that_are_no_text_can_be_named() -> None:
    found = parse_robots(b"User-agent: *\nDisallow: /caf\xe9\n", AGENT)
    assert not found.allows("/caf%E9") and found.allows("/caf%C3%A9")


@pytest.mark.parametrize(
    "body", [b"", b"\n\n", b"\xef\xbb\xbf", b"<!doctype html><p>Not found", b"\0" * 99, b"Disallow"]
)
def test_a_file_without_rules_allows_everything(body: bytes) -> None:
    assert parse_robots(body, AGENT).allows("/x")


def test_half_a_mebibyte_is_read_and_half_a_rule_is_not() -> None:
    pad = b"# padding padding\n"
    head = b"User-agent: *\n" + pad * ((500 << 10) // len(pad)) + b"Disallow: /a\n"
    assert not parse_robots(head, AGENT).allows("/a")
    rule = b"\nDisallow: /a"
    cut = (b"User-agent: *\n" + b"#" * MAX_ROBOTS)[: MAX_ROBOTS - len(rule)] + rule
    assert not parse_robots(cut, AGENT).allows("/ac")
    assert parse_robots(cut + b"bc\n", AGENT).allows("/ac")


@pytest.mark.parametrize(
    "text, seconds",
    [
        *[("0.5", 0.5), ("10", 10.0), ("1e1", 10.0), ("-1", None), ("nan", None)],
        *[("inf", None), ("soon", None), ("", None), ("0", 0.0)],
    ],
)
def test_a_crawl_delay_is_a_number_of_seconds(text: str, seconds: float | None) -> None:
    assert rules("User-agent: *", f"Crawl-delay: {text}").crawl_delay == seconds


def test_the_longest_of_several_delays_counts_but_not_that_of_others() -> None:
    found = rules(
        *("User-agent: trawlnet", "Crawl-delay: 2", "Disallow: /a"),
        *("User-agent: trawlnet", "Crawl-delay: 1", "Disallow: /b"),
        *("User-agent: *", "Crawl-delay: 99"),
    )
    assert found.crawl_delay == 2.0


def test_no_delay_is_longer_than_the_cap() -> None:
    policy = RobotsPolicy(AGENT, delay_cap=30.0)
    assert crawl_delay(rules("User-agent: *", "Crawl-delay: 86400"), policy) == 30.0
    assert crawl_delay(ALLOW_ALL, policy) == 0.0


# --- What the answer was (2.3.1, 2.4). ---

POLICY = RobotsPolicy(AGENT)
CLOSED = b"User-agent: *\nDisallow: /private"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 499, 301, 304])
def test_no_file_means_no_rules(status: int) -> None:
    assert robots_from(status, b"User-agent: *\nDisallow: /", AGENT).allows("/x")


@pytest.mark.parametrize("status", [None, 500, 502, 503, 504, 599, 600, 100, 0, 429])
def test_no_answer_means_nothing_is_allowed(status: int | None) -> None:
    assert not robots_from(status, b"", AGENT).allows("/x")


def test_a_host_that_fails_is_held_to_its_last_good_copy() -> None:
    good = next_entry(None, 200, CLOSED, POLICY, now=0.0)
    failing = next_entry(good, 503, b"", POLICY, now=DAY)
    assert failing.rules.allows("/public") and not failing.rules.allows("/private")
    still = next_entry(failing, None, b"", POLICY, now=29 * DAY)
    assert still.rules.allows("/public")
    lost = next_entry(still, None, b"", POLICY, now=31 * DAY)
    assert not lost.rules.allows("/public")


def test_a_host_that_never_answered_is_closed_until_it_does() -> None:
    failing = next_entry(None, None, b"", POLICY, now=0.0)
    assert not failing.rules.allows("/public")
    assert is_fresh(failing, now=60.0), "a failure is remembered, or every link asks again"
    assert not is_fresh(failing, now=POLICY.failure_ttl)
    back = next_entry(failing, 200, CLOSED, POLICY, now=POLICY.failure_ttl)
    assert back.rules.allows("/public")


def test_a_copy_is_used_for_a_day() -> None:
    good = next_entry(None, 200, CLOSED, POLICY, now=0.0)
    assert is_fresh(good, now=DAY - 1) and not is_fresh(good, now=DAY) and not is_fresh(None, 0.0)


def test_a_file_that_is_gone_is_an_answer_too() -> None:
    good = next_entry(None, 200, CLOSED, POLICY, now=0.0)
    gone = next_entry(good, 404, b"", POLICY, now=DAY)
    assert next_entry(gone, 500, b"", POLICY, now=2 * DAY).rules.allows("/private")


# --- Other judges. ---

SITE = SimSite(
    5, tuple(f"127.0.0.{n + 2}" for n in range(len(Shape))), (Habit.GOOD,) * 12, 120, 8000
)


@pytest.mark.parametrize("host", range(len(Shape)), ids=[shape(SITE, n) for n in range(len(Shape))])
def test_every_shape_of_the_simulated_web_is_understood(host: int) -> None:
    path = REDIRECTED_PATHS[-1] if shape(SITE, host) is Shape.REDIRECTED else "/robots.txt"
    answer = robots(SITE, host, path)
    found = robots_from(answer.status, answer.body, SITE.agent)
    for n in range(SITE.pages):
        denied = SITE.kind(host, n) in answer.denied
        assert found.allows(SITE.path(host, n)) is not denied, SITE.path(host, n)
    assert found.crawl_delay == answer.crawl_delay
    assert bool(found.sitemaps) is answer.sitemap


# Protego reads a dollar sign inside a pattern in its own way, and lengths before encoding.
patterns = st.tuples(st.text("/ab*.?", max_size=6), st.sampled_from(["", "", "$"])).map("".join)
paths = st.lists(st.sampled_from([*"/ab.?=", "%2F", "%62"]), max_size=8).map("".join)
said = st.tuples(st.sampled_from(["Allow", "Disallow"]), patterns.map(lambda p: "/" + p))
groups = st.tuples(st.sampled_from(["*", "trawlnet", "other"]), st.lists(said, max_size=5))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(groups, max_size=4), paths)
def test_where_protego_follows_the_rfc_the_verdict_is_the_same(
    file: list[tuple[str, list[tuple[str, str]]]], path: str
) -> None:
    lines = [
        line
        for name, those in file
        for line in (f"User-agent: {name}", *(f"{verb}: {p}" for verb, p in those), "Allow:")
    ]
    theirs = Protego.parse("\n".join(lines)).can_fetch(f"http://h/{path}", AGENT)
    assert rules(*lines).allows(f"/{path}") is theirs


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=200), st.text(max_size=20), st.text(max_size=20))
@example(b"User-agent:*\nDisallow:/\xff*$$", "/\udcff\ud800", "")
def test_no_bytes_are_too_odd(body: bytes, path: str, agent: str) -> None:
    head = b"User-agent: *\nDisallow: /"
    for content in (body, head + body):
        assert parse_robots(content, agent).allows("/" + path) in (True, False)


def naive(pattern: str, path: str) -> bool:
    """Glob matching by definition, for short inputs."""
    if not pattern:
        return True
    if pattern == "$":
        return path == ""
    if pattern[0] == "*":
        return any(naive(pattern[1:], path[n:]) for n in range(len(path) + 1))
    return path[:1] == pattern[0] and naive(pattern[1:], path[1:])


@settings(max_examples=500, deadline=None)
@given(st.text("/ab*", max_size=7), st.booleans(), st.text("/ab", max_size=7))
def test_a_pattern_matches_by_definition(pattern: str, anchored: bool, path: str) -> None:
    pattern = f"/{pattern}{'$' if anchored else ''}"
    found = rules("User-agent: *", f"Disallow: {pattern}")
    assert found.allows(f"/{path}") is not naive(pattern, f"/{path}")
