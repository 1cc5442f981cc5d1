"""PDSes that a relay lists: reads all pages of listHosts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from trawlnet.crawlers.atproto.answers import error_outcome
from trawlnet.crawlers.atproto.pages import (
    PAGE_BYTES,
    Rows,
    Trail,
    host_url,
    page_after,
    parse_page,
)
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.pds.discovery.asking import patiently
from trawlnet.crawlers.pds.discovery.finding import DiscoveryCounts, Finder
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.net.client.answer import RequestLimits, outcome_of
from trawlnet.net.trouble import Trouble
from trawlnet.tables.registry.rules import FoundPds, PdsSource
from trawlnet.webpage.origin import canonical_origin

_LIMITS = RequestLimits(total=30.0, wire=PAGE_BYTES, inflated=PAGE_BYTES)
_MOST_HOSTS = 200_000  # Hosts of one relay; the network has some 16,000.
_SCHEMES = {"wss": "https", "ws": "http"}


def relay_url(text: str, *, allow_private: bool) -> str:
    """The https origin of a relay. Raises NotReady."""
    scheme, colon, rest = text.partition("://")
    asked = f"{_SCHEMES.get(scheme.lower(), scheme)}{colon}{rest}"
    origin = canonical_origin(asked, allow_private=allow_private)
    if not origin.url:
        raise NotReady(
            f"{text!r} is not the URL of a relay: {origin.refused}",
            "write it like --relay wss://relay.example",
        )
    return origin.url


async def from_relay(finder: Finder, relay: str, tally: DiscoveryCounts) -> None:
    """`relay` is an origin. If the listing ends early, the counts have an error."""
    trail, named = Trail(), 0
    while True:
        page = await patiently(partial(_ask, finder, relay, trail), relay, finder.clock)
        if isinstance(page, Outcome):
            tally.left(f"{relay}: {page.reason}: {page.detail}")
            return
        await finder.tell(tally, _founds(page.rows, tally, allow_private=finder.allow_private))
        named += len(page.rows)
        after = page_after(trail, page) if page.cursor else None
        if named > _MOST_HOSTS:
            after = f"it names more than {_MOST_HOSTS} hosts"
        if not isinstance(after, Trail):
            if after:
                tally.left(f"{relay}: {after}")
            else:
                tally.read += 1
            return
        trail = after


async def _ask(finder: Finder, relay: str, trail: Trail) -> Rows | Outcome:
    after = f"&cursor={quote(trail.cursor, safe='')}" if trail.cursor else ""
    url = f"{relay}/xrpc/com.atproto.sync.listHosts?limit=1000{after}"
    answer = await finder.http.get(url, limits=_LIMITS)
    if isinstance(answer, Trouble):
        return outcome_of(answer)
    if answer.reason is not Reason.OK:
        return error_outcome(answer)
    page = parse_page(answer.body, "hosts")
    return page or Outcome(Reason.PARSE_ERROR, detail="not a page of hosts")


def _founds(rows: Sequence[Any], tally: DiscoveryCounts, *, allow_private: bool) -> list[FoundPds]:
    founds = []
    for row in rows:
        name = row.get("hostname") if isinstance(row, dict) else None
        if not isinstance(name, str):
            tally.refused["host"] += 1
            continue
        url = host_url(name, allow_private=allow_private)
        if url is None:
            tally.refuse(name[:300], "host")
        elif row.get("status") == "banned":
            # The relay's operators banned it.
            tally.refuse(name, "banned")
        else:
            founds.append(_found(url, row))
    return founds


def _found(url: str, row: dict[str, Any]) -> FoundPds:
    accounts, status = row.get("accountCount"), row.get("status")
    return FoundPds(
        url,
        PdsSource.RELAY,
        accounts=accounts if type(accounts) is int else None,
        connected=status == "active" if isinstance(status, str) else None,
        # A relay lists hosts for years after they have gone; only an active one is revived.
        is_news=status == "active",
    )
