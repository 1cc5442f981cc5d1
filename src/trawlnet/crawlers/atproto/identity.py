"""Who is behind a DID: its document, from the PLC directory or from its own web site."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote

import orjson

from trawlnet.atproto.identity.did_document import pds_endpoint, signing_key
from trawlnet.atproto.syntax import is_did
from trawlnet.crawlers.metered import Getter
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.malformed import Malformed
from trawlnet.net.client.answer import RequestLimits, outcome_of
from trawlnet.net.trouble import Trouble
from trawlnet.webpage.origin import canonical_origin

_LIMITS = RequestLimits(total=30.0, wire=1 << 20, inflated=1 << 20)
_LONGEST_DID = 256  # Characters that we would put into a URL.


@dataclass(frozen=True, slots=True)
class Identity:
    did: str
    pds: str  # Canonical origin; empty when there is none or it is refused.
    pds_refused: str  # Why.
    signing_key: str  # did:key; empty when the document has none that we can read.


async def resolve(
    http: Getter, did: str, plc_url: str, *, allow_private: bool = False
) -> Identity | Outcome:
    """The identity, or why there is none: `not_found` is the directory's own answer (also for a
    tombstone), `refused` ours; anything else may go away."""
    url = document_url(did, plc_url, allow_private=allow_private)
    if url is None:
        why = (
            "requests to its host are not allowed"
            if did.startswith("did:web:")
            else "its DID method has no document that can be fetched"
        )
        return Outcome(Reason.REFUSED, detail=f"its document cannot be looked up: {why}")
    answer = await http.get(url, limits=_LIMITS)
    if isinstance(answer, Trouble) or answer.reason is not Reason.OK:
        return outcome_of(answer)
    try:
        document = orjson.loads(answer.body)
    except ValueError:
        return Outcome(Reason.PARSE_ERROR, detail="a DID document that is not JSON")
    # Any server may hold any file: only a document that names the DID speaks for it.
    if not isinstance(document, dict) or document.get("id") != did:
        return Outcome(Reason.PARSE_ERROR, detail="the document of another DID")
    return identity_of(did, document, allow_private=allow_private)


def identity_of(did: str, document: dict[str, Any], *, allow_private: bool) -> Identity:
    try:
        key = signing_key(document).did_key
    except Malformed:
        key = ""
    endpoint = pds_endpoint(document)
    if endpoint is None:
        return Identity(did, "", "", key)
    origin = canonical_origin(endpoint, allow_private=allow_private)
    return Identity(did, origin.url, str(origin.refused), key)


def document_url(did: str, plc_url: str, *, allow_private: bool) -> str | None:
    """Where the document of a DID is; None for methods, and hosts, that are not asked."""
    if not is_did(did) or len(did) > _LONGEST_DID:
        return None
    if did.startswith("did:plc:"):
        return f"{plc_url}/{did}"
    if did.startswith("did:web:"):
        return _web_url(did.removeprefix("did:web:"), allow_private)
    return None


def _web_url(name: str, allow_private: bool) -> str | None:
    # A colon would start a path, which this protocol does not allow; a port comes encoded.
    host = unquote(name)
    if ":" in name or not _HOST.fullmatch(host) or (":" in host and not allow_private):
        return None
    # Private worlds have no certificates.
    scheme = "http" if allow_private and _is_private(host.partition(":")[0]) else "https"
    origin = canonical_origin(f"{scheme}://{host}", allow_private=allow_private)
    return f"{origin.url}/.well-known/did.json" if origin.url else None


_HOST = re.compile(r"[a-zA-Z0-9.-]{1,253}(?::[0-9]{1,5})?")


def _is_private(host: str) -> bool:
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost"
