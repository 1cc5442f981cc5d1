"""Translates the config for the engine: manners, retries, limits, and rules for reading pages."""

from __future__ import annotations

import math
from dataclasses import replace

from trawlnet.crawlers.web.admission.policy import REVISITS_AFTER
from trawlnet.crawlers.web.admission.robots import paced
from trawlnet.crawlers.web.config import WebConfig, links_of
from trawlnet.crawlers.web.revisit import RevisitRule
from trawlnet.crawlers.web.visiting.reading import ReadingRules
from trawlnet.engine import crawl
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.net.client import answer
from trawlnet.webpage.robots import product_token

_MS = 0.001
_BEHIND = 0.5  # Added to a score: after new pages of the same depth and priority.
# Seconds. Pages of polite hosts come one by one; writing them together saves syncs.
_LINGER = 0.05
# Pages written together, and pages that wait meanwhile: all are in memory, with their links.
_BATCH = 96
_BACKLOG = 64


def manners_of(config: WebConfig) -> Manners:
    """The gap to a host counts from the end of its last response, so that requests to it never
    overlap. Only without a gap can several be in flight."""
    limits = config.limits
    plain = Manners(
        rate=math.inf,
        concurrency=limits.per_host_concurrency,
        gap_from_end=True,
        block_at=limits.block_after,
        probes=limits.block_probes,
        first_probe=limits.probe_wait,
    )
    if limits.req_per_sec == 0:
        return plain
    return replace(
        plain,
        rate=paced(1.0 / limits.req_per_sec),
        concurrency=1,
        floor=min(0.1, limits.req_per_sec),
    )


def retry_of(config: WebConfig) -> RetryPolicy:
    limits = config.limits
    return RetryPolicy(
        attempts=limits.max_retries + 1,
        base=limits.backoff_base_ms * _MS,
        cap=limits.backoff_cap_ms * _MS,
        behind=_BEHIND,
        revisits_after=REVISITS_AFTER,
    )


def engine_limits(config: WebConfig) -> crawl.Limits:
    return crawl.Limits(
        batch=_BATCH,
        backlog=_BACKLOG,
        linger=_LINGER,
        retry=retry_of(config),
        most_seconds=config.caps.max_seconds,
    )


def request_limits(config: WebConfig) -> answer.RequestLimits:
    limits = config.limits
    return answer.RequestLimits(
        total=limits.request_timeout,
        connect=limits.connect_timeout,
        wire=limits.max_body,
        inflated=limits.max_body,
        redirects=0,  # A redirect is a new URL, with a visit of its own.
    )


def reading_of(config: WebConfig, agent: str, *, scheduled: bool) -> ReadingRules:
    """`scheduled`: pages may be visited again by themselves."""
    near = config.store.near_duplicates
    return ReadingRules(
        agent=product_token(agent),
        choice=links_of(config),
        store_all_types=config.store.keep_other_types,
        obey_noindex=config.robots.meta,
        obey_nofollow=config.robots.meta and not config.robots.follow_nofollow,
        obey_rel_nofollow=not config.robots.follow_nofollow,
        edges=config.trajectory.enabled,
        near_bits=None if near == "off" else config.store.near_distance,
        skip_near=near == "skip_links",
        headers=config.warc.enabled,
        revisit=_revisit(config) if scheduled and config.revisit.enabled else None,
    )


def _revisit(config: WebConfig) -> RevisitRule:
    shortest, longest = config.revisit.min_interval, config.revisit.max_interval
    first = min(max(config.revisit.first_interval, shortest), longest)
    return RevisitRule(first=first, shortest=shortest, longest=longest)
