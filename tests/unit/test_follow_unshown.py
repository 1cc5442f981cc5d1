"""Records without a JSON form, as commits tell of them: as if there were nothing at their place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.atproto.made_commits import DID, KEYS, NOW, made_repo, rev_at
from tests.unit.test_follow_judging import HOME, Court, frame_of, records
from trawlnet.archive.format.folding import ArchivedState, StateRecord
from trawlnet.atproto.dagcbor import encode
from trawlnet.crawlers.repos.following.archived_states import ArchivedStates
from trawlnet.crawlers.repos.following.live_state import LiveState, ResyncCause, Standing

PATH = "app.bsky.feed.post/odd"
GOOD = encode({"text": "good"})
ODD = encode({"n": -(2**63) - 1})
OTHER_ODD = encode({"n": -(2**63) - 2})


def court_of() -> Court:
    repo = made_repo(20)
    return Court(LiveState(repo.rev, repo.tree.root.raw, KEYS[1].did_key, HOME), repo)


def told(court: Court, *values: bytes | None) -> list[str]:
    """The events of a record that is this, and then that; one commit each, and one batch."""
    operations = []
    for number, value in enumerate(values):
        event = court.repo.commit({PATH: value}, rev_at(-60.0 + number))
        judge = court.judge(frame_of(event))
        assert judge.change.verified == 1
        operations.append(" ".join(one.operation for one in records(judge)))
        court.state = judge.change.states[DID]
    return operations


@pytest.mark.parametrize(
    ("values", "operations"),
    [
        ((ODD, None), ["", ""]),
        ((ODD, OTHER_ODD, None), ["", "", ""]),
        ((ODD, GOOD, None), ["", "create", "delete"]),
        ((GOOD, ODD, GOOD), ["create", "delete", "create"]),
        ((GOOD, ODD, OTHER_ODD), ["create", "delete", ""]),
        ((ODD, None, GOOD, None), ["", "", "create", "delete"]),
    ],
)
def test_consumers_hear_only_of_what_they_have(
    values: tuple[bytes | None, ...], operations: list[str]
) -> None:
    assert told(court_of(), *values) == operations


def test_whoever_has_too_many_of_them_is_read_by_visits() -> None:
    court = court_of()
    paths = [f"app.bsky.feed.post/odd{number}" for number in range(101)]
    event = court.repo.commit(dict.fromkeys(paths, ODD), rev_at(-70.0))
    court.state = court.judge(frame_of(event)).change.states[DID]
    assert court.state.unshown is None
    assert told(court, GOOD) == ["create"], "what is new is new"
    judge = court.judge(frame_of(court.repo.commit({paths[0]: GOOD}, rev_at(-10.0))))
    assert judge.change.causes == {DID: ResyncCause.ARCHIVED}
    assert judge.change.states[DID].standing is Standing.DESYNCHRONIZED and not judge.events


def archive(is_wanted: Callable[[str], bool]) -> ArchivedStates:
    nothing: Any = None
    return ArchivedStates(Path("nowhere"), nothing, is_wanted)


def test_what_the_archive_has_left_out_was_never_told() -> None:
    """Of collections that are wanted: the others are left out as well."""
    court = court_of()
    shown = {b"a/1": StateRecord(b"cid", b"{}")}
    left_out = {PATH.encode(): b"cid", b"other.thing/x": b"cid"}
    state = ArchivedState(DID, HOME, court.repo.rev, int(NOW), b"", b"", shown, left_out)
    after = archive(lambda name: name == "app.bsky.feed.post").state_after(state, b"root")
    court.repo.commit({PATH: ODD}, rev_at(-90.0))
    after = replace(
        after, rev=court.repo.rev, data=court.repo.tree.root.raw, key=KEYS[1].did_key, pds=HOME
    )
    court.state = after
    assert after.unshown is not None and len(after.unshown) == 1
    assert told(court, GOOD, None) == ["create", "delete"]
