"""Two libraries verify keys on secp256k1: they must say the same of everything."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.servers import require_package
from trawlnet.atproto.identity import k256
from trawlnet.atproto.identity.keys import ORDER, Curve, PrivateKey, PublicKey, public_key
from trawlnet.malformed import Malformed

N = ORDER[Curve.K256]
SIGNER = PrivateKey(Curve.K256, 77_777)
MESSAGE = b"a commit"

if sys.version_info < (3, 14):  # There is no release for later ones yet.
    require_package("coincurve")
pytestmark = pytest.mark.skipif(not k256.is_available, reason="no coincurve for this Python")


def by_both(monkeypatch: pytest.MonkeyPatch, key: PublicKey, signature: bytes) -> list[bool]:
    verdicts = []
    for is_available in (True, False):
        monkeypatch.setattr(k256, "is_available", is_available)
        verdicts.append(key.verifies(signature, MESSAGE))
    return verdicts


def point_by_both(monkeypatch: pytest.MonkeyPatch, point: bytes) -> list[bytes | None]:
    found: list[bytes | None] = []
    for is_available in (True, False):
        monkeypatch.setattr(k256, "is_available", is_available)
        try:
            found.append(public_key(Curve.K256, point).point)
        except Malformed:
            found.append(None)
    return found


def test_a_signature_of_the_key_is_its_and_no_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    good = SIGNER.sign(MESSAGE)
    assert by_both(monkeypatch, SIGNER.public, good) == [True, True]
    other = PrivateKey(Curve.K256, 77_778)
    assert by_both(monkeypatch, other.public, good) == [False, False]
    assert by_both(monkeypatch, SIGNER.public, SIGNER.sign(b"another")) == [False, False]


def test_the_larger_of_two_equal_signatures_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    good = SIGNER.sign(MESSAGE)
    high = good[:32] + (N - int.from_bytes(good[32:])).to_bytes(32, "big")
    assert by_both(monkeypatch, SIGNER.public, high) == [False, False]


@pytest.mark.parametrize("r", [0, 1, N - 1, N, N + 1, (1 << 256) - 1])
@pytest.mark.parametrize("s", [0, 1, N // 2])
def test_numbers_at_the_edges_are_no_signature(
    monkeypatch: pytest.MonkeyPatch, r: int, s: int
) -> None:
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    assert by_both(monkeypatch, SIGNER.public, signature) == [False, False]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 63), st.integers(1, 255), st.integers(1, 1 << 200))
def test_a_signature_with_any_byte_changed_is_refused(at: int, change: int, secret: int) -> None:
    signer = PrivateKey(Curve.K256, secret)
    spoilt = bytearray(signer.sign(MESSAGE))
    spoilt[at] ^= change
    with pytest.MonkeyPatch.context() as patch:
        assert by_both(patch, signer.public, bytes(spoilt)) == [False, False]
        assert by_both(patch, signer.public, signer.sign(MESSAGE)) == [True, True]


@settings(max_examples=200, deadline=None)
@given(
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
    )
)
def test_the_same_bytes_are_a_point_to_both(point: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        ours, openssl = point_by_both(patch, point)
    assert ours == openssl


def test_every_form_of_a_point_becomes_the_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    short = SIGNER.public.point
    x = int.from_bytes(short[1:])
    field = (1 << 256) - (1 << 32) - 977
    y = pow(x**3 + 7, (field + 1) // 4, field)
    if y % 2 != short[0] % 2:
        y = field - y
    both = x.to_bytes(32, "big") + y.to_bytes(32, "big")
    assert point_by_both(monkeypatch, short) == [short, short]
    assert point_by_both(monkeypatch, b"\x04" + both) == [short, short]
    hybrid = bytes([6 + y % 2]) + both
    assert point_by_both(monkeypatch, hybrid) == [None, None]
    assert point_by_both(monkeypatch, b"\x04" + both[:-1] + bytes([both[-1] ^ 1])) == [None, None]
