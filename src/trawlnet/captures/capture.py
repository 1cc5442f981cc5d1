"""A capture: one answer to one request for a page, as the handler passes it to the sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

Headers = Sequence[tuple[str, str]]  # In order, with repetitions, as received.


class Hop(msgspec.Struct, frozen=True):
    """A redirect that was followed inside the same visit."""

    url: str
    status: int
    headers: Headers = ()


Edge = tuple[str, str, str]  # As in a Link; a plain tuple, because a page has dozens.


class CapturedLink(NamedTuple):
    to: str
    text: str = ""
    context: str = ""  # The text, with the words around it.


class Capture(msgspec.Struct, frozen=True, gc=False):
    """The result of one visit: an item of the handler's outcome, for a CaptureSink. A Struct,
    because each page makes one, and a dataclass of so many fields takes eight times as long.

    `body` is None if there is nothing to store: a 304, or a type that is not stored. A 304 takes
    over the content hash of the URL's last capture. Only revisits may be conditional: a first
    visit that is repeated after a crash needs the body, for its links.
    """

    timestamp: float  # When the answer was complete, in Unix seconds.
    url: str  # As requested.
    http_status: int
    body: bytes | None = None  # Decoded from its transfer and content codings.
    final_url: str = ""  # The URL after redirects; empty if it is the same.
    hops: Sequence[Hop] = ()
    page_type: str = ""
    depth: int = 0  # Links from a seed.
    referrer: str | None = None
    content_type: str = ""
    encoding: str = ""  # Of characters.
    etag: str = ""
    last_modified: str = ""
    fetch_latency_ms: float = 0.0
    retries: int = 0
    proxy_id: str = ""
    metadata: Mapping[str, Any] = {}  # JSON-like.
    request_headers: Headers = ()  # For the WARC, like the next two.
    response_headers: Headers = ()
    reason_phrase: str = ""
    simhash: int | None = None  # 64 bits; None: the page has too little text to compare.
    links: Sequence[Edge] = ()  # For the edge list.
    revisit_in: float | None = None  # The interval chosen for the next visit, in seconds.
    discover: bool = True  # Announce it in the discovery spool, if the body is stored.

    @property
    def stored(self) -> bool:
        """Whether its body goes to the content store."""
        return self.body is not None and 200 <= self.http_status < 300

    @property
    def discovered(self) -> bool:
        return self.discover and self.stored
