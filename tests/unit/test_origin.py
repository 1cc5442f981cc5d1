"""One spelling per server, and no visits to junk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trawlnet.webpage.origin import OriginRefusal, canonical_origin


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
        ("", OriginRefusal.EMPTY),
        (" \n", OriginRefusal.EMPTY),
        ("https://", OriginRefusal.NOT_A_URL),
        ("not a url", OriginRefusal.NOT_A_URL),
        ("https://pds.bsky.social:99999", OriginRefusal.NOT_A_URL),
        ("x" * 3000, OriginRefusal.TOO_LONG),
        ("ftp://pds.bsky.social", OriginRefusal.SCHEME),
        ("at://pds.bsky.social", OriginRefusal.SCHEME),
        ("https://localhost:2583", OriginRefusal.PRIVATE),
        ("http://uwu", OriginRefusal.PRIVATE),
        ("https://pds.local", OriginRefusal.PRIVATE),
        ("https://metadata.google.internal", OriginRefusal.PRIVATE),
        ("https://pds.test", OriginRefusal.PRIVATE),
        ("http://127.0.0.1", OriginRefusal.ADDRESS),
        ("http://2130706433", OriginRefusal.ADDRESS),
        ("http://0x7f.1", OriginRefusal.ADDRESS),
        ("https://8.8.8.8", OriginRefusal.ADDRESS),
        ("https://[::1]:3000", OriginRefusal.ADDRESS),
        ("https://example.com", OriginRefusal.EXAMPLE),
        ("https://pds.example.org", OriginRefusal.EXAMPLE),
        ("https://pds.example", OriginRefusal.EXAMPLE),
        ("https://nobody.invalid", OriginRefusal.EXAMPLE),
        ("https://abc.ngrok-free.app", OriginRefusal.TUNNEL),
        ("https://abc.eu.ngrok.io", OriginRefusal.TUNNEL),
        ("https://pds.bsky.social:0", OriginRefusal.HOST),
        (f"https://{'a' * 64}.social", OriginRefusal.HOST),
        ("https://-pds.social", OriginRefusal.HOST),
        ("https://a..b.social", OriginRefusal.HOST),
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
