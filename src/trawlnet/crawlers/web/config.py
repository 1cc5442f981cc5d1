"""The config of the web crawler: the section `web:` of trawlnet.yaml."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from trawlnet.crawlers.common_keys import (
    AlertOptions,
    AllowPrivate,
    ConnectTimeout,
    FleetOptions,
    RequestTimeout,
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
from trawlnet.crawlers.web.scope import (
    CapsSection,
    PageType,
    RobotsSection,
    ScopeSection,
    Traps,
    Urls,
)
from trawlnet.crawlers.web.section import Section, section
from trawlnet.loading import load
from trawlnet.webpage.robots import product_token
from trawlnet.webpage.url import Rewrite, UrlKeys

if TYPE_CHECKING:  # Only a crawl that runs pays for the import.
    from trawlnet.webpage.html import LinkChoice


class LimitsSection(Section):
    global_concurrency: int = Field(
        2, ge=1, le=10_000, description="Concurrent requests, all hosts together."
    )
    per_host_concurrency: int = Field(
        2, ge=1, le=100, description="Concurrent requests to one host, where req_per_sec is 0."
    )
    req_per_sec: float = Field(
        1.0,
        ge=0,
        le=10_000,
        description="Requests per second to one host; the gap is counted from the end of an "
        "answer. 0 means no gap.",
    )
    per_address: bool = Field(
        True, description="Hosts at one IP address share the rate limit of one host."
    )
    max_retries: int = Field(3, ge=0, le=100, description="Retries after the first attempt.")
    backoff_base_ms: float = Field(
        500.0,
        gt=0,
        description="Wait before the first retry, in milliseconds; it doubles with each "
        "further retry.",
    )
    backoff_cap_ms: float = Field(
        8000.0, gt=0, description="Longest wait before a retry, in milliseconds."
    )
    block_after: int = Field(
        10,
        ge=1,
        le=10_000,
        description="Suspend a host after this many consecutive failures, if no page of it can "
        "be fetched.",
    )
    block_probes: int = Field(
        3,
        ge=0,
        le=100,
        description="Probe a suspended host this many times before it is blocked for this run.",
    )
    probe_wait: Seconds = Field(
        30.0,
        gt=0,
        description="Wait before the first probe, in seconds; it doubles with each further probe.",
    )
    connect_timeout: ConnectTimeout = 10.0
    request_timeout: RequestTimeout = 60.0
    max_body: Size = Field(
        10 << 20, ge=1, description="Refuse bodies larger than this, on the wire or decompressed."
    )
    max_redirects: int = Field(
        5, ge=0, le=20, description="Follow at most this many redirects in a row."
    )


class Links(Section):
    tags: tuple[Literal["a", "area", "link", "iframe", "refresh"], ...] = Field(
        ("a", "area", "link", "iframe", "refresh"), description="Elements to read links from."
    )
    rels: tuple[str, ...] = Field(
        ("next", "canonical", "alternate"),
        description="Follow <link> elements and Link headers with one of these rel values.",
    )
    max_per_page: int = Field(20_000, ge=1, description="Most links read from one page.")


class Sitemaps(Section):
    enabled: bool = Field(True, description="Read the sitemaps that robots.txt names.")
    urls: tuple[str, ...] = Field((), description="Sitemaps to read in addition.")
    max_files: int = Field(100, ge=0, description="Most sitemap files read per host.")
    max_urls: int = Field(50_000, ge=0, description="Most URLs read from one sitemap file.")


class Revisit(Section):
    enabled: bool = Field(
        False, description="Visit pages again, the sooner the more often they change."
    )
    first_interval: Seconds = Field(
        86_400.0,
        gt=0,
        description="Wait before the second visit, from min_interval to max_interval.",
    )
    min_interval: Seconds = Field(
        3600.0, gt=0, description="Shortest wait between two visits, for pages that keep changing."
    )
    max_interval: Seconds = Field(
        30 * 86_400.0,
        gt=0,
        description="Longest wait between two visits, for pages that never change.",
    )

    @model_validator(mode="after")
    def _is_in_order(self) -> Revisit:
        if self.min_interval > self.max_interval:
            raise ValueError("min_interval no longer than max_interval")
        said = "first_interval" in self.model_fields_set
        if said and not self.min_interval <= self.first_interval <= self.max_interval:
            raise ValueError("first_interval between min_interval and max_interval")
        return self


class FrontierSection(Section):
    db_name: str = Field(
        "frontier.lmdb", description="Folder of the task store, inside the state folder."
    )
    bloom_name: str = Field(
        "seen.bloom", description="Accepted for compatibility: the store needs no Bloom filter."
    )
    default_priority: int = Field(
        0, ge=0, le=99, description="Priority of a page whose type sets none."
    )


class ProxiesSection(Section):
    default: str | None = Field(None, description="Proxy for every host, as http://host:port.")
    hosts: dict[str, str] = Field(default_factory=dict, description="Proxies for single hosts.")


class WebOptions(Section):
    """The keys that only this crawler has."""

    preset: str | None = Field(None, description="Built-in settings for one site: github.")
    seeds: tuple[str, ...] = Field((), description="URLs to start from, in addition to seeds.txt.")
    headers: dict[str, str] = Field(
        {"Accept-Language": "en, *;q=0.5"},
        description="Headers to send with every request for a page, besides those that the "
        "crawler sets.",
    )
    robots: RobotsSection = section(RobotsSection)
    scope: ScopeSection = section(ScopeSection)
    limits: LimitsSection = section(LimitsSection)
    caps: CapsSection = section(CapsSection)
    page_types: tuple[PageType, ...] = Field(
        (),
        description="Page types: name, pattern, priority; the first pattern that matches counts.",
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


class WebConfig(AlertOptions, FleetOptions, WebOptions):
    """Field names are the YAML keys. The user's values override those of a preset."""

    allow_private_hosts: AllowPrivate = False
    metrics_address: str = Field("", description="Serve Prometheus metrics on HOST:PORT.")

    @model_validator(mode="before")
    @classmethod
    def _upon_its_preset(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("preset") in PRESETS:
            return beneath(PRESETS[values["preset"]], values)
        return values


def keys_of(config: WebConfig) -> UrlKeys:
    """The rules for dedup keys."""
    rewrites = [Rewrite(rule.pattern, rule.replacement) for rule in config.urls.rewrites]
    return UrlKeys(config.urls.tracking, rewrites, config.urls.max_length)


def links_of(config: WebConfig) -> LinkChoice:
    """The links of a page that count."""
    choice: type[LinkChoice] = load("trawlnet.webpage.html:LinkChoice")
    return choice(
        tags=config.links.tags,
        rels=config.links.rels,
        most=config.links.max_per_page,
        most_url=config.urls.max_length,
        words=config.trajectory.enabled,
        around=config.trajectory.context,
        agent=product_token(config.robots.user_agent),
    )


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]{0,998}[\x21-\x7e])?|")
# Headers that the crawler sets itself, or secrets, which would be sent to every linked host.
_OUR_HEADERS = frozenset(
    (
        *("accept", "accept-encoding", "connection", "content-length", "expect", "host"),
        *("if-modified-since", "if-none-match", "keep-alive", "range", "te", "trailer"),
        *("transfer-encoding", "upgrade", "authorization", "cookie", "proxy-authorization"),
    )
)


def header_trouble(name: str, text: str) -> str:
    """Why a header may not be set; empty if it may."""
    if not _HEADER_NAME.fullmatch(name):
        return "is not the name of a header"
    if name.lower() == "user-agent":
        return "is the key robots.user_agent"
    if name.lower() in _OUR_HEADERS:
        return "is not for the config to set"
    return "" if _HEADER_VALUE.fullmatch(text) else "needs a value of printable ASCII"
