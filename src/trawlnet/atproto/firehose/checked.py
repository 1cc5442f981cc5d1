"""What a frame comes to once it is checked: a commit with its ops, or the state a #sync names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trawlnet.atproto.cid import cid_of

EMPTY_NODE = b"\xa2\x61e\x80\x61l\xf6"  # {e: [], l: null}: the whole tree of a new repository.
EMPTY_ROOT = cid_of(EMPTY_NODE).raw


class OpAction(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


ACTIONS = tuple(OpAction)  # The C code numbers them from 0, in this order.


@dataclass(frozen=True, slots=True)
class CheckedOp:
    action: OpAction
    collection: str
    rkey: str
    cid: bytes | None  # Binary, as all CIDs here; None for a delete.
    prev: bytes | None  # None for a create, and from a server that knows no `prev`.
    record: bytes | None  # DAG-CBOR that hashes to `cid`, not looked into.


@dataclass(frozen=True, slots=True)
class CheckedCommit:
    """A commit that hangs together. Who signed it, and whether it follows on what we hold, are the
    next two questions."""

    did: str
    rev: str
    since: str | None
    commit_cid: bytes
    data: bytes  # Root of the tree.
    prev_data: bytes | None  # What the tree must have been before; not signed.
    unsigned_commit: bytes
    signature: bytes
    ops: tuple[CheckedOp, ...]  # As the frame has them.
    inverts_to: bytes | None  # The root with all ops taken back; None where a `prev` is lacking.

    @property
    def begins_empty(self) -> bool:
        """Whether the ops are all there is in the repository."""
        return self.inverts_to == EMPTY_ROOT


@dataclass(frozen=True, slots=True)
class CheckedSync:
    did: str
    rev: str
    commit_cid: bytes
    data: bytes
    unsigned_commit: bytes
    signature: bytes
