"""What `status` says about streams that nobody reads at the moment."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor
from trawlnet.crawlers.repos.following.figures.live_row import live_at_rest
from trawlnet.crawlers.repos.following.figures.resync_wait import LOOKED_AT, resync_wait
from trawlnet.crawlers.repos.following.live_state import LiveState, Standing
from trawlnet.crawlers.repos.following.live_store import DueVisit, LiveChange, LiveStore

NOW = 1_767_225_660.0  # A minute into 2026.
CURSORS = {
    "old.example": HostCursor(7, "2020-01-01T00:00:00Z"),
    "relay.example": HostCursor(8, "2026-01-01T00:00:00Z"),
}


def saved(folder: Path, *followed: str) -> None:
    live = LiveStore.open(folder)
    live.apply(LiveChange(cursors=dict(CURSORS)))
    if followed:
        live.follow(followed)
    live.close()


def test_only_streams_that_the_last_process_followed_are_behind(tmp_path: Path) -> None:
    saved(tmp_path, "old.example")
    saved(tmp_path, "relay.example", "new.example")
    row = live_at_rest(tmp_path, NOW)
    assert row is not None
    assert row["seconds_behind"] == 60.0
    assert row["cursor"] == {"old.example": 7, "relay.example": 8}, "where it would go on"


def test_before_any_message_of_those_that_are_followed_nothing_is_known(tmp_path: Path) -> None:
    saved(tmp_path, "new.example")
    row = live_at_rest(tmp_path, NOW)
    assert row is not None and row["seconds_behind"] is None


def test_of_a_process_that_did_not_say_whom_it_followed_all_count(tmp_path: Path) -> None:
    saved(tmp_path)
    row = live_at_rest(tmp_path, NOW)
    assert row is not None and row["seconds_behind"] > 5 * 365 * 86_400


def waiting_until(at: float) -> LiveState:
    return LiveState("rev", standing=Standing.DESYNCHRONIZED, asked_at=at, asks=3)


def test_status_says_until_when_desynchronized_accounts_wait(tmp_path: Path) -> None:
    live = LiveStore.open(tmp_path)
    states = {
        "did:plc:a": waiting_until(NOW + 60),
        "did:plc:b": waiting_until(NOW + 3600),
        "did:plc:c": LiveState("rev", asked_at=NOW + 1, missed_at=NOW),  # Only to be asked.
        "did:plc:d": waiting_until(NOW + 90),
    }
    due = [DueVisit(did, state.asked_at) for did, state in states.items()]
    # An earlier visit of one that has been put off since.
    live.apply(LiveChange(states, [*due, DueVisit("did:plc:a", NOW + 30)]))
    # One that is looked at before its turn at its server.
    states["did:plc:e"] = replace(waiting_until(NOW + 1800), has_slot=True)
    live.apply(LiveChange(states, [DueVisit("did:plc:e", NOW + 15)]))
    assert resync_wait(live.first_due(LOOKED_AT), live.states) == (4, NOW + 60, NOW + 3600)
    live.close()
    row = live_at_rest(tmp_path, NOW)
    assert row is not None
    assert row["resyncs_waiting"] == {
        "accounts": 4,
        "next_at": "2026-01-01T00:02:00Z",
        "last_at": "2026-01-01T01:01:00Z",
    }


def test_without_one_nobody_waits(tmp_path: Path) -> None:
    saved(tmp_path)
    row = live_at_rest(tmp_path, NOW)
    assert row is not None and row["resyncs_waiting"] == {"accounts": 0}
