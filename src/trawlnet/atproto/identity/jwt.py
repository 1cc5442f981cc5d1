"""Signed tokens (JWT): taken apart and checked for shape, not for what they claim."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from trawlnet.atproto.identity.keys import Curve, PublicKey
from trawlnet.malformed import Malformed

_LONGEST = 4096  # Characters.
_PART = re.compile(r"[A-Za-z0-9_-]+\Z")
_SIGNATURE_BYTES = 64
_CURVES = {"ES256": Curve.P256, "ES256K": Curve.K256}


@dataclass(frozen=True, slots=True)
class Jwt:
    curve: Curve  # As the header's `alg` has it; there is no token without a signature.
    kind: str  # The header's `typ`; empty when there is none.
    claims: Mapping[str, Any]
    signed: bytes  # What the signature is over.
    signature: bytes

    def is_signed_by(self, key: PublicKey) -> bool:
        # The key decides which curve is used: what a token says about itself chooses nothing.
        return key.curve is self.curve and key.verifies(self.signature, self.signed)


def parse_jwt(text: str) -> Jwt:
    """Raises Malformed; nothing is verified yet."""
    if len(text) > _LONGEST:
        raise Malformed(f"a token of more than {_LONGEST} characters")
    parts = text.split(".")
    if len(parts) != 3:
        raise Malformed("a token has three parts")
    header, claims = _object(parts[0]), _object(parts[1])
    curve = _CURVES.get(_text(header, "alg"))
    if curve is None:
        raise Malformed("a token is signed with ES256 or ES256K")
    if "crit" in header:
        raise Malformed("a token that demands extensions")
    signature = _bytes(parts[2])
    if len(signature) != _SIGNATURE_BYTES:
        raise Malformed(f"a signature has {_SIGNATURE_BYTES} bytes")
    return Jwt(curve, _text(header, "typ"), claims, f"{parts[0]}.{parts[1]}".encode(), signature)


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key, "")
    if not isinstance(value, str):
        raise Malformed(f"a token whose {key} is no text")
    return value


def _object(part: str) -> Mapping[str, Any]:
    try:
        value = orjson.loads(_bytes(part))
    except orjson.JSONDecodeError:
        raise Malformed("a part of the token is no JSON") from None
    if not isinstance(value, dict):
        raise Malformed("a part of the token is no object")
    return value


def _bytes(part: str) -> bytes:
    # The library skips characters that it does not know: two spellings of one token.
    if not _PART.match(part):
        raise Malformed("a part of the token is not in base64url")
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (Base64Error, ValueError):
        raise Malformed("a part of the token is not in base64url") from None
