"""Config sections for the choice of URLs: robots, scope, caps, page types, traps."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from trawlnet.crawlers.units import Seconds, Size
from trawlnet.crawlers.web.section import Pattern, ScopePattern, Section
from trawlnet.webpage.robots import product_token
from trawlnet.webpage.url import MAX_URL, TRACKING

_CONTACT = re.compile(r"\+https?://[^\s()<>]+|mailto:[^\s()<>@]+@[^\s()<>@]+")


class RobotsSection(Section):
    user_agent: str = Field(
        "", description="User-Agent with a contact, such as Bot/1.0 (+https://example.org/bot)."
    )
    cache_ttl_sec: float = Field(
        86_400.0, gt=0, le=86_400, description="Time to live of a cached robots.txt, in seconds."
    )
    failure_ttl_sec: float = Field(
        3600.0,
        gt=0,
        le=86_400,
        description="While robots.txt fails, use its last good copy this many seconds before "
        "asking again.",
    )
    obey: bool = Field(True, description="Fetch robots.txt and obey it.")
    max_crawl_delay_sec: float = Field(
        60.0, ge=0, description="Obey Crawl-delay up to this many seconds."
    )
    follow_nofollow: bool = Field(False, description="Follow links marked rel=nofollow.")
    meta: bool = Field(
        True, description="Obey noindex and nofollow in meta tags and X-Robots-Tag headers."
    )

    @field_validator("user_agent")
    @classmethod
    def _names_a_contact(cls, value: str) -> str:
        if value and not (value.isascii() and value.isprintable()):
            raise ValueError("printable ASCII")
        if value and (not _CONTACT.search(value) or not product_token(value)):
            raise ValueError("a name with a contact, as in Bot/1.0 (+https://example.org/bot)")
        return value


class ScopeSection(Section):
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Stay on these hosts (without port; *.example.org stands for all names "
        "below it).",
    )
    denied_subdomains: tuple[str, ...] = Field(
        (), description="Never visit these hosts, or hosts whose first label this is, such as gist."
    )
    allow_patterns: tuple[Pattern, ...] = Field(
        (), description="Visit only URLs that match one of these patterns; without any, all URLs."
    )
    deny_patterns: tuple[Pattern, ...] = Field(
        (), description="Never visit URLs that match one of these patterns."
    )

    @field_validator("allowed_hosts", "denied_subdomains")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for host in value:
            if re.search(r"[/\s@]|:(?!.*\])", host) or not host.strip(".*"):
                raise ValueError("hosts without scheme, port or path, such as example.org")
        return tuple(host.lower().rstrip(".") for host in value)


class ScopeCap(Section):
    """A cap on the pages of each scope; a group of the pattern names the scope."""

    name: str
    pattern: ScopePattern
    max_pages: int = Field(ge=0)
    page_type: str = ""  # Empty: pages of every type count.


class CapsSection(Section):
    max_depth: int | None = Field(
        4, ge=0, description="Follow links at most this many steps from a seed."
    )
    per_repo_max_pages: int | None = Field(30, ge=0, description="Most pages of one repository.")
    per_repo_max_issues: int | None = Field(
        10, ge=0, description="Most pages of type issues of one repository."
    )
    per_repo_max_prs: int | None = Field(
        10, ge=0, description="Most pages of type pull of one repository."
    )
    repo_pattern: ScopePattern | None = Field(
        None,
        description="Pattern of a repository's URLs; its group names the repository (the "
        "preset has one).",
    )
    scopes: tuple[ScopeCap, ...] = Field(
        (), description="Page caps for other scopes: name, pattern, max_pages, page_type."
    )
    max_pages: int | None = Field(None, ge=1, description="Stop a run after this many pages.")
    max_bytes: Size | None = Field(
        None, ge=1, description="Stop a run after this many bytes of bodies."
    )
    max_seconds: Seconds | None = Field(
        None, gt=0, description="Stop a run after this many seconds."
    )


class PageType(Section):
    name: str = Field(pattern=r"^[a-z0-9_]{1,40}$")
    pattern: Pattern
    priority: int = Field(
        0, ge=0, le=99, description="Priority within one depth; lower numbers are crawled first."
    )


class RewriteRule(Section):
    pattern: Pattern
    replacement: str


class Urls(Section):
    max_length: int = Field(
        MAX_URL, ge=100, le=65_536, description="Refuse URLs with more characters than this."
    )
    tracking: tuple[str, ...] = Field(
        TRACKING,
        description="Ignore these query parameters when URLs are compared; a final * stands "
        "for any ending.",
    )
    rewrites: tuple[RewriteRule, ...] = Field(
        (),
        description="Rewrite URLs before they are compared, where a page has two names: "
        "pattern, replacement.",
    )


class Traps(Section):
    """Limits that a blog, a forum and a newspaper's archive do not meet, and endless sites do."""

    max_segments: int = Field(
        30, ge=1, description="Refuse URLs with more path segments than this."
    )
    max_repeats: int = Field(
        3, ge=1, description="Refuse URLs that repeat a path segment more often than this."
    )
    max_parameters: int = Field(
        12, ge=0, description="Refuse URLs with more query parameters than this."
    )
    max_same_parameter: int = Field(
        4, ge=1, description="Refuse URLs that repeat a query parameter more often than this."
    )
    denied_parameters: tuple[str, ...] = Field(
        (), description="Refuse URLs with one of these query parameters."
    )
    allowed_parameters: tuple[str, ...] | None = Field(
        None, description="If set, refuse URLs with any other query parameter."
    )
    first_year: int | None = Field(
        None, description="If set, refuse URLs with a date before this year."
    )
    last_year: int | None = Field(
        None, description="If set, refuse URLs with a date after this year."
    )
    max_calendar_pages: int | None = Field(
        10_000, ge=0, description="Most pages under one path whose URL ends in a date."
    )
    max_variants: int | None = Field(
        100_000, ge=0, description="Most different queries of one path."
    )
    max_tokens: int | None = Field(
        1000,
        ge=0,
        description="Most of those queries with a hexadecimal token, such as a session id.",
    )
