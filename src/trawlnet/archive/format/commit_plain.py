"""The commit of a repository, read as strictly as the C extraction reads it."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.archive.format.content import RepoError, RepoErrorKind
from trawlnet.archive.format.tree_plain import StoredBlock
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


@dataclass(frozen=True, slots=True)
class PlainCommit:
    did: str
    rev: str
    data: bytes
    signature: bytes
    unsigned: bytes


def read_commit(block: StoredBlock | None) -> PlainCommit:
    """Raises RepoError."""
    if block is None:
        raise RepoError(RepoErrorKind.MISSING_BLOCK, "the commit is not in the CAR", 0)
    try:
        fields, unsigned = _commit_fields(block.data)
    except Malformed as error:
        raise RepoError(RepoErrorKind.BAD_COMMIT, str(error), block.at) from None
    if "version" not in fields:
        raise RepoError(RepoErrorKind.BAD_COMMIT, "the commit has no version", block.at)
    if fields["version"] != 3:
        raise RepoError(RepoErrorKind.UNSUPPORTED_VERSION, "not version 3", block.at)
    match fields:
        case {"did": str(did), "rev": str(rev), "data": bytes(data), "sig": bytes(signature)}:
            return PlainCommit(did, rev, data, signature, unsigned)
    raise RepoError(RepoErrorKind.BAD_COMMIT, "the commit lacks a field", block.at)


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
