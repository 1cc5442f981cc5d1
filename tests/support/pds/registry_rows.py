"""A registry with a past: some hundred PDSes, found and scanned over two days."""

from __future__ import annotations

import random

from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.rules import FoundPds, PdsSource, ScanEnded

HOUR = 3600.0
_NAMES = ("anemone", "brine", "coral", "dory", "eider", "fathom", "gannet", "harbour", "inlet")
_ENDINGS = ("pds.social", "atproto.garden", "host.zone", "blue.coop", "self.dev")
_TROUBLES = (
    (Reason.CONNECTION_ERROR, "connection refused"),
    (Reason.TIMEOUT, "no end within 20 s"),
    (Reason.DNS_ERROR, "the name does not resolve"),
    (Reason.UNAVAILABLE, "HTTP 502"),
    (Reason.PARSE_ERROR, "<script>alert('listRepos is no JSON')</script>"),
)


async def fill_registry(registry: Registry, now: float, count: int = 180) -> None:
    rng = random.Random(7)
    founds = [
        FoundPds(
            f"https://{_NAMES[n % 9]}-{n:03}.{_ENDINGS[n % 5]}",
            rng.choices(tuple(PdsSource), (60, 25, 5, 10, 0))[0],
            accounts=int(rng.paretovariate(0.6)) % 400_000,
        )
        for n in range(count)
    ]
    await registry.register_many(founds, now - 50 * HOUR)
    for hour in range(46, 0, -1):
        rows = await registry.claim(rng.randrange(5, 13), now - hour * HOUR, 60.0, f"crawl {hour}")
        for row in rows:
            await _end_scan(registry, row.pds_url, f"crawl {hour}", now - hour * HOUR + 30.0)


async def _end_scan(registry: Registry, url: str, owner: str, now: float) -> None:
    # By its name, so that who fails goes on failing until it is given up on.
    rng = random.Random(url)
    fate = rng.random()
    if fate < 0.1:
        reason, words = rng.choice(_TROUBLES)
        await registry.failed(url, owner, words, reason, now)
    elif fate < 0.13:
        await registry.put_off(url, owner, Reason.RATE_LIMITED, now=now, again_in=9 * HOUR)
    else:
        found = int(rng.paretovariate(0.7)) if fate < 0.55 else 0
        await registry.completed(url, owner, ScanEnded(found, found), now=now)
