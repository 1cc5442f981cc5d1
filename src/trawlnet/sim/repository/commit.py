"""The signed commit at the top of a repository, version 3."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trawlnet.atproto.cid import Cid
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import PublicKey, Signer

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
