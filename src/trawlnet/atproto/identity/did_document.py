"""DID documents: the key that signs an account's repository, and the server that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trawlnet.atproto.identity.keys import PublicKey, parse_verification_key
from trawlnet.malformed import Malformed


def signing_key(doc: Mapping[str, Any]) -> PublicKey:
    """The key of the first verification method named #atproto."""
    for method in _named(doc, "verificationMethod", "#atproto"):
        kind, key = method.get("type"), method.get("publicKeyMultibase")
        if not isinstance(kind, str) or not isinstance(key, str):
            raise Malformed("a verification method without type or key")
        return parse_verification_key(kind, key)
    raise Malformed("a DID document without a signing key")


def pds_endpoint(doc: Mapping[str, Any]) -> str | None:
    """The endpoint of the first service named #atproto_pds, as written; None when there is none."""
    for service in _named(doc, "service", "#atproto_pds"):
        endpoint = service.get("serviceEndpoint")
        if service.get("type") == "AtprotoPersonalDataServer" and isinstance(endpoint, str):
            return endpoint
    return None


def _named(doc: Mapping[str, Any], field: str, fragment: str) -> Iterator[Mapping[str, Any]]:
    # An id may be the bare fragment, or the fragment behind the document's own DID.
    names = (fragment, f"{doc.get('id')}{fragment}")
    items = doc.get(field)
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("id") in names:
            yield item
