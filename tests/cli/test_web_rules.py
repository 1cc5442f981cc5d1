"""The verbs that ask the web crawler's rules, as transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.program import trawlnet

CONFIG = """
web:
  robots: {user_agent: "Bot/1.0 (+https://example.org/bot)"}
  scope: {allowed_hosts: [example.org], deny_patterns: ['\\.zip$']}
  page_types: [{name: guide, pattern: /guide/}]
  urls: {tracking: [sid]}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "trawlnet.yaml").write_text(CONFIG)
    return tmp_path


def test_check_says_yes_or_why_not(site: Path) -> None:
    urls = ("https://example.org/guide/1", "https://example.org/a.zip", "http://other/", "mailto:x")
    ran = trawlnet("web", "check", "-w", site, *urls)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "ok guide https://example.org/guide/1",
        "no deny_pattern https://example.org/a.zip (\\.zip$)",
        "no outside_hosts http://other/ (other)",
        "no not_a_page mailto:x (not http: mailto)",
    ]
    rows = trawlnet("web", "check", "-w", site, "--json", *urls[:2]).rows
    assert [(row["url"], row["ok"], row["reason"], row["page_type"]) for row in rows] == [
        (urls[0], True, "", "guide"),
        (urls[1], False, "deny_pattern", ""),
    ]


def test_without_hosts_those_of_the_seeds_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("http://127.0.0.1:8000/start\n")
    ran = trawlnet("web", "check", "-w", tmp_path, "http://127.0.0.1:8000/a", "http://other/")
    assert [line.split()[0] for line in ran.out.splitlines()] == ["ok", "no"]


def test_check_needs_a_workspace(tmp_path: Path) -> None:
    assert trawlnet("web", "check", "-w", tmp_path / "none", "http://h/").code == 10


def test_robots_prints_a_verdict_for_each_url(tmp_path: Path) -> None:
    file = tmp_path / "robots.txt"
    file.write_bytes("\ufeffUser-agent: mybot\nDisallow: /a\nAllow: /a/b$\n".encode())
    urls = ("https://h/a/b", "https://h/a/bc", "/a", "/robots.txt", "http://h/A?x")
    ran = trawlnet("web", "robots", file, "MyBot/2.0 (+https://example.org)", *urls)
    assert (ran.code, ran.err) == (0, "")
    verdicts = ("allow", "deny", "deny", "allow", "allow")
    assert ran.out.splitlines() == [f"{v} {url}" for v, url in zip(verdicts, urls, strict=True)]


def test_robots_trouble_is_one_line(tmp_path: Path) -> None:
    ran = trawlnet("web", "robots", tmp_path / "none", "bot", "/")
    assert ran.code == 1 and "no such file" in ran.err.lower() and "Traceback" not in ran.err
    file = tmp_path / "robots.txt"
    file.write_text("")
    assert trawlnet("web", "robots", file, "()", "/").code == 2


LINES = "HTTP://H:80/a?b=1&a=2&utm_source=x#f\nmailto:x\n\nhttp://h/%7ea?sid=1\r\nhttp://a b/\n"


def test_canonical_prints_one_line_for_each(tmp_path: Path) -> None:
    ran = trawlnet("web", "canonical", cwd=tmp_path, stdin=LINES)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "http://h/a?b=1&a=2&utm_source=x\thttp://h/a?a=2&b=1",
        "refused: not http: mailto",
        "refused: not a URL",
        "http://h/%7ea?sid=1\thttp://h/~a?sid=1",
        "refused: not a URL",
    ]


def test_keys_are_stable_when_fed_back_and_follow_the_config(site: Path) -> None:
    ran = trawlnet("web", "canonical", "-w", site, stdin="http://h/?z=1&sid=2&a=3\n")
    key = ran.out.rstrip().split("\t")[1]
    assert key == "http://h/?a=3&z=1"
    again = trawlnet("web", "canonical", "-w", site, stdin=key)
    assert again.out == f"{key}\t{key}\n"
    assert trawlnet("web", "canonical", "-w", site / "none", stdin="").code == 10


@pytest.mark.parametrize(
    "yaml, words, hint",
    [
        ("scope: {alowed_hosts: []}", "web.scope.alowed_hosts: no such key", "allowed_hosts?"),
        ("robots: {user_agent: Bot}", "web.robots.user_agent: expected a name with a contact", ""),
        ("preset: gitlab", "web.preset: expected one of github", ""),
        ("limits: {max_retries: -1}", "web.limits.max_retries: expected at least 0", ""),
        ("scope: {allow_patterns: ['(']}", "expected a regular expression", ""),
        (
            "page_types: [{name: a, pattern: b, prio: 1}]",
            "page_types.0.prio: no such key",
            "priority",
        ),
    ],
)
def test_a_wrong_key_is_named_with_its_path(
    tmp_path: Path, yaml: str, words: str, hint: str
) -> None:
    (tmp_path / "trawlnet.yaml").write_text(f"web:\n  {yaml}\n")
    ran = trawlnet("web", "check", "-w", tmp_path, "http://h/")
    assert ran.code == 2 and words in ran.err and hint in ran.err
