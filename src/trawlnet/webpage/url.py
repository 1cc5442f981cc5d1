"""URLs as a browser reads them: what to send, and the key under which it is known.

The request URL is the WHATWG serialisation without its fragment and without a user name and
password, which are nobody's to send who was only shown a link.
The key folds spellings of one page together; it is never sent anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import ada_url

from trawlnet.malformed import Malformed
from trawlnet.webpage.query_encoding import with_query_in

MAX_URL = 2048  # Characters; longer ones are traps or mistakes far more often than pages.

# Parameters that say where a click came from, not which page is wanted; a final * is a prefix.
TRACKING = (
    "utm_*",
    "gclid",
    "gclsrc",
    "gbraid",
    "wbraid",
    "dclid",
    "fbclid",
    "msclkid",
    "yclid",
    "twclid",
    "ttclid",
    "igshid",
    "mc_cid",
    "mc_eid",
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "mkt_tok",
    "oly_anon_id",
    "oly_enc_id",
    "vero_id",
    "wickedid",
    "rb_clickid",
    "s_cid",
)


class Split(NamedTuple):
    """A request URL in the parts that rules look at."""

    scheme: str
    host: str  # Without the port; an IPv6 address keeps its brackets.
    port: str  # Empty for the scheme's own.
    path: str
    query: str  # Without the question mark.
    target: str  # Path and query as sent, which robots rules are matched with.


def request_url(text: str, base: str | None = None, most: int = MAX_URL) -> str:
    """The URL to send for what somebody wrote. Raises Malformed, saying why not."""
    try:
        href = ada_url.join_url(base, text) if base else ada_url.normalize_url(text)
    except ValueError:
        raise Malformed("not a URL") from None
    url = href.partition("#")[0]
    if "@" in url:
        url = _USER.sub(r"\1", url)
    if why := _trouble(url, most):
        raise Malformed(why)
    return url


_USER = re.compile(r"^(https?://)[^/]*@")  # Parsing has escaped any slash and further @ in it.


def _trouble(url: str, most: int) -> str:
    """Why a parsed URL is not one that we ask for; empty if it is."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https"):
        return f"not http: {url.partition(':')[0][:20]}"
    authority = rest.partition("/")[0]
    if not authority.strip("."):
        return "no host"
    if len(url) > most:
        return f"longer than {most} characters"
    return ""


def resolve(
    base: str, hrefs: Iterable[str], most: int = MAX_URL, codec: str = "utf-8"
) -> list[str | None]:
    """The request URL for each href of a page; None for what is no page's URL.

    `base` is a request URL, `codec` the page's own, in which browsers send queries.
    Most hrefs are plain paths, for which joining is adding text: those do not pay for a parser.
    """
    root = base[: base.index("/", 8)]
    plain = base.partition("?")[0]
    folder = plain[: plain.rindex("/") + 1]
    longest = max(len(root), len(folder))
    is_plain = _PLAIN.fullmatch
    found: list[str | None] = []
    for href in hrefs:
        near = href.partition("#")[0]
        if is_plain(near):
            if longest + len(near) > most:
                found.append(_joined(base, href, most, codec))
            else:
                found.append(root + near if near[0] == "/" else folder + near)
        # Taking the origin off must leave a path from the root, or this is some other host.
        elif near.startswith(f"{root}/") and is_plain(near[len(root) :]) and len(near) <= most:
            found.append(near)
        else:
            found.append(_joined(base, href, most, codec))
    return found


def _joined(base: str, href: str, most: int, codec: str) -> str | None:
    try:
        return request_url(with_query_in(codec, href), base, most)
    except Malformed:
        return None


# Paths that parsing leaves as they are: no segment that starts with a dot or a percent sign, no
# colon that could end a scheme, no second slash that could start a host.
_SEGMENT = r"[\w~!$&'()*+,;=@-][\w~!$&'()*+,;=@.%-]*+"
_PLAIN = re.compile(
    rf"(?:/|(?=[\w~-]))(?:{_SEGMENT}/)*+(?:{_SEGMENT})?+(?:\?[\w.~=&%+/:;,@!$()*?-]*+)?+", re.ASCII
)


def split(url: str) -> Split:
    """The parts of a request URL, which is known to be well formed."""
    scheme, _, rest = url.partition("://")
    authority, _, rest = rest.partition("/")
    path, _, query = rest.partition("?")
    host, port = authority, ""
    if ":" in authority and not authority.endswith("]"):
        host, _, port = authority.rpartition(":")
    return Split(scheme, host, port, "/" + path, query, "/" + rest)


@dataclass(frozen=True)
class Rewrite:
    """Where a site has two names for one page: a pattern, and what to put in its place."""

    pattern: str
    replacement: str

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)


@dataclass(frozen=True)
class UrlKeys:
    """Makes dedup keys. A key is a URL, and its own key."""

    tracking: Sequence[str] = TRACKING
    rewrites: Sequence[Rewrite] = ()
    most: int = MAX_URL

    def key(self, url: str) -> str:
        """The key of a request URL."""
        key = self._folded(url) if _may_fold(url) else url
        for rule in self.rewrites:
            if rule.compiled.search(key):
                return self._rewritten(key)
        return key

    def keys(self, urls: Sequence[str]) -> list[str]:
        # One look at all of them together: mostly each is its own key.
        if not self.rewrites and not _may_fold("\n".join(urls)):
            return list(urls)
        return [self.key(url) for url in urls]

    def _folded(self, url: str) -> str:
        scheme, _, rest = url.partition("://")
        authority, slash, rest = rest.partition("/")
        path, _, query = rest.partition("?")
        # The dot of the root zone: the same host, as the lanes know.
        authority = _ROOT_DOT.sub("", authority)
        if "%" in path:
            path = _PERCENT.sub(_normal, path)
        if query:
            query = self._folded_query(query)
        return f"{scheme}://{authority}{slash}{path}{'?' if query else ''}{query}"

    def _folded_query(self, query: str) -> str:
        if "%" in query:
            query = _PERCENT.sub(_normal, query)
        parts = [one for one in query.split("&") if one]
        if self._tracks.search(f"&{query.lower()}"):
            parts = [one for one in parts if not self._tracks.match(f"&{one.lower()}")]
        # By name only: the order of two values of one name can mean something.
        parts.sort(key=_name)
        return "&".join(parts)

    @cached_property
    def _tracks(self) -> re.Pattern[str]:
        names = [re.escape(one.lower()).replace(r"\*", "[^&=]*") for one in self.tracking]
        return re.compile(f"&(?:{'|'.join(names) or '(?!)'})(?=[&=]|$)")

    def _rewritten(self, key: str) -> str:
        """The fixed point of the rewrite rules; rules that have none leave the key alone."""
        now = key
        for _ in range(_REWRITE_ROUNDS):
            before = now
            for rule in self.rewrites:
                now = rule.compiled.sub(rule.replacement, now)
            if now == before:
                return now
            try:
                now = self._folded(request_url(now, most=self.most))
            except Malformed:
                return key
        return key


_REWRITE_ROUNDS = 8
_ROOT_DOT = re.compile(r"(?<=[^.])\.(?=:|$)")


def _may_fold(text: str) -> bool:
    """Whether folding may change a URL, or one of several with line ends between them."""
    return "%" in text or "?" in text or "./" in text or ".:" in text


def _name(parameter: str) -> str:
    return parameter.partition("=")[0]


_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _normal(match: re.Match[str]) -> str:
    """One way to write each octet. A stray % is written out, so that no new triplet can form."""
    octet = match[1]
    if octet is None:
        return "%25"
    character = chr(int(octet, 16))
    return character if character in _UNRESERVED else f"%{octet.upper()}"
