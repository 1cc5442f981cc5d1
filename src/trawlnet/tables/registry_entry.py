"""Who may enter the registry, judged by how the URL is written."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from trawlnet.formats.origin import canonical_origin
from trawlnet.tables.registry_rules import Found, Registered, Verdict


@dataclass(frozen=True, slots=True)
class Terms:
    """Who may enter."""

    allow_private: bool = False  # Loopback and private addresses, any port, plain http.
    # Hosts of one registrable domain that have never been scanned to the end. Anybody can make a
    # million names below a domain; whoever answers makes room for the next.
    domain_budget: int = 100


def admitted(found: Found, terms: Terms) -> Registered:
    """`known`, for the time being, with its one spelling; or refused for how it is written."""
    origin = canonical_origin(found.url, allow_private=terms.allow_private)
    if not origin.url:
        return Registered(Verdict.REFUSED, "", str(origin.refused))
    parts = urlsplit(origin.url)
    if not terms.allow_private and (parts.scheme != "https" or parts.port is not None):
        # Accounts there would be out of reach of everybody who keeps to the protocol.
        return Registered(Verdict.REFUSED, origin.url, "scheme" if parts.port is None else "port")
    return Registered(Verdict.KNOWN, origin.url)


_MOST_ACCOUNTS = 2**31 - 1  # What the column holds; a relay can say anything.


def countable(accounts: int | None) -> int | None:
    return None if accounts is None else min(max(accounts, 0), _MOST_ACCOUNTS)
