"""No secret is shown, in whatever shape it comes; and what is no secret stays readable."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trawlnet.net.redact import HIDDEN, redact, redacted

NAMES = st.sampled_from(
    [
        *("password", "PASSWORD", "passwd", "pwd", "secret", "client_secret", "token", "api_key"),
        *("apikey", "access_token", "X-Amz-Signature", "X-Amz-Security-Token", "AWSAccessKey"),
        *("sslpassword", "private_key", "webhook", "auth.token", "credentials", "pass[token]"),
        *("pass", "db_pass", "user-pass", "auth", "X-Auth", "basic.auth"),
    ]
)
KEYS = st.sampled_from(["key", "Key", "KEY"])  # A secret in a query only.
PLAIN = st.text("abcXYZ0189_-.~%", min_size=1, max_size=12).map(lambda text: f"s3cr3t{text}")
# What people have in URLs although it should be escaped.
IN_USERINFO = st.text("abc019@:!$&+,;=~%", max_size=12).map(lambda text: f"s3cr3t{text}")
SCHEMES = st.sampled_from(["redis", "rediss", "amqp", "postgresql", "https", "http", "s3"])
SURROUNDINGS = st.sampled_from(["{}", "cannot reach {}: refused", "('{}', 1)", 'got "{}"', "<{}>"])


@st.composite
def shapes(draw: st.DrawFn) -> str:
    name, secret, scheme = draw(NAMES), draw(PLAIN), draw(SCHEMES)
    user, host = draw(st.sampled_from(["", "me", "a.b%40c"])), draw(st.sampled_from(["h", "[::1]"]))
    port, path = draw(st.sampled_from(["", ":6379"])), draw(st.sampled_from(["", "/0", "/a/b"]))
    text = draw(
        st.sampled_from(
            [
                f"{scheme}://{user}:{draw(IN_USERINFO)}@{host}{port}{path}",
                f"{scheme}://{user}:{secret}@@{host}{port}{path}?x=1",
                f"{scheme}://{user}:x@{secret}@{host}{port}{path}",
                f"{scheme}://{user}:x/{secret}@{host}{port}{path}",
                f"{scheme}://{secret}@{host}{port}{path}",
                f"{scheme}://{host}{port}{path}?a=b&{name}={secret}&c=d",
                f"{scheme}://{host}{port}{path}?{name}={secret}",
                f"{scheme}://{host}{port}{path}#{name}={secret}",
                f"{scheme}://{host}{port}{path}?{draw(KEYS)}={secret}",
                f"{scheme}://{host}{port}{path}?a=b&{draw(KEYS)}={secret}&c=d",
                f"{path}?{draw(KEYS)}={secret}#c",
                f"host={host} {name}={secret} dbname=d",
                f"host={host} {name}='{secret} {secret}' dbname=d",
                json.dumps({"a": 1, name: secret}),
                repr({"a": 1, name: secret}),
                f"Authorization: Bearer {secret}",
                f"X-API-Key: {secret}",
                f"Cookie: a=b; c={secret}",
            ]
        )
    )
    return draw(SURROUNDINGS).format(text)


@given(shapes())
@example("redis://me:s3cr3t@more@h/0")
@example("https://x@s3cr3t@h/0")
@example("https://h/x?password=s3cr3t")
@example("redis://:s3cr3t/x@h:6379/0")
@example("redis://me:12#s3cr3t@h/0")
@example("amqp://:1/s3cr3t@h/")
@example("postgresql://me:12?s3cr3t@h:5432/db")
@example("https://h/x?pass=s3cr3t")
@example("{'X-Auth': 's3cr3t'}")
@example("authorization=Basic s3cr3t")
@example("https://h/x?key=s3cr3t")
@example("https://h/x?a=b&amp;key=s3cr3t")
def test_no_secret_is_left(text: str) -> None:
    shown = redact(text)
    assert "s3cr3t" not in shown
    assert HIDDEN in shown
    assert redact(shown) == shown


@given(NAMES, PLAIN, st.lists(st.sampled_from(["a", "hosts", "x.org"]), max_size=4), SCHEMES)
def test_no_secret_is_left_however_deep_it_is(
    name: str, secret: str, path: list[str], scheme: str
) -> None:
    url = f"{scheme}://me:{secret}@h/"
    inner: object = {name: secret, "n": [url, {"deep": url}], f"old_{name}": {"any": [secret]}}
    for key in path:
        inner = {key: inner, "workers": 5}
    shown = json.dumps(redacted({"web": inner}))
    assert "s3cr3t" not in shown
    assert json.loads(shown).keys() == {"web"}


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/@user/x?page=2&sort=key",
        "https://example.org:8080/@user",
        "http://example.org:8080?to=me@example.org",
        "https://a.org/?bypass=1&author=me&compass=n&oauth_version=1",
        "contact: you@example.org",
        "did:plc:abc at://did:plc:abc/app.bsky.feed.post/3k",
        "amqp://host:5672/vhost",
        "http://[::1]:8080/a:b",
        "the password of this user is wrong",
        "check the user, the password and the virtual host in the URL",
        "key=https://a.org/x lane=a.org",
        "https://a.org/tokens/5?tokenize=yes",
        "https://a.org/?keyword=x&monkey=y&sortkey=z",
        "make one: export TRAWLNET_TOKEN=$(openssl rand -hex 16)",
        "name one: --queue amqp://USER:PASSWORD@HOST/",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_a_key_is_a_secret_in_the_query_of_a_url_only() -> None:
    config = {"key": "a", "url": "https://h/x?key=s3cr3t", "list": ["https://h/?b=1&key=s3cr3t&c"]}
    shown = {"key": "a", "url": "https://h/x?key=...", "list": ["https://h/?b=1&key=...&c"]}
    assert redacted(config) == shown


def test_empty_values_and_what_only_sounds_alike_stay() -> None:
    config = {"webhook": "", "webhook_shape": "slack", "key_variable": "API_KEY", "workers": 3}
    assert redacted(config) == config


@pytest.mark.parametrize("unit", ["a", "://", "a:", "@", "password", "'", "token=", "://a:", "[%"])
def test_a_long_text_takes_no_long_time(unit: str) -> None:
    begun = time.process_time()
    redact(unit * 200_000)
    assert time.process_time() - begun < 2.0


def test_a_bound_is_no_secret_whatever_it_counts() -> None:
    given = {"traps": {"max_tokens": 1000}, "max_token": "x", "tokens": 1000}
    shown = redacted(given)
    assert shown == given | {"max_token": HIDDEN, "tokens": HIDDEN}
