"""What the commits of one batch change in a repository, as a block of the archive. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from trawlnet.archive.changes.delta_blocks import pack_states
from trawlnet.archive.format.folding import ArchivedState, make_delta
from trawlnet.archive.format.proof import key_bytes
from trawlnet.atproto.identity.keys import parse_did_key

_KEYS = 65_536  # At hand.


@dataclass(slots=True)
class RepoDelta:
    since: str  # Rev of the newest block in the archive.
    pds: str
    key: str
    rev: str = ""
    signature: bytes = b""
    commit: bytes = b""  # If it is not of the usual form.
    changed: dict[str, bytes] = field(default_factory=dict)  # DAG-CBOR by path.
    deleted: set[str] = field(default_factory=set)

    def put(self, path: str, record: bytes) -> None:
        self.deleted.discard(path)
        self.changed[path] = record

    def delete(self, path: str) -> None:
        self.changed.pop(path, None)
        self.deleted.add(path)


def delta_blocks(deltas: Mapping[str, RepoDelta], at_us: int, zstd_level: int) -> list[bytes]:
    """By DID; `at_us` is when they came."""
    return pack_states([_state(did, one, at_us) for did, one in deltas.items()], zstd_level)


def _state(did: str, one: RepoDelta, at_us: int) -> ArchivedState:
    return make_delta(
        (did, one.pds),
        (one.rev, at_us),
        (_key_bytes(one.key), one.signature),
        since=one.since,
        changed=one.changed,
        deleted=one.deleted,
        commit=one.commit,
    )


@lru_cache(maxsize=_KEYS)
def _key_bytes(key: str) -> bytes:
    return key_bytes(parse_did_key(key))
