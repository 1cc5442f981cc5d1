"""Registers a PDS for a caller: checks its URL, checks that it is one, and answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

from trawlnet.crawlers.atproto.identities import Identities
from trawlnet.crawlers.atproto.identity import Identity
from trawlnet.crawlers.pds.site.buckets import Buckets
from trawlnet.crawlers.pds.site.examine import HostFinding
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.ports import Clock
from trawlnet.tables.errors import TablesError
from trawlnet.tables.registry.browse import BrowsePage, BrowseQuery
from trawlnet.tables.registry.entry import BANNED, USERINFO
from trawlnet.tables.registry.rules import EntryVerdict, PdsRow, PdsSource, PdsStatus, Registered
from trawlnet.tables.registry.stats import Stats
from trawlnet.webpage.domain import registrable_domain
from trawlnet.webpage.origin import OriginRefusal, canonical_origin, names_user

T = TypeVar("T")
Answering: TypeAlias = Coroutine[Any, Any, T]


class Books(Protocol):
    """The registry. Every method raises TablesError if it does not answer."""

    def get(self, url: str) -> Answering[PdsRow | None]: ...

    def register(self, url: str, source: PdsSource, *, now: float) -> Answering[Registered]: ...

    def listing(
        self,
        *,
        status: PdsStatus | None = None,
        source: PdsSource | None = None,
        contains: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Answering[Sequence[PdsRow]]:
        """In the order of URLs, beyond the URL `after`."""

    def browse(self, wish: BrowseQuery) -> Answering[BrowsePage]: ...

    def largest(self, limit: int = 10) -> Answering[Sequence[PdsRow]]: ...

    def stats(self, now: float) -> Answering[Stats]: ...


# Scans an account of a PDS until an instant; returns the number of indexed records.
ScanAccount = Callable[[str, str, float], Awaitable[int]]


log = logging.getLogger(__name__)


class RegisterState(StrEnum):
    """The states in the lexicon."""

    PENDING = "pending"
    ALREADY_EXISTS = "already_exists"
    SCANNED = "scanned"


class Fault(StrEnum):
    """The error names of the endpoint."""

    INVALID = "InvalidRequest"
    TOO_MANY = "RateLimitExceeded"
    UNAVAILABLE = "ServiceUnavailable"


@dataclass(frozen=True, slots=True)
class Accepted:
    pds_url: str
    state: RegisterState
    message: str


@dataclass(frozen=True, slots=True)
class Declined:
    fault: Fault
    message: str
    wait: float = 0.0  # Seconds to wait before the next try.


@dataclass(frozen=True, slots=True)
class _Scanned:
    """The result of scanning the caller's own account."""

    indexed: int = 0  # Records.
    note: str = ""  # A sentence for the caller, if any.


_NOTHING = _Scanned()


@dataclass(frozen=True, slots=True)
class Registrar:
    """The parts of a registration."""

    books: Books
    examine: Callable[[str], Awaitable[HostFinding]]
    scan: ScanAccount
    identities: Identities
    domains: Buckets  # Rate limit of hosts of one domain.
    clock: Clock
    allow_private: bool = False
    patience: float = 20.0  # Seconds for the host, and again for the scan of the caller.


async def register(service: Registrar, text: str, caller: Identity | None) -> Accepted | Declined:
    """Enter a PDS into the registry, and scan the account of an authenticated caller at once."""
    origin = canonical_origin(text, allow_private=service.allow_private)
    if not origin.url:
        return Declined(Fault.INVALID, _REFUSALS.get(origin.refused, _NOT_A_URL))
    if names_user(text):
        return Declined(Fault.INVALID, _REFUSALS[USERINFO])
    if not origin.url.startswith("https:") and not service.allow_private:
        return Declined(Fault.INVALID, "The URL of a PDS begins with https://")
    try:
        return await _enter(service, origin.url, caller)
    except TablesError as trouble:
        log.warning("registry unreachable", extra={"error": str(trouble)})
        return Declined(Fault.UNAVAILABLE, "The registry cannot be reached now.", wait=_LATER)


async def _enter(service: Registrar, url: str, caller: Identity | None) -> Accepted | Declined:
    row = await service.books.get(url)
    if row is None or row.status in _DORMANT:
        # An active PDS is known already, and needs no request.
        declined = await _vouch(service, url)
        if declined is not None:
            return declined if row is None else _known(row)
        done = await service.books.register(url, PdsSource.USER, now=service.clock.now())
        if done.verdict is EntryVerdict.REFUSED:
            return _refused(done.reason)
    scanned = await _scan(service, url, caller)
    return _welcome(url, scanned) if row is None else _known(row, scanned)


async def _vouch(service: Registrar, url: str) -> Declined | None:
    """Check the host; None if it is a PDS that answers now."""
    wait = service.domains.take(domain_of(url), service.clock.now())
    if wait > 0.0:
        return Declined(Fault.TOO_MANY, "Too many hosts of this domain; try again later.", wait)
    try:
        async with asyncio.timeout(service.patience):
            finding = await service.examine(url)
    except TimeoutError:
        finding = HostFinding.SILENT
    except LaneParked as parked:
        left = max(1.0, parked.until - service.clock.now())
        return Declined(Fault.UNAVAILABLE, _FINDINGS[HostFinding.BUSY], min(left, _LATER))
    if finding is HostFinding.PDS:
        return None
    log.info("registration declined", extra={"url": url, "finding": finding})
    if finding is HostFinding.BUSY:
        return Declined(Fault.UNAVAILABLE, _FINDINGS[finding], _LATER)
    return Declined(Fault.INVALID, _FINDINGS[finding])


async def _scan(service: Registrar, url: str, caller: Identity | None) -> _Scanned:
    if caller is None:
        return _NOTHING
    try:
        if not await _lives_at(service, caller, url):
            return _Scanned(note=" Your account lives on another PDS, so it was not scanned.")
        deadline = service.clock.now() + service.patience
        return _Scanned(await service.scan(url, caller.did, deadline))
    except (TimeoutError, LaneParked, TablesError) as trouble:
        # The PDS is registered by now, and will be scanned later.
        log.warning("caller not scanned", extra={"url": url, "error": str(trouble)})
        return _Scanned(note=" Your account will be scanned with the rest of it.")


async def _lives_at(service: Registrar, caller: Identity, url: str) -> bool:
    if caller.pds == url:
        return True
    # The cache may have the old address of an account that has just moved.
    async with asyncio.timeout(service.patience):
        moved = await service.identities.ask(caller.did, afresh=True)
    return isinstance(moved, Identity) and moved.pds == url


def _welcome(url: str, scanned: _Scanned) -> Accepted:
    if scanned.indexed:
        message = f"PDS registered and {scanned.indexed} record(s) indexed from your account."
        return Accepted(url, RegisterState.SCANNED, message)
    message = f"PDS registered. It is waiting for its scan.{scanned.note}"
    return Accepted(url, RegisterState.PENDING, message)


def _known(row: PdsRow, scanned: _Scanned = _NOTHING) -> Accepted:
    if scanned.indexed:
        message = f"{scanned.indexed} record(s) indexed from your account."
        return Accepted(row.pds_url, RegisterState.SCANNED, message)
    message = f"PDS is registered already, with status {row.status}.{scanned.note}"
    return Accepted(row.pds_url, RegisterState.ALREADY_EXISTS, message)


def _refused(reason: str) -> Declined:
    if reason == "domain_budget":
        return Declined(Fault.TOO_MANY, "Too many hosts of this domain wait already.", _LATER)
    return Declined(Fault.INVALID, _REFUSALS.get(reason, _NOT_A_URL))


def domain_of(url: str) -> str:
    """The registrable domain of a host."""
    host = urlsplit(url).hostname or ""
    return registrable_domain(host) or host


_DORMANT = (PdsStatus.UNREACHABLE, PdsStatus.NO_CHIVE_RECORDS)
_LATER = 60.0  # Seconds.
_NOT_A_URL = "That is not the URL of a server, such as https://pds.example.com"
_REFUSALS: Mapping[str, str] = {
    "port": "A PDS must be at port 443.",
    USERINFO: "The URL of a PDS has no user name: remove what is before the @.",
    BANNED: "That host is banned from this registry.",
    OriginRefusal.TOO_LONG: "That URL is too long.",
    OriginRefusal.SCHEME: "The URL of a PDS begins with https://",
    OriginRefusal.HOST: "That is not a valid host name.",
    OriginRefusal.ADDRESS: "A PDS has a name; a bare IP address is not accepted.",
    OriginRefusal.PRIVATE: "That name is valid only inside one network.",
    OriginRefusal.EXAMPLE: "That name is reserved for examples.",
    OriginRefusal.TUNNEL: (
        "Tunnels to a machine at home come and go; give the PDS a name of its own."
    ),
}
_FINDINGS = {
    HostFinding.FORBIDDEN: "The PDS is at an address that this registry does not connect to.",
    HostFinding.SILENT: "Could not connect to the PDS.",
    HostFinding.UNWELL: "The PDS does not answer describeServer as it should.",
    HostFinding.STRANGER: "There is a server, but it does not describe itself as a PDS.",
    HostFinding.RELAY: "That is a relay, not a PDS.",
    HostFinding.BUSY: "The PDS asked for a later retry.",
}
