"""Why a frame of the stream is not believed: one word each, a closed list."""

from __future__ import annotations

from enum import StrEnum


class Refusal(StrEnum):
    """In the order in which the checks come; the C code numbers them from 1, in this order."""

    # The two sides no longer agree where a frame begins or what is in it.
    FRAME_TOO_LARGE = "frame_too_large"
    NOT_CBOR = "not_cbor"
    NOT_JSON = "not_json"
    TRAILING_BYTES = "trailing_bytes"
    BAD_HEADER = "bad_header"

    # One frame is bad, and the next one may be good: first what it says by itself,
    BAD_FIELDS = "bad_fields"  # One is missing, is there twice, or is of the wrong type.
    BAD_SEQ = "bad_seq"
    BAD_DID = "bad_did"
    BAD_REV = "bad_rev"
    BAD_SINCE = "bad_since"  # No TID, or not before the rev.
    FUTURE_REV = "future_rev"
    LEFT_OUT = "left_out"  # The sender says that the change was too big to be sent.
    TOO_LARGE = "too_large"
    TOO_MANY_OPS = "too_many_ops"
    BAD_OP = "bad_op"  # An unknown action, or a cid or prev that does not go with it.
    BAD_PATH = "bad_path"
    REPEATED_PATH = "repeated_path"
    # then its blocks,
    BAD_CAR = "bad_car"
    HASH_MISMATCH = "hash_mismatch"
    WRONG_ROOT = "wrong_root"  # The CAR's root is not the commit that the frame names.
    MISSING_COMMIT = "missing_commit"
    BAD_COMMIT = "bad_commit"
    WRONG_DID = "wrong_did"  # The commit is another account's,
    WRONG_REV = "wrong_rev"  # or another moment's.
    MISSING_RECORD = "missing_record"
    LARGE_RECORD = "large_record"
    # then the tree, with all ops taken back,
    BAD_TREE = "bad_tree"
    PARTIAL_TREE = "partial_tree"  # A node is missing without which ops cannot be taken back.
    NOT_IN_TREE = "not_in_tree"  # A path that was created or updated is not there,
    WRONG_CID = "wrong_cid"  # or holds something else;
    STILL_IN_TREE = "still_in_tree"  # one that was deleted is there.
    WRONG_PREV_DATA = "wrong_prev_data"
    # and last who signed it.
    BAD_SIGNATURE = "bad_signature"

    @property
    def ends_connection(self) -> bool:
        """Whether nothing that follows on the same connection can be trusted to be a frame."""
        return self in _OF_THE_CONNECTION


REFUSALS = tuple(Refusal)
_OF_THE_CONNECTION = frozenset(REFUSALS[: REFUSALS.index(Refusal.BAD_FIELDS)])


class FrameRefused(Exception):
    """Inside this room only: callers are given the refusal as a value."""

    def __init__(self, why: Refusal) -> None:
        super().__init__(why)
        self.why = why
