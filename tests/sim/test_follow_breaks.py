"""`repos follow` when a firehose ends, forgets or begins anew: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sim.test_follow import until_true
from tests.support.program import Started, trawlnet
from tests.support.repos.followed import (
    LiveWorld,
    archived_texts,
    folded_events,
    follow_flags,
    following,
    live_world,
)
from trawlnet.sim.atproto.live.event_log import FirehoseLog, StreamEnding, error_frame

pytestmark = pytest.mark.slow
ENDINGS = {
    "ConsumerTooSlow": StreamEnding(error_frame("ConsumerTooSlow", "read faster")),
    "not a frame of a firehose": StreamEnding("hello"),
    "connection": StreamEnding(),
}
FUTURE = "the server knows no message after the saved cursor"


def on_log(living: LiveWorld, call: Callable[[FirehoseLog], None]) -> None:
    async def happen() -> None:
        call(living.world.relay_stream.log)

    living.run(happen())


def live_row(workspace: Path) -> Any:
    return trawlnet("repos", "status", "-w", workspace, "--json").rows[0]["live"]


def log_of(workspace: Path) -> str:
    return "".join(path.read_text() for path in (workspace / "logs").glob("*.log"))


def act_until_true(started: Started, workspace: Path, living: LiveWorld) -> None:
    """What is in place is fetched; what happens then comes by the stream."""
    until_true(started, workspace, living)
    living.acts(15)
    until_true(started, workspace, living)


def test_a_connection_that_ends_is_opened_again_where_it_was(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with live_world(21, tmp_path, accounts=8, hosts=2) as living:
        flags = ("--follow", *follow_flags(living.world))
        with following(tmp_path, "crawl", workspace, *flags) as started:
            act_until_true(started, workspace, living)
            for words, ending in ENDINGS.items():
                on_log(living, lambda log, ending=ending: log.end_next(ending))
                living.acts(15)
                until_true(started, workspace, living)
                started.until(lambda words=words: words in log_of(workspace), words)
        folded = folded_events(workspace)
    assert folded.wrong == []
    assert folded.lines == len(folded.ids), "each event is there once"


def test_what_a_server_has_forgotten_is_compared(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with live_world(22, tmp_path, accounts=8, hosts=2) as living:
        flags = ("--follow", *follow_flags(living.world))
        with following(tmp_path, "crawl", workspace, *flags) as started:
            act_until_true(started, workspace, living)
        living.acts(40)
        on_log(living, lambda log: log.forget_but(2))
        with following(tmp_path, "crawl", workspace, *flags) as started:
            until_true(started, workspace, living)
        assert folded_events(workspace).wrong == []


def test_a_server_that_lost_its_log_is_read_from_its_start_when_asked(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with live_world(23, tmp_path, accounts=8, hosts=2) as living:
        flags = ("--follow", *follow_flags(living.world))
        with following(tmp_path, "crawl", workspace, *flags) as started:
            act_until_true(started, workspace, living)
        living.acts(20)
        on_log(living, lambda log: log.begin_anew())
        with following(tmp_path, "crawl", workspace, *flags) as started:
            started.until(lambda: FUTURE in str(live_row(workspace).get("troubles")), "the reason")
        with following(tmp_path, "crawl", workspace, *flags, "--from-start") as started:
            act_until_true(started, workspace, living)
        assert folded_events(workspace).wrong == []


def test_who_was_deleted_in_a_gap_is_found(tmp_path: Path) -> None:
    """Only one message would have told, and it is forgotten: the listing lacks the account, and
    its server says so when it is asked."""
    workspace = tmp_path / "net"
    with live_world(24, tmp_path, accounts=8, hosts=2) as living:
        flags = follow_flags(living.world)
        with following(tmp_path, "crawl", workspace, "--follow", *flags) as started:
            act_until_true(started, workspace, living)
        gone, unlisted, *others = living.writers()
        population = living.world.population
        living.run(happens(lambda: living.world.life.leave(gone)))
        # Not to be listed proves nothing.
        living.run(happens(lambda: population.members[unlisted.host].remove(unlisted.index)))
        living.write(others[:3])
        on_log(living, lambda log: log.forget_but(2))
        with following(tmp_path, "follow", workspace, *flags) as started:
            until_true(started, workspace, living)
        assert folded_events(workspace).wrong == []
        archived = archived_texts(workspace)
        assert population.dids[gone.index] not in archived
        assert population.dids[unlisted.index] in archived


async def happens(call: Callable[[], object]) -> None:
    call()
