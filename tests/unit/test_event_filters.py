"""What clients of `repos serve` may ask for, and the shape of what they get."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trawlnet.crawlers.repos.events.event import (
    AccountEvent,
    IdentityEvent,
    RecordEvent,
    RepoEvent,
    StampedEvent,
)
from trawlnet.crawlers.repos.serving.filters import EventFilter, parse_query, parse_update
from trawlnet.crawlers.repos.serving.wire import WireMessage, wire_message
from trawlnet.malformed import Malformed

POST = RecordEvent("did:plc:a", "3k", "create", "app.bsky.feed.post", "1", "bafy", b'{"t":1}')
GONE = RecordEvent("did:plc:a", "3k", "delete", "app.bsky.feed.post", "1", None, None)
HANDLE = IdentityEvent("did:plc:a", "a.example.org", 7, "2026-01-01T00:00:00Z")
PAUSED = AccountEvent("did:plc:a", False, "deactivated", 8, "2026-01-01T00:00:00Z")


def shape(event: RepoEvent) -> Any:
    return json.loads(wire_message(StampedEvent(5, event)).text)


def test_commits_have_the_shape_of_jetstream() -> None:
    place = {"rev": "3k", "collection": "app.bsky.feed.post", "rkey": "1"}
    head = {"did": "did:plc:a", "time_us": 5, "kind": "commit"}
    created = {**place, "operation": "create", "record": {"t": 1}, "cid": "bafy"}
    assert shape(POST) == {**head, "commit": created}
    assert shape(GONE) == {**head, "commit": {**place, "operation": "delete"}}


def test_identity_and_account_have_the_shape_of_jetstream() -> None:
    head = {"did": "did:plc:a", "time_us": 5}
    same = {"did": "did:plc:a", "time": "2026-01-01T00:00:00Z"}
    identity = {**same, "handle": "a.example.org", "seq": 7}
    assert shape(HANDLE) == {**head, "kind": "identity", "identity": identity}
    account = {**same, "active": False, "status": "deactivated", "seq": 8}
    assert shape(PAUSED) == {**head, "kind": "account", "account": account}
    assert "handle" not in shape(IdentityEvent("did:plc:a", None, 7, ""))["identity"]
    assert "status" not in shape(AccountEvent("did:plc:a", True, None, 8, ""))["account"]


def wanted(*words: str) -> EventFilter:
    query = [tuple(word.split("=", 1)) for word in words]
    return parse_query(query, {}).wanted  # type: ignore[arg-type]


def message(event: RepoEvent) -> WireMessage:
    return wire_message(StampedEvent(5, event))


@pytest.mark.parametrize(
    ("words", "takes_post", "takes_account"),
    [
        ([], True, True),
        (["wantedCollections=app.bsky.feed.post"], True, True),
        (["wantedCollections=app.bsky.feed.*"], True, True),
        (["wantedCollections=app.bsky.*", "wantedCollections=a.b.c"], True, True),
        (["wantedCollections=app.bsky.graph.*"], False, True),
        (["wantedCollections=app.bsky.feed.postgate"], False, True),
        (["wantedDids=did:plc:a"], True, True),
        (["wantedDids=did:plc:b"], False, False),
        (["wantedDids=did:plc:a", "wantedCollections=a.b.c"], False, True),
        (["maxMessageSizeBytes=20"], False, False),
        (["maxMessageSizeBytes=-5"], True, True),
        (["maxMessageSizeBytes=words"], True, True),
        (["maxMessageSizeBytes=100000"], True, True),
    ],
)
def test_filters(words: list[str], takes_post: bool, takes_account: bool) -> None:
    found = wanted(*words)
    assert found.take(message(POST)) is takes_post
    assert found.take(message(PAUSED)) is takes_account


def test_a_query_says_where_to_begin_and_how() -> None:
    request = parse_query([("cursor", "17"), ("requireHello", "true"), ("compress", "true")], {})
    assert (request.cursor, request.waits_for_hello, request.compressed) == (17, True, True)
    assert parse_query([], {"socket-encoding": "zstd"}).compressed
    plain = parse_query([("cursor", ""), ("requireHello", "yes")], {})
    assert (plain.cursor, plain.waits_for_hello, plain.compressed) == (None, False, False)


@pytest.mark.parametrize(
    "words",
    [
        ["cursor=abc"],
        ["cursor=-1"],
        ["cursor=1.5"],
        ["cursor=" + "9" * 30],
        ["wantedCollections=app.bsky.fo*"],
        ["wantedCollections=nothing"],
        [f"wantedCollections=a.b.c{n}" for n in range(101)],
        ["wantedDids=alice.example.org"],
        [f"wantedDids=did:plc:{n}" for n in range(10_001)],
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str]) -> None:
    with pytest.raises(Malformed):
        wanted(*words)


def test_an_update_replaces_all_filter() -> None:
    payload = {"wantedCollections": ["a.b.*"], "wantedDids": [], "maxMessageSizeBytes": 9}
    text = json.dumps({"type": "options_update", "payload": payload})
    assert parse_update(text) == EventFilter(prefixes=("a.b.",), largest=9)
    nothing = {"wantedCollections": None, "maxMessageSizeBytes": -1}
    assert parse_update(json.dumps({"type": "options_update", "payload": nothing})) == EventFilter()
    assert parse_update('{"type":"greeting","payload":{"wantedDids":5}}') is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"type":5}',
        '{"type":"options_update","payload":[]}',
        '{"type":"options_update","payload":{"wantedDids":"did:plc:a"}}',
        '{"type":"options_update","payload":{"wantedDids":["x"]}}',
        '{"type":"options_update","payload":{"wantedCollections":[1]}}',
        b"\xff\xfe",
    ],
)
def test_an_update_that_is_none_is_refused(text: str | bytes) -> None:
    with pytest.raises(Malformed):
        parse_update(text)
