"""What an answer to /robots.txt, or its absence, means for a host; and for how long."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trawlnet.webpage.robots import ALLOW_ALL, DENY_ALL, RobotsRules, parse_robots

MOST_REDIRECTS = 5  # Further ones mean that there is no file.
_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class RobotsPolicy:
    agent: str  # Product token, or a whole user agent that starts with it.
    ttl: float = 86_400.0  # A copy is used for so long before it is asked for again.
    failure_ttl: float = 3600.0  # A failure is remembered, too: links must not hammer a sick host.
    keep: float = 30 * 86_400.0  # While a host fails, its last good copy stands for so long.
    delay_cap: float = 60.0  # Seconds; no file can slow its host down to less than this.


@dataclass(frozen=True, slots=True)
class RobotsEntry:
    """What is known about one origin's robots.txt."""

    rules: RobotsRules
    until: float  # Ask again after this instant.
    good: RobotsRules | None = None  # From the last answer that was one.
    good_at: float = 0.0


def robots_from(status: int | None, body: bytes, agent: str) -> RobotsRules:
    """The rules in an answer; a status of None stands for no answer at all."""
    if not _is_answer(status):
        return DENY_ALL
    return parse_robots(body, agent) if 200 <= (status or 0) < 300 else ALLOW_ALL


def next_entry(
    known: RobotsEntry | None, status: int | None, body: bytes, policy: RobotsPolicy, now: float
) -> RobotsEntry:
    """The entry after a request, from the entry before it."""
    rules = robots_from(status, body, policy.agent)
    if _is_answer(status):
        return RobotsEntry(rules, now + policy.ttl, rules, now)
    until = now + min(policy.failure_ttl, policy.ttl)
    if known is not None and known.good is not None and now - known.good_at < policy.keep:
        return replace(known, rules=known.good, until=until)
    return RobotsEntry(rules, until)


def is_fresh(entry: RobotsEntry | None, now: float) -> bool:
    return entry is not None and now < entry.until


def crawl_delay(rules: RobotsRules, policy: RobotsPolicy) -> float:
    """Seconds that the host wants between requests; 0 when it does not say."""
    return min(rules.crawl_delay or 0.0, policy.delay_cap)


def _is_answer(status: int | None) -> bool:
    """Redirects that are left over lead nowhere: there is no file, and that is an answer.

    "Too many requests" is none: it says nothing about what may be fetched.
    """
    return status is not None and 200 <= status < 500 and status != _TOO_MANY_REQUESTS
