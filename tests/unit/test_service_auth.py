"""Tokens of accounts: which are believed, and every way in which one is not."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.pds.registry_site import METHOD, SERVICE, Account, account
from trawlnet.atproto.identity.keys import ORDER, Curve
from trawlnet.crawlers.atproto import serviceauth
from trawlnet.crawlers.atproto.identities import Identities
from trawlnet.crawlers.atproto.identity import Identity, identity_of
from trawlnet.crawlers.atproto.serviceauth import AuthError, Rejected, ServiceAuth
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.sim.private_key import PrivateKey

NOW = 1_800_000_000.0
PDS = "https://pds.atproto.garden"
ALICE = account(0, PDS)
MALLORY = account(1, PDS)


class StandingClock:
    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class Door:
    """A service that knows some accounts, and counts how often it had to look one up."""

    def __init__(self, *accounts: Account, audience: str = SERVICE) -> None:
        self.documents = {one.did: one.document for one in accounts}
        self.lookups = 0
        self.clock = StandingClock()
        self.auth = ServiceAuth(audience, Identities(self.resolve, self.clock), self.clock)

    async def resolve(self, did: str) -> Identity | Outcome:
        self.lookups += 1
        if did not in self.documents:
            return Outcome(Reason.NOT_FOUND)
        return identity_of(did, self.documents[did], allow_private=False)

    def ask(self, token: str) -> Identity | Rejected:
        return asyncio.run(self.auth.caller(token, METHOD))

    def error(self, token: str) -> AuthError:
        answer = self.ask(token)
        assert isinstance(answer, Rejected), answer
        return answer.error


@pytest.mark.parametrize("curve", list(Curve))
def test_a_token_of_the_account_itself_is_believed(curve: Curve) -> None:
    alice = account(0, PDS, curve)
    answer = Door(alice).ask(alice.token(NOW))
    assert isinstance(answer, Identity)
    assert (answer.did, answer.pds) == (alice.did, PDS)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def high_s(token: str) -> str:
    """The other signature over the same text that the curve itself would accept."""
    signed, _, last = token.rpartition(".")
    raw = base64.urlsafe_b64decode(last + "==")
    s = ORDER[Curve.K256] - int.from_bytes(raw[32:], "big")
    twin = raw[:32] + s.to_bytes(32, "big")
    return f"{signed}.{base64.urlsafe_b64encode(twin).decode().rstrip('=')}"


def changed(token: str, **claims: Any) -> str:
    head, middle, last = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(middle + "=="))
    return f"{head}.{part(said | claims)}.{last}"


def unsigned(alg: str) -> str:
    said = {"iss": ALICE.did, "aud": SERVICE, "lxm": METHOD, "exp": NOW + 60}
    return f"{part({'alg': alg, 'typ': 'JWT'})}.{part(said)}."


FORGED: Mapping[str, tuple[str, AuthError]] = {
    "no signature": (unsigned("none"), AuthError.MALFORMED),
    "no signature, none in capitals": (unsigned("NONE"), AuthError.MALFORMED),
    "a signature with a shared secret": (unsigned("HS256") + "AAAA", AuthError.MALFORMED),
    "a signature of zeros": (
        ALICE.token(NOW).rpartition(".")[0] + "." + "A" * 86,
        AuthError.SIGNATURE,
    ),
    "another's key": (MALLORY.token(NOW, iss=ALICE.did), AuthError.SIGNATURE),
    "changed after signing": (changed(ALICE.token(NOW), jti="second"), AuthError.SIGNATURE),
    "the high twin of the signature": (high_s(ALICE.token(NOW)), AuthError.SIGNATURE),
    "the other curve": (ALICE.token(NOW, header={"alg": "ES256"}), AuthError.SIGNATURE),
    "a demand for extensions": (ALICE.token(NOW, header={"crit": ["b64"]}), AuthError.MALFORMED),
    "an access token": (ALICE.token(NOW, header={"typ": "at+jwt"}), AuthError.MALFORMED),
    "a refresh token": (ALICE.token(NOW, header={"typ": "refresh+jwt"}), AuthError.MALFORMED),
    "another audience": (ALICE.token(NOW, aud="did:web:other.test"), AuthError.AUDIENCE),
    "an audience that begins alike": (ALICE.token(NOW, aud=SERVICE + ".net"), AuthError.AUDIENCE),
    "a list of audiences": (ALICE.token(NOW, aud=[SERVICE]), AuthError.AUDIENCE),
    "no audience": (ALICE.token(NOW, aud=None), AuthError.AUDIENCE),
    "another method": (ALICE.token(NOW, lxm="com.atproto.repo.createRecord"), AuthError.METHOD),
    "no method": (ALICE.token(NOW, lxm=None), AuthError.METHOD),
    "any method": (ALICE.token(NOW, lxm="*"), AuthError.METHOD),
    "expired": (ALICE.token(NOW, exp=NOW - 1), AuthError.EXPIRED),
    "expiring now": (ALICE.token(NOW, exp=NOW), AuthError.EXPIRED),
    "no end": (ALICE.token(NOW, exp=None), AuthError.MALFORMED),
    "an end in a year": (ALICE.token(NOW, exp=NOW + 31_536_000), AuthError.MALFORMED),
    "an end that is no number": (ALICE.token(NOW, exp="tomorrow"), AuthError.MALFORMED),
    "an end that is true": (ALICE.token(NOW, exp=True), AuthError.MALFORMED),
    "made in the future": (ALICE.token(NOW, iat=NOW + 3600), AuthError.MALFORMED),
    "not valid yet": (ALICE.token(NOW, nbf=NOW + 3600), AuthError.MALFORMED),
    "an empty nonce": (ALICE.token(NOW, jti=""), AuthError.MALFORMED),
    "no issuer": (ALICE.token(NOW, iss=None), AuthError.ISSUER),
    "an issuer that is no DID": (ALICE.token(NOW, iss="alice.test"), AuthError.ISSUER),
    "an issuer with a fragment": (ALICE.token(NOW, iss=ALICE.did + "#labeler"), AuthError.ISSUER),
    "an unknown issuer": (account(5, PDS).token(NOW), AuthError.ISSUER),
    "two parts": ("a.b", AuthError.MALFORMED),
    "nothing": ("", AuthError.MALFORMED),
    "padding": (ALICE.token(NOW) + "=", AuthError.MALFORMED),
    "no JSON": ("AAAA.AAAA.AAAA", AuthError.MALFORMED),
    "lists for objects": (f"{part([])}.{part([])}.{'A' * 86}", AuthError.MALFORMED),
    "far too long": ("A" * 5000, AuthError.MALFORMED),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forgery_is_rejected_by_its_name(name: str) -> None:
    token, error = FORGED[name]
    assert Door(ALICE, MALLORY).error(token) is error


def test_a_token_is_good_once() -> None:
    door, token = Door(ALICE), ALICE.token(NOW)
    assert isinstance(door.ask(token), Identity)
    assert door.error(token) is AuthError.REPLAYED
    assert door.error(ALICE.token(NOW, exp=int(NOW) + 90)) is AuthError.REPLAYED
    assert isinstance(door.ask(ALICE.token(NOW, jti="second")), Identity)


def test_a_token_without_a_nonce_is_good_once_too() -> None:
    door, token = Door(ALICE), ALICE.token(NOW, jti=None)
    assert isinstance(door.ask(token), Identity)
    assert door.error(token) is AuthError.REPLAYED


def test_the_nonce_of_one_account_does_not_use_up_that_of_another() -> None:
    door = Door(ALICE, MALLORY)
    assert isinstance(door.ask(MALLORY.token(NOW)), Identity)
    assert isinstance(door.ask(ALICE.token(NOW)), Identity)


def test_a_forged_token_does_not_use_up_the_real_one() -> None:
    door = Door(ALICE, MALLORY)
    assert door.error(MALLORY.token(NOW, iss=ALICE.did)) is AuthError.SIGNATURE
    assert isinstance(door.ask(ALICE.token(NOW)), Identity)


def test_two_at_the_same_time_with_one_token_are_one_too_many() -> None:
    door, token = Door(ALICE), ALICE.token(NOW)

    async def both() -> list[Identity | Rejected]:
        return await asyncio.gather(*(door.auth.caller(token, METHOD) for _ in range(2)))

    answers = asyncio.run(both())
    assert sum(isinstance(one, Identity) for one in answers) == 1


def test_a_changed_key_is_looked_up_once_more() -> None:
    door = Door(ALICE)
    assert isinstance(door.ask(ALICE.token(NOW)), Identity)
    rotated = Account(ALICE.did, PrivateKey(Curve.P256, 77), PDS)
    door.documents[ALICE.did] = rotated.document
    assert isinstance(door.ask(rotated.token(NOW, jti="second")), Identity)
    assert door.lookups == 2


def test_a_known_key_is_not_looked_up_again() -> None:
    door = Door(ALICE)
    for number in range(5):
        assert isinstance(door.ask(ALICE.token(NOW, jti=str(number))), Identity)
    assert door.lookups == 1


def test_a_wrong_key_costs_two_lookups_at_the_most() -> None:
    door = Door(ALICE)
    assert isinstance(door.ask(ALICE.token(NOW)), Identity)
    assert door.error(MALLORY.token(NOW, iss=ALICE.did, jti="other")) is AuthError.SIGNATURE
    assert door.lookups == 2


def test_a_directory_that_is_away_is_no_verdict() -> None:
    door = Door(ALICE)

    async def away(did: str) -> Identity | Outcome:
        return Outcome(Reason.TIMEOUT)

    door.auth = ServiceAuth(SERVICE, Identities(away, door.clock), door.clock)
    assert door.error(ALICE.token(NOW)) is AuthError.UNAVAILABLE


def test_what_is_remembered_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serviceauth, "_MOST_SEEN", 3)
    door = Door(ALICE)
    for number in range(3):
        assert isinstance(door.ask(ALICE.token(NOW, jti=str(number))), Identity)
    assert door.error(ALICE.token(NOW, jti="one more")) is AuthError.UNAVAILABLE
    assert door.error(ALICE.token(NOW, jti="0")) is AuthError.REPLAYED
    door.clock.time += 61.0
    assert isinstance(door.ask(ALICE.token(door.clock.time, jti="one more")), Identity)


def test_a_service_without_a_did_takes_no_tokens() -> None:
    assert Door(ALICE, audience="").error(ALICE.token(NOW, aud="")) is AuthError.AUDIENCE
