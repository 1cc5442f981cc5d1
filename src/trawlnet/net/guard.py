"""The guard: decides which URLs and addresses may be requested, by explicit lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

from yarl import URL

from trawlnet.net.lane import lane_of_parsed


class AddressRefused(OSError):
    """The guard refuses an address or URL. An OSError, because dialling code passes those on."""


class PrivateRefused(AddressRefused):
    """A guard with `allow_private` would allow it."""


class UrlOrigin(NamedTuple):
    """The server of a URL."""

    scheme: str
    host: str  # Without the brackets of an IPv6 address.
    port: int
    authority: str  # As the Host header says it.
    lane: str


class Destination(NamedTuple):
    """A URL that may be requested, as it will be sent."""

    url: str
    origin: UrlOrigin
    target: str  # Path and query.


# Compared by identity: verdicts are cached per policy, and comparing values would take longer.
@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """The policy. The default reaches the public internet and nothing else."""

    allow_private: bool = False  # Loopback and private networks, any port, plain http.
    ports: frozenset[int] = frozenset({80, 443})
    schemes: frozenset[str] = frozenset({"http", "https"})
    # (address, port) pairs that are allowed despite all lists: one service on a private network.
    exempt: frozenset[tuple[str, int]] = frozenset()
    longest_url: int = 8192  # Characters.

    def destination(self, text: str) -> Destination:
        """The URL as it will be sent: its path and query untouched, its host in one spelling.

        Raises Refused. The result is what gets dialled, so there is no second parser to fool.
        """
        if len(text) > self.longest_url:
            raise AddressRefused(f"URL longer than {self.longest_url} characters")
        # The fast path for most URLs of a crawl: this spelling of the host is in the cache.
        if (plain := _PLAIN.fullmatch(text)) and (origin := _as_spelled(self, plain[1])):
            return Destination(text, origin, plain[2])
        url = _parse(text)
        self._check_host(url)
        return Destination(str(url), _origin_of(url), url.raw_path_qs)

    def check_address(self, address: str, port: int) -> None:
        """Raises Refused unless this resolved address may be connected to."""
        why = self.refusal(address, port)
        if why is not None:
            raise self.refused(f"{address} port {port}: {why}", [address])

    def refusal(self, address: str, port: int) -> str | None:
        """Why this address and port are refused; None if they are allowed."""
        if (address, port) in self.exempt:
            return None
        if not self.allow_private and port not in self.ports:
            return "port not allowed"
        return address_verdict(address, allow_private=self.allow_private)

    def refused(self, text: str, addresses: Iterable[str]) -> AddressRefused:
        """The error for a host none of whose addresses may be connected to."""
        is_open = any(address_verdict(one, allow_private=True) is None for one in addresses)
        return PrivateRefused(text) if is_open else AddressRefused(text)

    def _check_host(self, url: URL) -> None:
        host, port = url.raw_host or "", url.port or 0
        if (host, port) in self.exempt:
            return
        schemes = _WEB if self.allow_private else self.schemes
        if url.scheme not in schemes:
            raise AddressRefused(f"scheme {url.scheme!r} not allowed")
        if port == 0 or not (self.allow_private or port in self.ports):
            kind = PrivateRefused if port else AddressRefused
            raise kind(f"port {port} not allowed")
        if ":" in host or _ends_in_number(host):
            self.check_address(_literal(host), port)


_WEB = frozenset({"http", "https"})
_UNSENDABLE = re.compile(r"[\x00-\x20\x7f-\x9f\ud800-\udfff]")
_LABEL = r"[a-z0-9_-]{1,63}"
_AUTHORITY = re.compile(rf"(?:\[[0-9a-f:.]+\]|{_LABEL}(?:\.{_LABEL})*\.?)(?::[0-9]{{1,5}})?")
# With a path, perhaps a query, and no character that has more than one spelling.
_PLAIN = re.compile(r"(https?://[a-z0-9._:\[\]-]+)(/[!\"$->@-~]*(?:\?[!\"$-~]+)?)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_NAME = 253  # Characters, as in the DNS.
_REMEMBERED = 4096  # Addresses whose verdict is cached.


def _parse(text: str) -> URL:
    if _UNSENDABLE.search(text):
        raise AddressRefused("URL with a space or a control character")
    try:
        url = URL(text)
        exact = URL(text, encoded=True) if text.isascii() else url
    except (ValueError, IndexError) as error:  # The second for brackets where there is no host.
        raise AddressRefused(f"not a URL: {error}") from error
    if url.scheme not in _WEB:
        raise AddressRefused(f"scheme {url.scheme!r} not allowed")
    if "@" in exact.raw_authority or "@" in url.raw_authority:
        raise AddressRefused("URL with a user name or password")
    host = url.raw_host or ""
    if not _AUTHORITY.fullmatch(url.raw_authority) or len(host) > _LONGEST_NAME:
        raise AddressRefused("URL without a proper host")
    if ("[" in exact.raw_authority) != (":" in host):
        raise AddressRefused("URL with brackets around what is no IPv6 address")
    if exact.raw_authority == url.raw_authority:
        return exact
    return URL.build(
        scheme=url.scheme,
        authority=url.raw_authority,
        path=exact.raw_path,
        query_string=exact.raw_query_string,
        encoded=True,
    )


@lru_cache(maxsize=_REMEMBERED)
def _as_spelled(guard: Guard, prefix: str) -> UrlOrigin | None:
    """The server of every URL with this `scheme://authority`, if it is allowed in this spelling."""
    try:
        url = _parse(f"{prefix}/")
        guard._check_host(url)
    except AddressRefused:
        return None
    return _origin_of(url) if str(url) == f"{prefix}/" else None


def _origin_of(url: URL) -> UrlOrigin:
    return UrlOrigin(
        url.scheme,
        url.raw_host or "",
        url.port or 0,
        url.host_port_subcomponent or "",
        lane_of_parsed(url),
    )


def _ends_in_number(host: str) -> bool:
    """Whether resolvers would read the name as an address: 2130706433, 0x7f.1, 127.0.0.1 ..."""
    return _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]) is not None


@lru_cache(maxsize=_REMEMBERED)
def _literal(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        raise AddressRefused(f"{host}: an address in an unusual spelling") from None


@lru_cache(maxsize=_REMEMBERED)
def address_verdict(address: str, *, allow_private: bool = False) -> str | None:
    """Why an address is refused; None if it is allowed."""
    try:
        ip = ip_address(address)
    except ValueError:
        return "not an address"
    if isinstance(ip, IPv4Address):
        return _ipv4_verdict(ip, allow_private)
    return _ipv6_verdict(ip, allow_private)


def _ipv4_verdict(ip: IPv4Address, allow_private: bool) -> str | None:
    for network, kind in _PRIVATE_4:
        if ip in network:
            return None if allow_private else kind
    return next((kind for network, kind in _NEVER_4 if ip in network), None)


def _ipv6_verdict(ip: IPv6Address, allow_private: bool) -> str | None:
    if ip.scope_id is not None:
        return "bound to one network interface"
    if ip.ipv4_mapped is not None:
        return _ipv4_verdict(ip.ipv4_mapped, allow_private)
    for network, kind in _PRIVATE_6:
        if ip in network:
            return None if allow_private else kind
    if ip not in _GLOBAL_6:
        return "outside of the global IPv6 range"
    return next((kind for network, kind in _NEVER_6 if ip in network), None)


# Allowed with allow_private.
_PRIVATE_4 = (
    (IPv4Network("10.0.0.0/8"), "private"),
    (IPv4Network("100.64.0.0/10"), "carrier-grade NAT"),
    (IPv4Network("127.0.0.0/8"), "loopback"),
    (IPv4Network("172.16.0.0/12"), "private"),
    (IPv4Network("192.168.0.0/16"), "private"),
)
# Never allowed: clouds serve their credentials at link-local addresses.
_NEVER_4 = (
    (IPv4Network("0.0.0.0/8"), "this network"),
    (IPv4Network("169.254.0.0/16"), "link-local"),
    (IPv4Network("192.0.0.0/24"), "protocol assignments"),
    (IPv4Network("192.0.2.0/24"), "documentation"),
    (IPv4Network("192.88.99.0/24"), "6to4 relay"),
    (IPv4Network("198.18.0.0/15"), "benchmarking"),
    (IPv4Network("198.51.100.0/24"), "documentation"),
    (IPv4Network("203.0.113.0/24"), "documentation"),
    (IPv4Network("224.0.0.0/4"), "multicast"),
    (IPv4Network("240.0.0.0/4"), "reserved"),
)
_PRIVATE_6 = (
    (IPv6Network("::1/128"), "loopback"),
    (IPv6Network("fc00::/7"), "private"),
)
# Everything else is refused: link-local, multicast, NAT64, IPv4-compatible, unassigned.
_GLOBAL_6 = IPv6Network("2000::/3")
_NEVER_6 = (
    (IPv6Network("2001::/23"), "protocol assignments, Teredo"),
    (IPv6Network("2001:db8::/32"), "documentation"),
    (IPv6Network("2002::/16"), "6to4"),
    (IPv6Network("3fff::/20"), "documentation"),
)
