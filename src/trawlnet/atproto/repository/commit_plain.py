"""The commit of a repository, read as strictly as the C code reads it."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.atproto.cbor_items import (
    BYTES,
    MAP,
    TEXT,
    read_head,
    read_sha256_link,
    read_span,
    skip,
)
from trawlnet.atproto.syntax import is_did, is_tid
from trawlnet.malformed import Malformed

_MAX_COMMIT_FIELDS = 23
_SIGNATURE = 64
_VERSION = 3


@dataclass(frozen=True, slots=True)
class SignedCommit:
    did: str
    rev: str
    data: bytes  # The digest of the root of the tree.
    signature: bytes
    unsigned: bytes


class UnsupportedVersion(Malformed):
    """A commit that is sound as far as can be told, of another version."""


def read_commit(block: bytes) -> SignedCommit:
    """Raises Malformed."""
    fields, unsigned = _commit_fields(block)
    if "version" not in fields:
        raise Malformed("the commit has no version")
    if fields["version"] != _VERSION:
        raise UnsupportedVersion("not version 3")
    match fields:
        case {"did": str(did), "rev": str(rev), "data": bytes(data), "sig": bytes(signature)}:
            return SignedCommit(did, rev, data, signature, unsigned)
    raise Malformed("the commit lacks a field")


def _commit_fields(data: bytes) -> tuple[dict[str, object], bytes]:
    head = read_head(data, 0)
    if head.major != MAP or head.argument > _MAX_COMMIT_FIELDS:
        raise Malformed("the commit is no small map")
    fields: dict[str, object] = {}
    unsigned = [bytes((MAP << 5 | max(head.argument - 1, 0),))]
    at = head.end
    for _ in range(head.argument):
        start = at
        raw, value = read_span(data, at, TEXT)
        at = skip(data, value, 1)
        name = raw.decode("latin-1")
        if name in ("did", "rev", "sig", "data", "version"):
            if name in fields:
                raise Malformed(f"the commit has {name} twice")
            fields[name] = _commit_field(name, data, value)
        if name != "sig":
            unsigned.append(data[start:at])
    if at != len(data):
        raise Malformed("bytes follow the commit")
    return fields, b"".join(unsigned)


def _commit_field(name: str, data: bytes, at: int) -> object:
    if name == "version":
        head = read_head(data, at)
        if head.major != 0:
            raise Malformed("the commit's version is no number")
        return head.argument
    if name == "data":
        return read_sha256_link(data, at)[0]
    if name == "sig":
        signature, _ = read_span(data, at, BYTES)
        if len(signature) != _SIGNATURE:
            raise Malformed("the signature does not have 64 bytes")
        return signature
    text = read_span(data, at, TEXT)[0].decode("latin-1")
    if not (is_did(text) if name == "did" else is_tid(text)):
        raise Malformed(f"the commit's {name} is malformed")
    return text
