"""Which URLs are ours, as what, and how a config says so."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from trawlnet.crawlers.web.admission.policy import PAGE, CapKey, Policy
from trawlnet.crawlers.web.config import WebConfig, keys_of, links_of
from trawlnet.sim.web.world import trap_page

AGENT = "ResearchBot/1.0 (+https://example.org/contact)"


def config(**sections: Any) -> WebConfig:
    return WebConfig.model_validate(sections)


def reason(url: str, **sections: Any) -> str:
    sections.setdefault("scope", {"allowed_hosts": ["example.org"]})
    return Policy(config(**sections)).check(url).reason


# --- Scope. ---


@pytest.mark.parametrize(
    "url, why",
    [
        ("https://example.org/a", ""),
        ("http://EXAMPLE.org:8080/a", ""),
        ("https://example.org./a", ""),
        ("https://www.example.org/a", "outside_hosts"),
        ("https://example.org.evil.net/", "outside_hosts"),
        ("https://notexample.org/", "outside_hosts"),
        ("mailto:a@example.org", "not_a_page"),
        ("https://user@example.org/", ""),
        ("example.org/a", "not_a_page"),
    ],
)
def test_a_host_is_allowed_by_its_whole_name(url: str, why: str) -> None:
    assert reason(url) == why


def test_a_star_stands_for_all_names_below() -> None:
    scope = {"allowed_hosts": ["*.example.org"], "denied_subdomains": ["old.example.org", "gist"]}
    for host, why in [
        ("www.example.org", ""),
        ("a.b.example.org", ""),
        ("example.org", "outside_hosts"),
        ("xexample.org", "outside_hosts"),
        ("old.example.org", "denied_subdomain"),
        ("very.old.example.org", "denied_subdomain"),
        ("gist.example.org", "denied_subdomain"),
        ("gists.example.org", ""),
    ]:
        assert reason(f"https://{host}/", scope=scope) == why, host


def test_hosts_of_the_seeds_may_be_added() -> None:
    policy = Policy(config(), ["127.0.0.1", "[::1]"])
    assert policy.verdict("http://127.0.0.1:8000/a").ok and policy.verdict("http://[::1]:81/").ok
    assert policy.host_allowed("http://127.0.0.1/x") and not policy.host_allowed("http://h/")
    assert not Policy(config()).verdict("http://127.0.0.1/").ok, "no host named, none allowed"


def test_deny_beats_allow_and_an_empty_allow_list_allows() -> None:
    scope = {
        "allowed_hosts": ["example.org"],
        "allow_patterns": ["^https://example\\.org/docs"],
        "deny_patterns": [".*\\.zip$", None][:1],
    }
    assert reason("https://example.org/docs/a", scope=scope) == ""
    assert reason("https://example.org/docs/a.zip", scope=scope) == "deny_pattern"
    assert reason("https://example.org/blog", scope=scope) == "no_allow_pattern"


# --- Traps. ---


@pytest.mark.parametrize(
    "path, why",
    [
        ("/a/b/a/b/a/b/c", ""),
        ("/a/b/a/b/a/b/a", "repeating_path"),
        ("/a/a/a/a", "repeating_path"),
        ("/1/2/3//////", ""),
        ("/" + "/".join(str(n) for n in range(31)), "too_many_segments"),
        ("/" + "x" * 2100, "not_a_page"),
        ("/calendar/2030/01", ""),
        ("/calendar/12030/01", ""),
        ("/1066-10-14", ""),
        ("/blog/2024/05/06/title", ""),
        ("/paper/9999/13", ""),
        ("/ids/1234/5678", ""),
        ("/?" + "&".join(f"p{n}=1" for n in range(13)), "query"),
        ("/?a=1&a=2&a=3&a=4", ""),
        ("/?a=1&a=2&a=3&a=4&a=5", "query"),
    ],
)
def test_signs_of_a_trap(path: str, why: str) -> None:
    assert reason(f"https://example.org{path}") == why


@pytest.mark.parametrize(
    "path, why",
    [
        ("/calendar/2030/01", ""),
        ("/calendar/2077/01", "calendar"),
        ("/calendar/12030/01", "calendar"),
        ("/1066-10-14", "calendar"),
        ("/events?date=1066-10-14", "calendar"),
        ("/calendar/1066/10", "calendar"),
        ("/t/1234/5", ""),
        ("/t/12345/10", ""),
    ],
)
def test_years_can_be_bounded_and_pages_of_a_thread_are_no_dates(path: str, why: str) -> None:
    assert reason(f"https://example.org{path}", traps={"first_year": 1980, "last_year": 2040}) == (
        why
    )


@pytest.mark.parametrize(
    "path",
    [
        "/blog/2019/05/{n}-title",
        "/1923/05/{n}-story",
        "/forum?id={n}",
        "/viewtopic.php?f=2&t={n}&start=20",
        "/t/{n}/2",
        "/t/slug/{n}/9",
    ],
)
def test_a_blog_and_a_forum_meet_no_limit(path: str) -> None:
    """Ten thousand pages of a shape that honest sites have."""
    policy = Policy(config(scope={"allowed_hosts": ["example.org"]}))
    counts: Counter[CapKey] = Counter()
    for n in range(1000, 11_000):
        url = f"https://example.org{path.format(n=n)}"
        assert policy.verdict(url).ok
        counts.update(policy.cap_keys(url, PAGE))
    assert all(count < scope.most for scope, count in counts.items())


@pytest.mark.parametrize(
    "path, scope",
    [
        ("/cal/2024/05", "https://h/cal"),
        ("/cal/2024/5/12/", "https://h/cal"),
        ("/cal/2024-05-12", "https://h/cal"),
        ("/cal?date=2024-05", "https://h/cal"),
        ("/cal?view=m&date=2024-05&x=1", "https://h/cal"),
        ("/cal/2024/05/12/a-title", None),
        ("/2024-05-12-title.html", None),
    ],
)
def test_pages_that_end_in_a_date_are_counted(path: str, scope: str | None) -> None:
    policy = Policy(config(scope={"allowed_hosts": ["h"]}))
    found = [key for key in policy.cap_keys(f"https://h{path}", PAGE) if "dated" in key.name]
    assert [key.scope for key in found] == ([scope] if scope else [])


def test_parameters_can_be_refused_or_named() -> None:
    assert reason("https://example.org/?sid=1", traps={"denied_parameters": ["sid"]}) == "query"
    only = {"allowed_parameters": ["page"]}
    assert reason("https://example.org/?page=1", traps=only) == ""
    assert reason("https://example.org/?page=1&x", traps=only) == "query"
    assert reason("https://example.org/?x", traps={"allowed_parameters": []}) == "query"


@pytest.mark.parametrize(
    "door", ["/calendar/2030/01", "/maze/a/", "/session/item/1", "/facets?sort=up"]
)
def test_every_trap_of_the_simulated_web_has_a_bottom(door: str) -> None:
    """Followed with nothing but policy, keys and caps, each trap ends by itself."""
    web = config(
        scope={"allowed_hosts": ["example.org"]},
        traps={"max_calendar_pages": 50, "max_variants": 20},
    )
    policy, keys = Policy(web), keys_of(web)
    counts: Counter[CapKey] = Counter()
    seen, queue = set(), [f"http://example.org{door}"]
    while queue:
        url = queue.pop(0)
        scopes = policy.cap_keys(url, PAGE)
        full = any(counts[scope] >= scope.most for scope in scopes)
        if keys.key(url) in seen or full or not policy.verdict(url).ok:
            continue
        seen.add(keys.key(url))
        counts.update(scopes)
        html = trap_page(url.removeprefix("http://example.org")) or ""
        hrefs = [one.split('"')[0] for one in html.split('href="')[1:]]
        queue += [
            f"http://example.org{href.replace('&amp;', '&')}" for href in hrefs if href != "/"
        ]
        assert len(seen) < 500
    assert seen


# --- Types, order, caps. ---

GITHUB = config(preset="github", robots={"user_agent": AGENT})


@pytest.mark.parametrize(
    "path, page_type",
    [
        ("/topics", "topic"),
        ("/topics/python", "topic"),
        ("/trending", "trending"),
        ("/trending/rust?since=daily", "trending"),
        ("/owner/repo", "repo_root"),
        ("/owner/repo/", "repo_root"),
        ("/owner/repo?tab=readme", "repo_root"),
        ("/owner/repo/blob/main/a.py", "blob"),
        ("/owner/repo/issues", "issues"),
        ("/owner/repo/issues/12", "issues"),
        ("/owner/repo/pull/3", "pull"),
        ("/owner/repo/pulls", "pull"),
        ("/owner/repo/tree/main", PAGE),
        ("/topics-of/repo", "repo_root"),
    ],
)
def test_the_github_preset_knows_its_pages(path: str, page_type: str) -> None:
    verdict = Policy(GITHUB).verdict(f"https://github.com{path}")
    assert verdict.ok and verdict.page_type == page_type


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/login",
        "https://github.com/settings/profile",
        "https://github.com/owner",
        "https://github.com/owner/repo/archive/main.zip",
        "https://gist.github.com/owner/1",
        "http://github.com/owner/repo",
    ],
)
def test_the_github_preset_stays_on_its_pages(url: str) -> None:
    assert not Policy(GITHUB).verdict(url).ok


def test_a_preset_lies_beneath_what_a_user_says() -> None:
    mine = config(preset="github", scope={"deny_patterns": ["x"]}, caps={"max_depth": 2})
    assert mine.scope.deny_patterns == ("x",)
    assert mine.scope.allowed_hosts == ("github.com",)
    assert mine.caps.max_depth == 2 and mine.caps.repo_pattern is not None
    assert config(preset="github", scope=None).scope.allowed_hosts == ("github.com",)


def test_any_site_has_types_of_its_own() -> None:
    web = config(
        scope={"allowed_hosts": ["example.org"]},
        page_types=[
            {"name": "chapter", "pattern": "/chapter/", "priority": 5},
            {"name": "book", "pattern": "/book/", "priority": 1},
        ],
        frontier={"default_priority": 50},
    )
    policy = Policy(web)
    assert policy.verdict("https://example.org/book/chapter/1").page_type == "chapter"
    assert policy.verdict("https://example.org/").page_type == PAGE
    assert [policy.score(2, name) for name in ("book", "chapter", PAGE)] == [201, 205, 250]
    assert policy.score(2, PAGE) < policy.score(3, "book")


def test_depth_is_counted_in_links() -> None:
    policy = Policy(config(caps={"max_depth": 2}))
    assert not policy.too_deep(2) and policy.too_deep(3)
    assert not Policy(config(caps={"max_depth": None})).too_deep(10**6)


def test_two_branches_are_one_page_for_github() -> None:
    key = keys_of(GITHUB).key
    assert key("https://github.com/o/r/blob/master/a") == key("https://github.com/o/r/blob/main/a")


def test_caps_count_by_what_a_group_names() -> None:
    github = Policy(GITHUB)
    assert github.cap_keys("https://github.com/o/r/issues/1", "issues") == [
        CapKey("pages of a repository", "o/r", 30),
        CapKey("issues of a repository", "o/r", 10),
    ]
    assert github.cap_keys("https://github.com/o/r/pull/1", "pull") == [
        CapKey("pages of a repository", "o/r", 30),
        CapKey("pull requests of a repository", "o/r", 10),
    ]
    assert github.cap_keys("https://github.com/topics/x", "topic") == []
    user = {"name": "user", "pattern": "/~([^/]+)", "max_pages": 7}
    web = Policy(config(caps={"scopes": [user, {**user, "name": "x", "page_type": "other"}]}))
    assert web.cap_keys("https://h/~joe/x?y", PAGE) == [
        CapKey("user", "joe", 7),
        CapKey("queries of a path", "https://h/~joe/x", 100_000),
    ]
    assert web.cap_keys("https://h/cal/2024/05", PAGE) == [
        CapKey("dated pages of a path", "https://h/cal", 10_000)
    ]


def test_a_cap_may_be_lifted() -> None:
    web = Policy(config(preset="github", caps={"per_repo_max_pages": None}))
    assert web.cap_keys("https://github.com/o/r", "repo_root") == []


# --- The config. ---


@pytest.mark.parametrize(
    "agent", [AGENT, "Bot/1 (mailto:me@example.org)", "Bot (+http://example.org/x)", ""]
)
def test_a_user_agent_names_a_contact(agent: str) -> None:
    assert config(robots={"user_agent": agent}).robots.user_agent == agent


@pytest.mark.parametrize(
    "agent",
    ["Bot/1.0", "Mozilla/5.0", "Bot (https://example.org)", "Böt (+http://x.y)", "(+http://x)"],
)
def test_a_user_agent_without_one_is_refused(agent: str) -> None:
    with pytest.raises(ValidationError):
        config(robots={"user_agent": agent})


@pytest.mark.parametrize(
    "sections",
    [
        {"scop": {}},
        {"scope": {"alowed_hosts": []}},
        {"scope": {"allow_patterns": ["("]}},
        {"scope": {"allowed_hosts": ["https://example.org"]}},
        {"scope": {"allowed_hosts": ["example.org:8080"]}},
        {"scope": {"allowed_hosts": ["example.org/x"]}},
        {"scope": {"allowed_hosts": ["*."]}},
        {"limits": {"req_per_sec": -1}},
        {"limits": {"global_concurrency": 0}},
        {"spool": {"max_backlog_gb": 0}},
        {"spool": {"discoveries_dir": ""}},
        {"caps": {"repo_pattern": "no group"}},
        {"caps": {"scopes": [{"name": "x", "pattern": "y", "max_pages": 1}]}},
        {"preset": "gitlab"},
        {"links": {"tags": ["img"]}},
        {"page_types": [{"name": "a b", "pattern": "x"}]},
    ],
)
def test_a_wrong_config_is_refused(sections: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config(**sections)


def test_the_keys_of_the_spec_are_understood() -> None:
    web = config(
        robots={"user_agent": AGENT, "cache_ttl_sec": 86400},
        scope={"allowed_hosts": ["github.com"], "denied_subdomains": None, "allow_patterns": []},
        limits={
            "global_concurrency": 2,
            "per_host_concurrency": 2,
            "req_per_sec": 1.0,
            "max_retries": 3,
            "backoff_base_ms": 500,
            "backoff_cap_ms": 8000,
        },
        caps={"per_repo_max_pages": 30, "per_repo_max_issues": 10, "per_repo_max_prs": 10},
        frontier={"db_name": "frontier.lmdb", "bloom_name": "seen.bloom"},
        spool={"rotate_every_mb": 100, "backpressure_limit_gb": 10.0, "max_backlog_gb": 10},
        store={"compress": "zstd", "permissions": "0o600"},
    )
    assert web.store.permissions == 0o600 and web.scope.denied_subdomains == ()
    assert links_of(web).agent == "researchbot"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_any_text_gets_a_verdict(text: str) -> None:
    policy = Policy(config(scope={"allowed_hosts": ["example.org"]}))
    for written in (text, f"https://example.org/{text}"):
        verdict = policy.check(written)
        assert verdict.ok is not bool(verdict.reason)
