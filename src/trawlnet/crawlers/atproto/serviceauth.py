"""Who is asking: a token that an account's own key has signed, for this service and method only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

from trawlnet.atproto.identity.jwt import Jwt, parse_jwt
from trawlnet.atproto.identity.keys import parse_did_key
from trawlnet.atproto.syntax import is_did
from trawlnet.crawlers.atproto.identities import Identities
from trawlnet.crawlers.atproto.identity import Identity
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.malformed import Malformed

_SKEW = 30.0  # Seconds by which the clock of an honest PDS may be ahead of ours.
_LONGEST_LIFE = 3600.0  # Seconds; a token that lives longer is a password.
_LONGEST_NONCE = 256  # Characters.
_MOST_SEEN = 100_000  # Tokens that are remembered until they expire.
# Tokens of the same protocol that are meant for other doors.
_FOREIGN_KINDS = frozenset({"at+jwt", "refresh+jwt", "dpop+jwt"})


class AuthError(StrEnum):
    """The error names that clients of the protocol know."""

    MALFORMED = "BadJwt"
    EXPIRED = "JwtExpired"
    AUDIENCE = "BadJwtAudience"
    METHOD = "BadJwtLexiconMethod"
    ISSUER = "BadJwtIss"
    SIGNATURE = "BadJwtSignature"
    REPLAYED = "JwtReplayed"
    UNAVAILABLE = "ServiceUnavailable"  # We cannot tell now; it is nobody's fault.


@dataclass(frozen=True, slots=True)
class Rejected:
    error: AuthError
    message: str


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """What a token says, before anybody has looked at its signature."""

    issuer: str
    expires: float
    once: bytes  # The same for a second use of the token.


def claim_of(jwt: Jwt, audience: str, method: str, now: float) -> TokenClaims | Rejected:
    """Everything that can be checked without asking anybody."""
    claims = jwt.claims
    issuer, expires = claims.get("iss"), _instant(claims, "exp")
    if jwt.kind.lower() in _FOREIGN_KINDS:
        return Rejected(AuthError.MALFORMED, "a token of another kind")
    if not isinstance(issuer, str) or not is_did(issuer):
        return Rejected(AuthError.ISSUER, "iss must be a DID")
    if claims.get("aud") != audience:
        return Rejected(AuthError.AUDIENCE, f"aud must be {audience}")
    if claims.get("lxm") != method:
        return Rejected(AuthError.METHOD, f"lxm must be {method}")
    if expires is None or expires > now + _LONGEST_LIFE + _SKEW:
        return Rejected(AuthError.MALFORMED, f"exp must be within {_LONGEST_LIFE:g} s from now")
    if expires <= now:
        return Rejected(AuthError.EXPIRED, "the token has expired")
    for name in ("iat", "nbf"):
        instant = _instant(claims, name)
        if name in claims and (instant is None or instant > now + _SKEW):
            return Rejected(AuthError.MALFORMED, f"{name} must be an instant in the past")
    nonce = claims.get("jti")
    if nonce is not None and not (isinstance(nonce, str) and 0 < len(nonce) <= _LONGEST_NONCE):
        return Rejected(AuthError.MALFORMED, "jti must be a short text")
    # Older servers send no nonce; then the signed text itself must not come twice.
    once = jwt.signed if nonce is None else f"{issuer} {nonce}".encode("utf-8", "surrogatepass")
    return TokenClaims(issuer, expires, sha256(once).digest())


def _instant(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


class ServiceAuth:
    def __init__(self, audience: str, identities: Identities, clock: Clock) -> None:
        self._audience = audience  # Our own DID; without one no token can be meant for us.
        self._identities = identities
        self._clock = clock
        self._seen: dict[bytes, float] = {}  # Tokens used, and when they expire.

    async def caller(self, token: str, method: str) -> Identity | Rejected:
        """Whose token it is. Good once: a second use is rejected."""
        if not self._audience:
            return Rejected(AuthError.AUDIENCE, "this service has no DID, so it takes no tokens")
        try:
            jwt = parse_jwt(token)
        except Malformed as trouble:
            return Rejected(AuthError.MALFORMED, str(trouble))
        claim = claim_of(jwt, self._audience, method, self._clock.now())
        if isinstance(claim, Rejected):
            return claim
        if claim.once in self._seen:
            return Rejected(AuthError.REPLAYED, "the token was used before")
        signer = await self._signer(claim.issuer, jwt)
        return self._used(claim) or signer if isinstance(signer, Identity) else signer

    async def _signer(self, did: str, jwt: Jwt) -> Identity | Rejected:
        remembered = self._identities.remembers(did)
        signer = await self._check(did, jwt, afresh=False)
        if remembered and isinstance(signer, Rejected) and signer.error is AuthError.SIGNATURE:
            # Keys change: what we remember may be the old one. Once is enough to find out.
            return await self._check(did, jwt, afresh=True)
        return signer

    async def _check(self, did: str, jwt: Jwt, *, afresh: bool) -> Identity | Rejected:
        found = await self._identities.ask(did, afresh=afresh)
        if not isinstance(found, Identity):
            if found.reason in (Reason.NOT_FOUND, Reason.REFUSED, Reason.PARSE_ERROR):
                return Rejected(AuthError.ISSUER, "the issuer has no DID document")
            return Rejected(AuthError.UNAVAILABLE, "the issuer's DID cannot be looked up now")
        if not found.signing_key:
            return Rejected(AuthError.ISSUER, "the issuer's DID document has no signing key")
        if not jwt.is_signed_by(parse_did_key(found.signing_key)):
            return Rejected(AuthError.SIGNATURE, "not signed with the key in the DID document")
        return found

    def _used(self, claim: TokenClaims) -> Rejected | None:
        """Remember the token. Two requests may have waited for the same DID: look again."""
        if claim.once in self._seen:
            return Rejected(AuthError.REPLAYED, "the token was used before")
        if len(self._seen) >= _MOST_SEEN:
            now = self._clock.now()
            self._seen = {once: until for once, until in self._seen.items() if until > now}
        if len(self._seen) >= _MOST_SEEN:
            # Forgetting one that is still valid would let it in again.
            return Rejected(AuthError.UNAVAILABLE, "too many tokens at once; try again later")
        self._seen[claim.once] = claim.expires
        return None
