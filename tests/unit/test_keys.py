"""Two libraries and plain Python verify signatures: they must say the same of everything."""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.servers import require_package
from trawlnet.atproto.identity import ecdsa_plain, k256, keys
from trawlnet.atproto.identity.keys import ORDER, Curve, PublicKey, public_key
from trawlnet.malformed import Malformed
from trawlnet.sim.private_key import PrivateKey

MESSAGE = b"a commit"
FIELD = {Curve.P256: ecdsa_plain.P256, Curve.K256: ecdsa_plain.K256}
CURVES = st.sampled_from(list(Curve))
T = TypeVar("T")

if sys.version_info < (3, 14):  # There is no release for later ones yet.
    require_package("coincurve")


def by_all(curve: Curve, ask: Callable[[], T]) -> T:
    """What is answered with every library, with OpenSSL alone, and with none; it must agree."""
    ways = [(False, keys.openssl), (False, lambda: None)]
    if curve is Curve.K256 and k256.is_available:
        ways.append((True, keys.openssl))
    answers = []
    with pytest.MonkeyPatch.context() as patch:
        for has_coincurve, openssl in ways:
            patch.setattr(k256, "is_available", has_coincurve)
            patch.setattr(keys, "openssl", openssl)
            answers.append(ask())
    assert all(answer == answers[0] for answer in answers), answers
    return answers[0]


def verdict(key: PublicKey, signature: bytes, message: bytes = MESSAGE) -> bool:
    return by_all(key.curve, lambda: key.verifies(signature, message))


def point_of(curve: Curve, point: bytes) -> bytes | None:
    def parsed() -> bytes | None:
        try:
            return public_key(curve, point).point
        except Malformed:
            return None

    return by_all(curve, parsed)


@pytest.mark.parametrize("curve", Curve)
def test_a_signature_of_the_key_is_its_and_no_other_is(curve: Curve) -> None:
    signer = PrivateKey(curve, 77_777)
    good = signer.sign(MESSAGE)
    assert verdict(signer.public, good)
    assert not verdict(PrivateKey(curve, 77_778).public, good)
    assert not verdict(signer.public, signer.sign(b"another"))


@pytest.mark.parametrize("curve", Curve)
def test_the_larger_of_two_equal_signatures_is_refused(curve: Curve) -> None:
    signer = PrivateKey(curve, 77_777)
    good = signer.sign(MESSAGE)
    high = good[:32] + (ORDER[curve] - int.from_bytes(good[32:])).to_bytes(32, "big")
    assert not verdict(signer.public, high)


@pytest.mark.parametrize("curve", Curve)
def test_numbers_at_the_edges_are_no_signature(curve: Curve) -> None:
    order = ORDER[curve]
    key = PrivateKey(curve, 77_777).public
    for r in (0, 1, order - 1, order, order + 1, (1 << 256) - 1):
        for s in (0, 1, order // 2):
            assert not verdict(key, r.to_bytes(32, "big") + s.to_bytes(32, "big"))


@pytest.mark.parametrize("curve", Curve)
@pytest.mark.parametrize("secret", [1, 2, -1, -2])
def test_keys_beside_the_generator_verify(curve: Curve, secret: int) -> None:
    """Sums with them meet what adding has to treat apart: a point and itself, or its opposite."""
    signer = PrivateKey(curve, secret % ORDER[curve])
    for number in range(8):
        message = number.to_bytes(1, "big")
        assert verdict(signer.public, signer.sign(message), message)
        assert not verdict(signer.public, signer.sign(message), b"another")


@pytest.mark.parametrize("curve", Curve)
def test_a_sum_at_infinity_is_no_signature(curve: Curve) -> None:
    """r = -hash and a key of 1: what is to be added cancels out."""
    order = ORDER[curve]
    hashed = int.from_bytes(sha256(MESSAGE).digest(), "big")
    r = -hashed % order
    assert not verdict(PrivateKey(curve, 1).public, r.to_bytes(32, "big") + (5).to_bytes(32, "big"))


@settings(max_examples=60, deadline=None)
@given(CURVES, st.integers(0, 63), st.integers(1, 255), st.integers(1, 1 << 200))
def test_a_signature_with_any_byte_changed_is_refused(
    curve: Curve, at: int, change: int, secret: int
) -> None:
    signer = PrivateKey(curve, secret)
    spoilt = bytearray(signer.sign(MESSAGE))
    spoilt[at] ^= change
    assert not verdict(signer.public, bytes(spoilt))
    assert verdict(signer.public, signer.sign(MESSAGE))


@settings(max_examples=200, deadline=None)
@given(
    CURVES,
    st.one_of(
        st.binary(max_size=70),
        st.builds(
            lambda form, x: bytes([form]) + x,
            st.integers(0, 7),
            st.binary(min_size=32, max_size=32),
        ),
        st.builds(
            lambda form, xy: bytes([form]) + xy,
            st.integers(0, 7),
            st.binary(min_size=64, max_size=64),
        ),
    ),
)
def test_the_same_bytes_are_a_point_to_all(curve: Curve, point: bytes) -> None:
    point_of(curve, point)


@pytest.mark.parametrize("curve", Curve)
def test_every_form_of_a_point_becomes_the_short_one(curve: Curve) -> None:
    short = PrivateKey(curve, 77_777).public.point
    x, known = int.from_bytes(short[1:]), FIELD[curve]
    y = pow(x**3 + known.a * x + known.b, (known.field + 1) // 4, known.field)
    if y % 2 != short[0] % 2:
        y = known.field - y
    both = x.to_bytes(32, "big") + y.to_bytes(32, "big")
    assert point_of(curve, short) == short
    assert point_of(curve, b"\x04" + both) == short
    hybrid = bytes([6 + y % 2]) + both
    assert point_of(curve, hybrid) is None
    assert point_of(curve, b"\x04" + both[:-1] + bytes([both[-1] ^ 1])) is None


@pytest.mark.parametrize("curve", Curve)
def test_numbers_beyond_the_field_are_no_point(curve: Curve) -> None:
    """x and x plus the prime are the same remainder, and only one of them is a coordinate."""
    known = FIELD[curve]
    for x in range(40):
        assert point_of(curve, b"\x02" + (known.field + x).to_bytes(32, "big")) is None
    assert point_of(curve, b"\x03" + b"\xff" * 32) is None
