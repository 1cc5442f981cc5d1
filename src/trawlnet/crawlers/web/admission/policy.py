"""The policy: pure rules for which URLs are visited, their page types, order and caps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.scope import CapsSection, ScopeSection, Traps
from trawlnet.malformed import Malformed
from trawlnet.webpage.url import request_url

PAGE = "page"  # The type of a page that matches no pattern.
PER_DEPTH = 100  # The score of one level of depth; priorities are smaller.
REVISITS_AFTER = 1e9  # A score beyond any depth.


class UrlVerdict(NamedTuple):
    ok: bool
    reason: str  # From a closed set, fit for a metric; empty if the URL is allowed.
    page_type: str
    detail: str = ""  # For people: which pattern, which segment.


class CapKey(NamedTuple):
    """A counter of pages, and its limit."""

    name: str
    scope: str
    most: int

    @property
    def digest(self) -> bytes:
        """The name of the counter on disk, without its limit."""
        text = f"{self.name}\0{self.scope}".encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=16).digest()


class Policy:
    """Compiled once from the config. `verdict` takes request URLs."""

    def __init__(self, config: WebConfig, hosts: Iterable[str] = ()) -> None:
        """`hosts` are allowed, too: those of the seeds, if the config names none."""
        self._hosts = _Hosts(config.scope, hosts)
        self._allow = [re.compile(one) for one in config.scope.allow_patterns]
        self._deny = [re.compile(one) for one in config.scope.deny_patterns]
        self._types = [(re.compile(one.pattern), one.name) for one in config.page_types]
        self._priorities = {one.name: one.priority for one in config.page_types}
        self._default_priority = config.frontier.default_priority
        self._max_depth = config.caps.max_depth
        self._caps = _cap_rules(config.caps, config.traps)
        self._traps = config.traps
        self._longest = config.urls.max_length

    def check(self, text: str) -> UrlVerdict:
        """The verdict on a URL as a user wrote it."""
        try:
            return self.verdict(request_url(text, most=self._longest))
        except Malformed as error:
            return UrlVerdict(False, "not_a_page", "", str(error))

    def verdict(self, url: str) -> UrlVerdict:
        _, _, authority, target = url.split("/", 3)
        if why := self._hosts.trouble(authority):
            return UrlVerdict(False, why, "", authority)
        if len(url) > self._longest:
            return UrlVerdict(False, "too_long", "", f"longer than {self._longest} characters")
        for pattern in self._deny:
            if pattern.search(url):
                return UrlVerdict(False, "deny_pattern", "", pattern.pattern)
        if self._allow and not any(pattern.search(url) for pattern in self._allow):
            return UrlVerdict(False, "no_allow_pattern", "")
        if trap := _trap(target, self._traps):
            return UrlVerdict(False, *trap)
        return UrlVerdict(True, "", self.page_type(url))

    def page_type(self, url: str) -> str:
        for pattern, name in self._types:
            if pattern.search(url):
                return name
        return PAGE

    @property
    def page_types(self) -> list[str]:
        """All page types of this crawl."""
        return [PAGE, *(name for _, name in self._types)]

    def also(self, host: str) -> None:
        """Allow one more host."""
        self._hosts.add(host)

    def host_allowed(self, url: str) -> bool:
        """Whether the host alone is in scope; patterns are written for pages."""
        return not self._hosts.trouble(url.split("/", 3)[2])

    def score(self, depth: int, page_type: str) -> int:
        """Lower goes first: breadth-first, and by priority among pages that are equally far."""
        return depth * PER_DEPTH + self._priorities.get(page_type, self._default_priority)

    def too_deep(self, depth: int) -> bool:
        """Depth is counted in links from a seed."""
        return self._max_depth is not None and depth > self._max_depth

    def cap_keys(self, url: str, page_type: str) -> list[CapKey]:
        """The counters that this page counts in."""
        found = []
        for rule in self._caps:
            if rule.page_type and rule.page_type != page_type:
                continue
            match = rule.pattern.search(url)
            if match is not None:
                found.append(CapKey(rule.name, match[1] or "", rule.most))
        return found

    def cap_digests(self, url: str, page_type: str) -> list[bytes]:
        return [key.digest for key in self.cap_keys(url, page_type)]

    @property
    def cap_rules(self) -> str:
        """The rules that choose counters, as comparable text."""
        return repr([(rule.name, rule.pattern.pattern, rule.page_type) for rule in self._caps])


class _Hosts:
    """Whether a host is in scope. There are few hosts and many links, so verdicts are cached."""

    def __init__(self, scope: ScopeSection, more: Iterable[str]) -> None:
        named = [*scope.allowed_hosts, *(host.lower().rstrip(".") for host in more)]
        self._exact = {host for host in named if not host.startswith("*.")}
        self._below = tuple(host[1:] for host in named if host.startswith("*."))
        self._denied = [host for host in scope.denied_subdomains if "." in host]
        self._labels = {host for host in scope.denied_subdomains if "." not in host}
        self._known: dict[str, str] = {}

    def add(self, host: str) -> None:
        if host not in self._exact:
            self._exact.add(host)
            self._known.clear()

    def trouble(self, authority: str) -> str:
        why = self._known.get(authority)
        if why is None:
            if len(self._known) >= _HOSTS_REMEMBERED:
                self._known.clear()
            why = self._known[authority] = self._judge(authority)
        return why

    def _judge(self, authority: str) -> str:
        host = _PORT.sub("", authority).rstrip(".")
        for denied in self._denied:
            bare = denied.removeprefix("*.")
            if host == bare or host.endswith(f".{bare}"):
                return "denied_subdomain"
        if host.partition(".")[0] in self._labels and host not in self._exact:
            return "denied_subdomain"
        return "" if host in self._exact or host.endswith(self._below) else "outside_hosts"


_HOSTS_REMEMBERED = 10_000
_PORT = re.compile(r":\d+$")


class _Trap(NamedTuple):
    reason: str
    page_type: str
    detail: str


def _trap(target: str, limits: Traps) -> _Trap | None:
    """Signs of an endless site, in a path (without its first slash) and query."""
    path, _, query = target.partition("?")
    segments = path.split("/")
    if len(segments) > limits.max_segments:
        return _Trap("too_many_segments", "", f"more than {limits.max_segments}")
    # The cheap check first: a path with few segments cannot repeat one too often.
    if len(segments) - len(set(segments)) >= limits.max_repeats:
        segment, count = Counter(filter(None, segments)).most_common(1)[0]
        if count > limits.max_repeats:
            return _Trap("repeating_path", "", f"{segment[:40]} occurs {count} times")
    if query and (trap := _query_trap(query, limits)):
        return trap
    first, last = limits.first_year, limits.last_year
    if first is None and last is None:
        return None
    for match in _DATED.finditer(target):
        year = int(match[1])
        if (first is not None and year < first) or (last is not None and year > last):
            return _Trap("calendar", "", f"the year {year}")
    return None


# A year with a month behind it, in a path or as the value of a parameter. Beyond doubt: the month
# has its zero, or hyphens are around it, or the year is one of ours. /t/1234/5 is page 5 of a
# thread in a forum.
_DATE = r"(?:\d{4,6}[/-]0[1-9]|\d{4,6}-1[0-2]|[12]\d{3}/1[0-2]|(?:19|20)\d\d/[1-9])(?!\d)"
_DATED = re.compile(rf"(?:^|[/=])(?={_DATE})(\d+)")


def _query_trap(query: str, limits: Traps) -> _Trap | None:
    names = [one.partition("=")[0] for one in query.split("&") if one]
    if len(names) > limits.max_parameters:
        return _Trap("query", "", f"more than {limits.max_parameters} parameters")
    for name, count in Counter(names).items():
        if count > limits.max_same_parameter:
            return _Trap("query", "", f"{name[:40]} occurs {count} times")
        allowed = limits.allowed_parameters
        if name in limits.denied_parameters or (allowed is not None and name not in allowed):
            return _Trap("query", "", f"the parameter {name[:40]}")
    return None


class _CapRule(NamedTuple):
    name: str
    pattern: re.Pattern[str]  # Its first group names the scope.
    most: int
    page_type: str = ""  # Empty: pages of every type count.


def _cap_rules(caps: CapsSection, traps: Traps) -> list[_CapRule]:
    """The user's own, those of a repository, and those of paths without end."""
    repo = caps.repo_pattern
    chosen = [
        *((one.name, one.pattern, one.max_pages, one.page_type) for one in caps.scopes),
        ("pages of a repository", repo, caps.per_repo_max_pages, ""),
        ("issues of a repository", repo, caps.per_repo_max_issues, "issues"),
        ("pull requests of a repository", repo, caps.per_repo_max_prs, "pull"),
        ("dated pages of a path", _CALENDAR, traps.max_calendar_pages, ""),
        ("queries of a path", _VARIANTS, traps.max_variants, ""),
        ("queries with a token", _TOKENS, traps.max_tokens, ""),
    ]
    return [
        _CapRule(name, re.compile(pattern), most, page_type)
        for name, pattern, most, page_type in chosen
        if pattern is not None and most is not None
    ]


# Nothing but a day may follow: a title behind the date is a post, of which there may be any number.
_CALENDAR = rf"^(https?://[^?]*?)(?:/|\?(?:[^&]*&)*[^=&]*=){_DATE}(?:[/-]\d\d?)?/?(?:[?&]|$)"
_VARIANTS = r"^([^?]*)\?"
_TOKENS = r"^([^?]*)\?.*=(?=[^&]*\d)(?=[^&]*[a-fA-F])[0-9a-fA-F-]{8,}(?:&|$)"
