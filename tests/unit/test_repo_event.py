"""Events of repositories: their JSON, and ids that stay."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.crawlers.atproto.streams.host_cursor import seconds_of
from trawlnet.crawlers.repos.events.event import (
    AccountEvent,
    IdentityEvent,
    Operation,
    RecordEvent,
    RepoEvent,
    StampedEvent,
    decode_event,
    encode_event,
    event_id,
    time_of,
)
from trawlnet.crawlers.repos.events.unsaved import UnsavedChanges, iso_of, unsaved_changes
from trawlnet.malformed import Malformed

POST = RecordEvent(
    "did:plc:a", "3kabc", "create", "app.bsky.feed.post", "3k1", "bafyone", b'{"text":"hello"}'
)
GONE = RecordEvent("did:plc:a", "3kabd", "delete", "app.bsky.feed.post", "3k1", None, None)
RENAMED = IdentityEvent("did:plc:a", "a.example.org", 7, "2026-01-01T00:00:00Z")
LEFT = AccountEvent("did:plc:a", False, "deleted", 8, "2026-01-01T00:00:01Z")


def test_a_commit_has_the_documented_fields() -> None:
    assert json.loads(encode_event(1_700_000_000_000_001, POST)) == {
        "id": event_id(POST),
        "did": "did:plc:a",
        "rev": "3kabc",
        "time_us": 1_700_000_000_000_001,
        "kind": "commit",
        "operation": "create",
        "collection": "app.bsky.feed.post",
        "rkey": "3k1",
        "cid": "bafyone",
        "record": {"text": "hello"},
    }


def test_a_delete_has_neither_cid_nor_record() -> None:
    line = json.loads(encode_event(5, GONE))
    assert (line["operation"], line["cid"], line["record"]) == ("delete", None, None)


def test_identity_and_account_carry_their_fields() -> None:
    identity, account = (json.loads(encode_event(5, one)) for one in (RENAMED, LEFT))
    assert identity["kind"] == "identity"
    assert (identity["handle"], identity["seq"]) == ("a.example.org", 7)
    assert account["kind"] == "account"
    assert (account["active"], account["status"], account["seq"]) == (False, "deleted", 8)


def test_the_record_comes_back_as_it_was_written() -> None:
    """A parser in between would round numbers beyond 64 bits and reorder nothing else."""
    text = b'{"n":123456789012345678901234567890,"f":1.10,"t":"\\u0000 \\ud83d\\ude00"}'
    event = replace(POST, record=text)
    assert decode_event(encode_event(9, event)) == StampedEvent(9, event)


def test_a_record_of_several_lines_stays_one_line() -> None:
    line = encode_event(9, replace(POST, record=b'{"a":\n 1}'))
    assert b"\n" not in line
    assert json.loads(line)["record"] == {"a": 1}


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
EVENTS: st.SearchStrategy[RepoEvent] = st.one_of(
    st.builds(
        RecordEvent,
        NAMES,
        NAMES,
        st.sampled_from(["create", "update", "delete"]),
        NAMES,
        NAMES,
        st.none() | NAMES,
        st.none() | st.dictionaries(NAMES, NAMES).map(lambda value: json.dumps(value).encode()),
    ),
    st.builds(IdentityEvent, NAMES, st.none() | NAMES, st.integers(0, 2**53), NAMES),
    st.builds(AccountEvent, NAMES, st.booleans(), st.none() | NAMES, st.integers(0, 2**53), NAMES),
)


@given(st.integers(0, 2**53), EVENTS)
def test_every_event_survives_its_line(time_us: int, event: RepoEvent) -> None:
    line = encode_event(time_us, event)
    assert decode_event(line) == StampedEvent(time_us, event)
    assert time_of(line) == time_us
    assert json.loads(line)["id"] == event_id(event)


@given(EVENTS, EVENTS)
def test_different_events_have_different_ids(one: RepoEvent, other: RepoEvent) -> None:
    def identity(event: RepoEvent) -> object:
        if isinstance(event, IdentityEvent):
            return (event.did, event.time) if seconds_of(event.time) is not None else event
        # A CID stands for the record.
        return replace(event, record=None) if isinstance(event, RecordEvent) else event

    assert (event_id(one) == event_id(other)) == (identity(one) == identity(other))


def test_the_id_is_written_down() -> None:
    """Consumers keep ids for long: a change of how they are made is a change of the format."""
    assert event_id(POST) == "a93fc1c7c59b3577b2e753e62b28549c"
    assert event_id(LEFT) == "202ec9d4db631f5427032174a7fe244b"
    assert event_id(RENAMED) == "8e723f4adb606ef6d8b4423a1e80ab55"


def test_a_change_of_an_identity_has_one_id_whoever_tells_of_it() -> None:
    """Relays number messages anew, and some leave the handle out; the time they pass on."""
    assert event_id(replace(RENAMED, seq=1_000_000, handle=None)) == event_id(RENAMED)
    assert event_id(replace(RENAMED, time="2026-01-01T00:00:01Z")) != event_id(RENAMED)
    timeless = replace(RENAMED, time="")
    assert event_id(replace(timeless, seq=8)) != event_id(timeless)


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b'{"kind":"commit"}', b'{"kind":"other","time_us":1}', b"\xff", b'{"a":'],
)
def test_what_is_no_event_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        decode_event(line)


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"time_us":"1"}', b"\xff"])
def test_what_has_no_time_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        time_of(line)


def test_what_was_published_last_is_folded_by_account() -> None:
    one, other = cid_of(b"1"), cid_of(b"2")

    def change(word: Operation, rkey: str, cid: Cid | None) -> RecordEvent:
        return RecordEvent("did:plc:a", "3k", word, "a.b.c", rkey, cid and str(cid), None)

    gone = AccountEvent("did:plc:a", False, "takendown", 0, "2026-01-02T03:04:05.000067Z")
    back = AccountEvent("did:plc:a", True, None, 0, gone.time)
    told = IdentityEvent("did:plc:b", None, 1, "")
    first = [change("create", "1", one), change("update", "1", other), change("delete", "2", None)]
    found = unsaved_changes([*first, told])
    assert found == {"did:plc:a": UnsavedChanges({b"a.b.c/1": other.raw, b"a.b.c/2": None})}
    away = unsaved_changes([*first, gone])["did:plc:a"]
    assert (away.cids, away.is_away, away.status) == ({}, True, "takendown")
    assert iso_of(away.withdrawn_us) == gone.time
    again = unsaved_changes([*first, gone, back, change("create", "3", one)])["did:plc:a"]
    assert (again.cids, again.is_away) == ({b"a.b.c/3": one.raw}, False)
    assert again.withdrawn_us == away.withdrawn_us
