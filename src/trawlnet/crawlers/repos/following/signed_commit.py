"""The commit of a frame as the archive keeps it. Pure."""

from __future__ import annotations

from trawlnet.archive.format.proof import usual_commit
from trawlnet.atproto.cbor_items import skip
from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.firehose.checked import CheckedCommit, CheckedSync

_MAP, _SHORT = 0xA0, 24  # A map of fewer pairs than this has its number in the first byte.
_SIGNATURE = b"\x63sig", b"\x58\x40"


def full_commit(found: CheckedCommit | CheckedSync) -> bytes | None:
    """Empty if it is of the usual form, which the archive makes again from what it holds; the
    signed commit if it is not; None if its bytes cannot be made of what is known."""
    usual = usual_commit(found.did, found.rev, found.data[-32:], found.signature)
    if cid_of(usual).raw == found.commit_cid:
        return b""
    signed = _with_signature(found.unsigned_commit, found.signature)
    return signed if signed and cid_of(signed).raw == found.commit_cid else None


def _with_signature(unsigned: bytes, signature: bytes) -> bytes:
    """The same map with one more pair, in the order that DAG-CBOR has."""
    count = unsigned[0] - _MAP
    if not 0 <= count < _SHORT - 1 or len(signature) != 64:
        return b""
    pairs = [(_SIGNATURE[0], _SIGNATURE[1] + signature)]
    at = 1
    for _ in range(count):
        value = skip(unsigned, at)
        end = skip(unsigned, value)
        pairs.append((unsigned[at:value], unsigned[value:end]))
        at = end
    pairs.sort(key=lambda pair: (len(pair[0]), pair[0]))
    return bytes((_MAP + count + 1,)) + b"".join(key + value for key, value in pairs)
