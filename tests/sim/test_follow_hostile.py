"""`repos follow` beside servers that send every kind of hostile frame, as fast as they are read:
none is believed, none ends it, and none slows the events of others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.sim.test_follow import until_true
from tests.sim.test_follow_crowds import is_told_of_rev, true_rev
from tests.support.atproto.made_commits import DID, OTHER_DID
from tests.support.repos.followed import (
    LiveWorld,
    folded_events,
    follow_flags,
    following,
    live_world,
)
from tests.support.repos.hostile_pds import HostilePds, hostile_pdses, slander_of
from tests.support.repos.made_repos import make_record
from trawlnet.atproto.firehose.refusal import Refusal
from trawlnet.atproto.tid import tid
from trawlnet.crawlers.repos.following.judging import Rejection
from trawlnet.crawlers.repos.following.live_store import look_at_live
from trawlnet.sim.atproto.keyring import make_keyring
from trawlnet.sim.repository.live import LiveRepo

pytestmark = pytest.mark.slow
SERVERS = 8
WRITES = 20
A_VOLLEY = 100  # Hostile messages before a good one.
MOST_MEANWHILE = 20_000  # Hostile messages between a commit and its events.
MEMORY = ("--follow-memory", "64M")
MOST_MEMORY = 800 << 20  # A message of five million bytes is in memory more than once.
# Other signatures fit the keys of accounts that nobody knows, and revs of that future are of the
# past by now; what is too long ends the connection before it is a frame.
UNSEEN = {Refusal.BAD_SIGNATURE, Refusal.FUTURE_REV, Refusal.FRAME_TOO_LARGE}
REFUSED = {*map(str, set(Refusal) - UNSEEN), str(Rejection.WRONG_HOST)}


@contextmanager
def hostile_servers(living: LiveWorld) -> Iterator[list[HostilePds]]:
    rng, key, rev = Random(7), make_keyring(99)[0], tid(int(time.time() * 1e6))
    slanders: list[bytes] = []
    for account in living.writers():
        did = living.world.population.dids[account.index]
        forged = LiveRepo(did, key).commit({"app.bsky.feed.post/forged": make_record(rng)}, rev)
        slanders += [*slander_of(did), forged.frame(7)]
    servers = hostile_pdses(SERVERS, slanders)
    for one in servers:
        living.run(one.open())
    try:
        yield servers
    finally:
        for one in servers:
            living.run(one.close())


def sent(hostile: list[HostilePds]) -> int:
    return sum(one.sent for one in hostile)


def refusals(workspace: Path) -> set[str]:
    look = look_at_live(workspace / "state" / "repos")
    return set() if look is None else set(look.figures.rejected)


def highest_memory(pid: int) -> int:
    """Bytes that the process has ever had at once."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(kilobytes) << 10


def test_hostile_servers_slow_nobody(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with (
        live_world(41, tmp_path, accounts=8, hosts=2) as living,
        hostile_servers(living) as hostile,
    ):
        writers = living.writers()
        living.write(writers)
        upstreams = ["--relay", living.world.relay]
        for one in hostile:
            upstreams += ["--pds", one.url]
        flags = (*follow_flags(living.world, *upstreams), *MEMORY, "--from-start")
        with following(tmp_path, "follow", workspace, *flags) as started:
            until_true(started, workspace, living)
            for number in range(WRITES):
                writer = writers[number % len(writers)]
                under_fire = sent(hostile) + A_VOLLEY
                started.until(lambda least=under_fire: sent(hostile) >= least, "a volley")
                living.write([writer])
                told_at = sent(hostile)
                rev = living.run(true_rev(living, writer.index))
                started.until(lambda rev=rev: is_told_of_rev(workspace, rev), "its events")
                assert sent(hostile) - told_at < MOST_MEANWHILE
            started.until(lambda: refusals(workspace) >= REFUSED, "every kind")
            until_true(started, workspace, living)
            assert highest_memory(started.pid) < MOST_MEMORY
        folded = folded_events(workspace)
        assert folded.wrong == [], "nobody was gone"
        assert not folded.records.keys() & {DID, OTHER_DID}, "nothing was believed"
