"""Who may enter the registry, judged by how the URL is written."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from urllib.parse import urlsplit

from trawlnet.tables.registry.rules import EntryVerdict, FoundPds, PdsSource, Registered
from trawlnet.webpage.origin import canonical_origin, names_user

USERINFO = "userinfo"  # Reasons for a refusal, beside those of an origin.
BANNED = "banned"
OVER_BUDGET = "domain_budget"


@dataclass(frozen=True, slots=True)
class Terms:
    """Who may enter."""

    allow_private: bool = False  # Loopback and private addresses, any port, plain http.
    # Hosts of one registrable domain that have never been scanned to the end. Anybody can make a
    # million names below a domain; a PDS that answers makes room for the next.
    domain_budget: int = 100


def admitted(found: FoundPds, terms: Terms) -> Registered:
    """`known`, for the time being, with its one spelling; or refused for how it is written."""
    origin = canonical_origin(found.url, allow_private=terms.allow_private)
    if origin.url and found.source is PdsSource.USER and names_user(found.url):
        # The text before the @ may look like the host to a user, and is not.
        return Registered(EntryVerdict.REFUSED, "", USERINFO)
    if not origin.url:
        return Registered(EntryVerdict.REFUSED, "", str(origin.refused))
    parts = urlsplit(origin.url)
    if not terms.allow_private and (parts.scheme != "https" or parts.port is not None):
        # Accounts there would be out of reach of everybody who keeps to the protocol.
        return Registered(
            EntryVerdict.REFUSED, origin.url, "scheme" if parts.port is None else "port"
        )
    return Registered(EntryVerdict.KNOWN, origin.url)


def banned_by(url: str, names: Container[str]) -> str:
    """Which ban holds for a PDS: that of its host, or of a domain above it; empty if none does."""
    labels = (urlsplit(url).hostname or "").split(".")
    above = (".".join(labels[start:]) for start in range(len(labels)))
    return next((name for name in above if name in names), "")


_MOST_ACCOUNTS = 2**31 - 1  # What the column holds; a relay can say anything.


def countable(accounts: int | None) -> int | None:
    return None if accounts is None else min(max(accounts, 0), _MOST_ACCOUNTS)
