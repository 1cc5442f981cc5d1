"""What the web crawler can be told: the section `web:` of trawlnet.yaml."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from trawlnet.crawlers.common_keys import (
    AlertShape,
    AlertUrl,
    ArchivePlace,
    PartSeconds,
    PartSize,
    Shards,
    ShardTimeout,
)
from trawlnet.crawlers.units import Seconds, Size
from trawlnet.crawlers.web.outputs import (
    MetricsSection,
    SpoolSection,
    StoreSection,
    Trajectory,
    Warc,
)
from trawlnet.crawlers.web.presets import PRESETS, beneath
from trawlnet.crawlers.web.section import Pattern, ScopePattern, Section, section
from trawlnet.crawlers.web.visiting.headers import header_trouble
from trawlnet.observe.alerts.shapes import WebhookShape
from trawlnet.webpage.robots import product_token
from trawlnet.webpage.url import MAX_URL, TRACKING, Rewrite, UrlKeys

if TYPE_CHECKING:  # Only a crawl that runs pays for the import.
    from trawlnet.webpage.html import LinkChoice

_CONTACT = re.compile(r"\+https?://[^\s()<>]+|mailto:[^\s()<>@]+@[^\s()<>@]+")


class RobotsSection(Section):
    user_agent: str = Field(
        "", description="Who we say we are, with a contact: Bot/1.0 (+https://example.org/bot)."
    )
    cache_ttl_sec: float = Field(86_400.0, gt=0, le=86_400, description="Life of a robots.txt.")
    failure_ttl_sec: float = Field(
        3600.0,
        gt=0,
        le=86_400,
        description="How long an older copy stands before a failing robots.txt is asked again.",
    )
    obey: bool = Field(True, description="Ask for robots.txt and do as it says.")
    max_crawl_delay_sec: float = Field(
        60.0, ge=0, description="Crawl-delay is honoured up to this."
    )
    follow_nofollow: bool = Field(False, description="Follow links that say rel=nofollow.")
    meta: bool = Field(True, description="Heed noindex and nofollow of meta tags and X-Robots-Tag.")

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
        (), description="Hosts without port; *.example.org stands for all names below it."
    )
    denied_subdomains: tuple[str, ...] = Field(
        (), description="Hosts to leave alone, or first labels of hosts, such as gist."
    )
    allow_patterns: tuple[Pattern, ...] = Field((), description="One must match; none: all do.")
    deny_patterns: tuple[Pattern, ...] = Field((), description="None may match.")

    @field_validator("allowed_hosts", "denied_subdomains")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for host in value:
            if re.search(r"[/\s@]|:(?!.*\])", host) or not host.strip(".*"):
                raise ValueError("hosts without scheme, port or path, such as example.org")
        return tuple(host.lower().rstrip(".") for host in value)


class LimitsSection(Section):
    global_concurrency: int = Field(2, ge=1, le=10_000, description="Requests in flight.")
    per_host_concurrency: int = Field(
        2, ge=1, le=100, description="The same, to one host, where req_per_sec is 0."
    )
    req_per_sec: float = Field(
        1.0,
        ge=0,
        le=10_000,
        description="One over the gap from a response's end to the host's next request; 0: none.",
    )
    per_address: bool = Field(True, description="Hosts at one address share the pace of one host.")
    max_retries: int = Field(3, ge=0, le=100, description="Further tries after the first.")
    backoff_base_ms: float = Field(500.0, gt=0, description="Before the first retry; doubles.")
    backoff_cap_ms: float = Field(8000.0, gt=0, description="No retry waits longer.")
    block_after: int = Field(
        10,
        ge=1,
        le=10_000,
        description="Failures in a row, while no page of the host can be had, that suspend it.",
    )
    block_probes: int = Field(
        3, ge=0, le=100, description="Tries at a suspended host before it is blocked for this run."
    )
    probe_wait: Seconds = Field(
        30.0, gt=0, description="Seconds before the first such try; doubles for each further one."
    )
    connect_timeout: Seconds = Field(10.0, gt=0, description="Seconds to get a connection.")
    request_timeout: Seconds = Field(60.0, gt=0, description="Seconds for one whole request.")
    max_body: Size = Field(10 << 20, ge=1, description="Largest body, on the wire and inflated.")
    max_redirects: int = Field(5, ge=0, le=20, description="Redirects in a row.")


class ScopeCap(Section):
    """So many pages of each scope, where a group of the pattern names the scope."""

    name: str
    pattern: ScopePattern
    max_pages: int = Field(ge=0)
    page_type: str = ""  # Empty: pages of every type count.


class CapsSection(Section):
    max_depth: int | None = Field(4, ge=0, description="Links away from a seed.")
    per_repo_max_pages: int | None = Field(30, ge=0, description="Pages of one repository.")
    per_repo_max_issues: int | None = Field(10, ge=0, description="Its pages of type issues.")
    per_repo_max_prs: int | None = Field(10, ge=0, description="Its pages of type pull.")
    repo_pattern: ScopePattern | None = Field(
        None, description="What a repository is: a pattern with a group (the preset has one)."
    )
    scopes: tuple[ScopeCap, ...] = Field((), description="Caps for any other scope.")
    max_pages: int | None = Field(None, ge=1, description="Stop after so many pages.")
    max_bytes: Size | None = Field(None, ge=1, description="Stop after so many bytes of bodies.")
    max_seconds: Seconds | None = Field(None, gt=0, description="Stop after so many seconds.")


class PageType(Section):
    name: str = Field(pattern=r"^[a-z0-9_]{1,40}$")
    pattern: Pattern
    priority: int = Field(0, ge=0, le=99, description="Within one depth, lower goes first.")


class RewriteRule(Section):
    pattern: Pattern
    replacement: str


class Urls(Section):
    max_length: int = Field(MAX_URL, ge=100, le=65_536, description="Characters.")
    tracking: tuple[str, ...] = Field(
        TRACKING, description="Parameters that keys leave out; a final * is a prefix."
    )
    rewrites: tuple[RewriteRule, ...] = Field((), description="Two names for one page, in keys.")


class Traps(Section):
    """Limits that a blog, a forum and a newspaper's archive do not meet, and endless sites do."""

    max_segments: int = Field(30, ge=1, description="Segments of a path.")
    max_repeats: int = Field(3, ge=1, description="How often one segment may stand in a path.")
    max_parameters: int = Field(12, ge=0, description="Parameters of a query.")
    max_same_parameter: int = Field(4, ge=1, description="How often one parameter may be given.")
    denied_parameters: tuple[str, ...] = Field((), description="No URL may have one of these.")
    allowed_parameters: tuple[str, ...] | None = Field(
        None, description="If given: a URL may have no others."
    )
    first_year: int | None = Field(
        None, description="If given: dates in paths and queries are not before this year."
    )
    last_year: int | None = Field(None, description="Nor after this one.")
    max_calendar_pages: int | None = Field(
        10_000, ge=0, description="Pages under one path whose URL ends in a date."
    )
    max_variants: int | None = Field(100_000, ge=0, description="Queries of one path.")
    max_tokens: int | None = Field(
        1000, ge=0, description="Those of them with a hexadecimal token, such as a session id."
    )


class Links(Section):
    tags: tuple[Literal["a", "area", "link", "iframe", "refresh"], ...] = Field(
        ("a", "area", "link", "iframe", "refresh"), description="Where links are looked for."
    )
    rels: tuple[str, ...] = Field(
        ("next", "canonical", "alternate"), description="Which <link>s and Link headers count."
    )
    max_per_page: int = Field(20_000, ge=1, description="Links of one page.")


class Sitemaps(Section):
    enabled: bool = Field(True, description="Read the sitemaps that robots.txt names.")
    urls: tuple[str, ...] = Field((), description="Further sitemaps.")
    max_files: int = Field(100, ge=0, description="Sitemap files of one host.")
    max_urls: int = Field(50_000, ge=0, description="URLs of one file.")


class Revisit(Section):
    enabled: bool = Field(False, description="Visit pages again.")
    first_interval: Seconds = Field(
        86_400.0, gt=0, description="Before the second visit, within the other two."
    )
    min_interval: Seconds = Field(3600.0, gt=0, description="For pages that keep changing.")
    max_interval: Seconds = Field(30 * 86_400.0, gt=0, description="For pages that never do.")

    @model_validator(mode="after")
    def _is_in_order(self) -> Revisit:
        if self.min_interval > self.max_interval:
            raise ValueError("min_interval no longer than max_interval")
        said = "first_interval" in self.model_fields_set
        if said and not self.min_interval <= self.first_interval <= self.max_interval:
            raise ValueError("first_interval between min_interval and max_interval")
        return self


class FrontierSection(Section):
    db_name: str = Field("frontier.lmdb", description="Folder of the store, in the state folder.")
    bloom_name: str = Field("seen.bloom", description="Read, not used: the store is exact.")
    default_priority: int = Field(0, ge=0, le=99, description="Of a page whose type has none.")


class ProxiesSection(Section):
    default: str | None = Field(None, description="http://host:port for every host.")
    hosts: dict[str, str] = Field(default_factory=dict, description="For some hosts.")


class WebConfig(Section):
    """Field names are the YAML keys. A preset lies beneath whatever else is given."""

    preset: str | None = Field(None, description="Settings made for one site: github.")
    seeds: tuple[str, ...] = Field((), description="Where to start; seeds.txt has more.")
    headers: dict[str, str] = Field(
        {"Accept-Language": "en, *;q=0.5"},
        description="Sent with every request for a page, besides those that the crawler sets.",
    )
    robots: RobotsSection = section(RobotsSection)
    scope: ScopeSection = section(ScopeSection)
    limits: LimitsSection = section(LimitsSection)
    caps: CapsSection = section(CapsSection)
    page_types: tuple[PageType, ...] = Field(
        (), description="Names for pages: name, pattern, priority; the first that matches."
    )
    urls: Urls = section(Urls)
    traps: Traps = section(Traps)
    links: Links = section(Links)
    sitemaps: Sitemaps = section(Sitemaps)
    revisit: Revisit = section(Revisit)
    frontier: FrontierSection = section(FrontierSection)
    spool: SpoolSection = section(SpoolSection)
    store: StoreSection = section(StoreSection)
    warc: Warc = section(Warc)
    metrics: MetricsSection = section(MetricsSection)
    trajectory: Trajectory = section(Trajectory)
    proxies: ProxiesSection = section(ProxiesSection)
    redis_address: str = Field(
        "", description="Keep the crawl's state in Redis: HOST:PORT, or redis://HOST:PORT/DB."
    )
    fleet: str = Field(
        "",
        description="Crawl with many processes: local, or the address of a Ray cluster "
        "(ray://HOST:10001, or HOST:6379 on one of its nodes).",
    )
    shards: Shards = 2
    archive: ArchivePlace = ""
    part_size: PartSize = 32 << 20
    part_seconds: PartSeconds = 30.0
    shard_timeout: ShardTimeout = 15.0
    allow_private_hosts: bool = Field(
        False, description="Open loopback and private addresses, any port, plain http."
    )
    metrics_address: str = Field("", description="Serve Prometheus metrics on HOST:PORT.")
    webhook: AlertUrl = ""
    webhook_shape: AlertShape = WebhookShape.AUTO

    @model_validator(mode="before")
    @classmethod
    def _upon_its_preset(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("preset") in PRESETS:
            return beneath(PRESETS[given["preset"]], given)
        return given

    @field_validator("headers")
    @classmethod
    def _may_be_sent(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if why := header_trouble(name, text):
                raise ValueError(f"headers that may be sent to every host: {name[:40]!r} {why}")
        return value

    @field_validator("preset")
    @classmethod
    def _is_known(cls, value: str | None) -> str | None:
        if value is not None and value not in PRESETS:
            raise ValueError(f"one of {', '.join(PRESETS)}")
        return value


def keys_of(config: WebConfig) -> UrlKeys:
    """How dedup keys are made."""
    rewrites = [Rewrite(rule.pattern, rule.replacement) for rule in config.urls.rewrites]
    return UrlKeys(config.urls.tracking, rewrites, config.urls.max_length)


def links_of(config: WebConfig) -> LinkChoice:
    """Which links of a page count."""
    from trawlnet.webpage.html import LinkChoice

    return LinkChoice(
        tags=config.links.tags,
        rels=config.links.rels,
        most=config.links.max_per_page,
        most_url=config.urls.max_length,
        words=config.trajectory.enabled,
        around=config.trajectory.context,
        agent=product_token(config.robots.user_agent),
    )
