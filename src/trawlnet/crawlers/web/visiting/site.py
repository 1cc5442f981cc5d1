"""The parts for fetching and reading pages that crawl and scrape share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from trawlnet.captures.page import KnownPage
from trawlnet.captures.page_index import PageIndex
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.metered import MeteredHttp
from trawlnet.crawlers.web.admission.budget import Budget
from trawlnet.crawlers.web.admission.caps import Caps, PageCaps
from trawlnet.crawlers.web.admission.left_out import LeftOut
from trawlnet.crawlers.web.admission.policy import Policy
from trawlnet.crawlers.web.admission.robots import RobotsCache
from trawlnet.crawlers.web.admission.robots_file import RobotsFile
from trawlnet.crawlers.web.config import WebConfig, keys_of
from trawlnet.crawlers.web.plan import manners_of, reading_of, request_limits, retry_of
from trawlnet.crawlers.web.visiting.handler import WebHandler
from trawlnet.crawlers.web.visiting.health import HostHealth
from trawlnet.crawlers.web.visiting.known import KnownPages, assume_held, stored_bodies
from trawlnet.crawlers.web.visiting.linking import Linker
from trawlnet.crawlers.web.visiting.local_turns import LocalTurns
from trawlnet.crawlers.web.visiting.shared_turns import turns_of
from trawlnet.crawlers.web.visiting.sitemaps import SitemapReader
from trawlnet.crawlers.web.work import may_be_conditional
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task
from trawlnet.net.address import AddressTurns
from trawlnet.net.client.dial import GuardedResolver, Pools
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http, Turns
from trawlnet.net.redact import redact
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.traces.wrappers import traced_turns
from trawlnet.webpage.robots import product_token
from trawlnet.webpage.robots_answer import RobotsPolicy
from trawlnet.webpage.url import split

_STATE = Path("state", "web")
_ROBOTS = "robots.jsonl"
_SCRAPERS_ROBOTS = "robots-scrape.jsonl"

Wrap = Callable[[AddressTurns], Turns]  # Of turns that take a host's address into account.


@dataclass(frozen=True, slots=True)
class RobotsPlaces:
    """Files of robots.txt answers: our own, and one of the other role to read."""

    mine: Path
    other: Path | None = None


@dataclass(frozen=True, slots=True)
class Deployment:
    """The parts that differ between a single process and a fleet."""

    gate: Gate
    pages: KnownPages
    caps: PageCaps
    budget: Budget
    robots: RobotsPlaces
    turns: Wrap
    holds_body: Callable[[KnownPage], Awaitable[bool]] = assume_held
    left_out: LeftOut = field(default_factory=LeftOut)


def single_process(
    config: WebConfig,
    workspace: Path,
    clock: Clock,
    metrics: CrawlMetrics,
    policy: Policy,
    pages: PageIndex,
    local: LocalTurns,
) -> Deployment:
    """One process, or a crawl and a scrape, which share turns at every host."""
    gate = Gate(clock, manners_of(config))
    robots = [workspace / _STATE / name for name in (_ROBOTS, _SCRAPERS_ROBOTS)]
    return Deployment(
        gate,
        pages,
        Caps(policy.cap_keys, lambda scope: pages.count_in(scope.digest)),
        Budget(config.caps.max_pages, config.caps.max_bytes, lambda: metrics.http.wire),
        RobotsPlaces(*(robots if local.first else reversed(robots))),
        lambda turns: turns_of(config, turns, gate, local, clock),
        stored_bodies(workspace),
        LeftOut(workspace),
    )


@dataclass(frozen=True, slots=True)
class PageSite:
    config: WebConfig
    clock: Clock
    gate: Gate
    http: MeteredHttp
    robots: RobotsCache
    linker: Linker
    caps: PageCaps
    budget: Budget
    pages: KnownPages
    agent: str
    proxies: Proxies
    holds_body: Callable[[KnownPage], Awaitable[bool]]

    def handler(self, *, follow: bool) -> WebHandler:
        config = self.config
        rules = reading_of(config, self.agent, scheduled=follow)
        return WebHandler(
            self.http,
            self.clock,
            self.robots,
            self.linker,
            self.caps,
            self.budget,
            self.pages,
            SitemapReader(
                self.http,
                self.linker,
                self.pages,
                rules.revisit,
                request_limits(config),
                config.sitemaps.max_files,
                config.sitemaps.max_urls,
            ),
            rules,
            request_limits(config),
            retry_of(config),
            self.agent,
            follow=follow,
            sitemaps_wanted=follow and config.sitemaps.enabled,
            obey=config.robots.obey,
            most_redirects=config.limits.max_redirects,
            proxy_of=self.proxies.name_for,
            conditional=may_be_conditional if follow else _always,
            holds_body=self.holds_body,
            headers=config.headers,
            health=HostHealth(self.http, self.gate, request_limits(config)),
        )


async def open_site(
    stack: AsyncExitStack,
    config: WebConfig,
    clock: Clock,
    metrics: CrawlMetrics,
    policy: Policy,
    standing: Deployment,
) -> PageSite:
    agent, gate = agent_of(config), standing.gate
    proxies = Proxies(config.proxies.default, config.proxies.hosts)
    guard = Guard(allow_private=config.allow_private_hosts)
    pools = Pools()
    resolver = GuardedResolver(guard, pools, config.limits.connect_timeout)
    stack.push_async_callback(resolver.close)
    turns = standing.turns(AddressTurns(gate, clock, resolver, proxies.url_for))
    http = await stack.enter_async_context(
        Http(
            traced_turns(turns, metrics.ways),
            clock,
            agent,
            guard=guard,
            limits=request_limits(config),
            pools=pools,
            proxy_for=proxies.url_for,
        )
    )
    metered = MeteredHttp(http, metrics.http)
    file = RobotsFile(standing.robots.mine, standing.robots.other)
    stack.callback(file.close)
    robots = RobotsCache(
        metered,
        gate,
        clock,
        _robots_policy(config, agent),
        manners_of(config),
        file,
        retry_of(config),
        config.limits.request_timeout,
    )
    caps, known = standing.caps, robots.known if config.robots.obey else _unknown
    linker = Linker(keys_of(config), policy, caps, known, standing.left_out)
    return PageSite(
        config,
        clock,
        gate,
        metered,
        robots,
        linker,
        caps,
        standing.budget,
        standing.pages,
        agent,
        proxies,
        standing.holds_body,
    )


def _always(task: Task, seen_at: float) -> bool:
    """A scrape follows no links, so its requests may always be conditional."""
    return True


def _unknown(origin: str) -> None:
    return None


def _robots_policy(config: WebConfig, agent: str) -> RobotsPolicy:
    robots = config.robots
    return RobotsPolicy(
        product_token(agent),
        ttl=robots.cache_ttl_sec,
        failure_ttl=robots.failure_ttl_sec,
        delay_cap=robots.max_crawl_delay_sec,
    )


_NOBODY = "trawlnet/0.1 (+http://private.invalid/)"  # A private network needs no contact.


def agent_of(config: WebConfig) -> str:
    agent = config.robots.user_agent or (_NOBODY if config.allow_private_hosts else "")
    if not agent:
        raise NotReady(
            "no user agent is set, and sites must be able to reach you",
            "set robots.user_agent in trawlnet.yaml, or --user-agent, "
            "to something like 'Bot/1.0 (+https://example.org/bot)'",
        )
    return agent


_DEFAULT_PORT = 80


class Proxies:
    def __init__(self, default: str | None, hosts: Mapping[str, str]) -> None:
        self._default = _checked(default) if default else ""
        self._hosts = {host.lower(): _checked(proxy) for host, proxy in hosts.items()}

    def url_for(self, host: str) -> str | None:
        return self._hosts.get(host, self._default) or None

    def name_for(self, url: str) -> str:
        """The name of the proxy in the pages CSV, without secrets."""
        if not self._hosts and not self._default:
            return ""
        proxy = self.url_for(split(url).host)
        return proxy.rpartition("@")[2].removeprefix("http://") if proxy else ""


def _checked(proxy: str) -> str:
    host, port = _place(proxy)
    if not proxy.startswith("http://") or not host or port < 0:
        raise NotReady(
            f"proxy {redact(proxy)!r} is refused", "write it like http://proxy.example:3128"
        )
    return proxy.rstrip("/")


def _place(proxy: str) -> tuple[str, int]:
    authority = proxy.partition("://")[2].partition("/")[0].rpartition("@")[2]
    host, _, port = authority.partition(":")
    return host, int(port) if port.isdigit() else (-1 if port else _DEFAULT_PORT)
