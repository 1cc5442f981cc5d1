"""One spelling per server, and no visits to junk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trawlnet.webpage.origin import Refusal, canonical_origin


@pytest.mark.parametrize(
    ("written", "origin"),
    [
        ("https://pds.bsky.social", "https://pds.bsky.social"),
        ("https://pds.bsky.social/", "https://pds.bsky.social"),
        ("  https://PDS.Bsky.Social:443/xrpc?x#y ", "https://pds.bsky.social"),
        ("pds.bsky.social", "https://pds.bsky.social"),
        ("pds.bsky.social:8443/", "https://pds.bsky.social:8443"),
        ("http://pds.bsky.social:80", "http://pds.bsky.social"),
        ("https://me:secret@pds.bsky.social", "https://pds.bsky.social"),
        ("https://pds.bsky.social.", "https://pds.bsky.social"),
        ("https://bücher.social", "https://xn--bcher-kva.social"),
        ("HTTPS://XN--BCHER-KVA.social", "https://xn--bcher-kva.social"),
    ],
)
def test_every_way_of_writing_a_server_comes_to_one(written, origin):
    assert canonical_origin(written).url == origin
    assert canonical_origin(written).refused == ""


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", Refusal.EMPTY),
        (" \n", Refusal.EMPTY),
        ("https://", Refusal.NOT_A_URL),
        ("not a url", Refusal.NOT_A_URL),
        ("https://pds.bsky.social:99999", Refusal.NOT_A_URL),
        ("x" * 3000, Refusal.TOO_LONG),
        ("ftp://pds.bsky.social", Refusal.SCHEME),
        ("at://pds.bsky.social", Refusal.SCHEME),
        ("https://localhost:2583", Refusal.PRIVATE),
        ("http://uwu", Refusal.PRIVATE),
        ("https://pds.local", Refusal.PRIVATE),
        ("https://metadata.google.internal", Refusal.PRIVATE),
        ("https://pds.test", Refusal.PRIVATE),
        ("http://127.0.0.1", Refusal.ADDRESS),
        ("http://2130706433", Refusal.ADDRESS),
        ("http://0x7f.1", Refusal.ADDRESS),
        ("https://8.8.8.8", Refusal.ADDRESS),
        ("https://[::1]:3000", Refusal.ADDRESS),
        ("https://example.com", Refusal.EXAMPLE),
        ("https://pds.example.org", Refusal.EXAMPLE),
        ("https://pds.example", Refusal.EXAMPLE),
        ("https://nobody.invalid", Refusal.EXAMPLE),
        ("https://abc.ngrok-free.app", Refusal.TUNNEL),
        ("https://abc.eu.ngrok.io", Refusal.TUNNEL),
        ("https://pds.bsky.social:0", Refusal.HOST),
        (f"https://{'a' * 64}.social", Refusal.HOST),
        ("https://-pds.social", Refusal.HOST),
        ("https://a..b.social", Refusal.HOST),
    ],
)
def test_junk_is_refused_with_its_reason(written, why):
    assert canonical_origin(written).refused is why
    assert canonical_origin(written).url == ""


@pytest.mark.parametrize("host", ["localhost:2583", "127.12.0.2:27000", "[::1]:80", "pds.test"])
def test_a_private_world_has_private_names(host):
    assert canonical_origin(f"http://{host}", allow_private=True).refused == ""
    assert canonical_origin("http://example.com", allow_private=True).refused


@given(st.text() | st.text().map(lambda text: f"https://{text}.social/{text}"))
def test_whatever_is_written_an_origin_is_stable_or_refused(text):
    origin = canonical_origin(text)
    assert bool(origin.url) != bool(origin.refused)
    if origin.url:
        assert canonical_origin(origin.url) == origin
        assert origin.url == origin.url.lower() and origin.url.isascii()
