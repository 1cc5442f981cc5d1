"""The signed commit at the top of a repository, version 3."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trawlnet.atproto.cid import Cid
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import PublicKey, Signer
from trawlnet.atproto.syntax import is_did, is_tid
from trawlnet.malformed import Malformed
from trawlnet.sim.repository.cbor_decoder import decode

VERSION = 3


@dataclass(frozen=True, slots=True)
class Commit:
    did: str
    data: Cid  # The root of the tree.
    rev: str
    prev: Cid | None = None
    sig: bytes = b""

    def unsigned(self) -> bytes:
        """What the signature covers."""
        return encode(self._fields())

    def encode(self) -> bytes:
        return encode({**self._fields(), "sig": self.sig})

    def signed(self, signer: Signer) -> Commit:
        return replace(self, sig=signer.sign(self.unsigned()))

    def signed_by(self, key: PublicKey) -> bool:
        return key.verifies(self.sig, self.unsigned())

    def _fields(self) -> dict[str, object]:
        return {
            "did": self.did,
            "version": VERSION,
            "data": self.data,
            "rev": self.rev,
            "prev": self.prev,
        }


def parse_commit(block: bytes) -> Commit:
    value = decode(block)
    if not isinstance(value, dict):
        raise Malformed("a commit that is not a map")
    if value.get("version") != VERSION:
        raise Malformed(f"a commit of version {str(value.get('version'))[:20]}, expected {VERSION}")
    if value.keys() != {"did", "version", "data", "rev", "prev", "sig"}:
        # A field that we would not write back would make the signature fail without saying why.
        raise Malformed(f"a commit with the fields {', '.join(sorted(value))[:200]}")
    did, data, rev, prev, sig = (value[name] for name in ("did", "data", "rev", "prev", "sig"))
    if not isinstance(did, str) or not is_did(did):
        raise Malformed("a commit whose did is not a DID")
    if not isinstance(rev, str) or not is_tid(rev):
        raise Malformed("a commit whose rev is not a TID")
    if not isinstance(data, Cid) or not (prev is None or isinstance(prev, Cid)):
        raise Malformed("a commit whose data or prev is not a link")
    if not isinstance(sig, bytes):
        raise Malformed("a commit whose sig is not bytes")
    return Commit(did, data, rev, prev, sig)
