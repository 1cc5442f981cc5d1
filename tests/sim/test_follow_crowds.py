"""`repos follow` beside a server that invents accounts: others do not wait for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from tests.sim.test_follow import until_true
from tests.sim.test_follow_breaks import happens
from tests.support.program import trawlnet
from tests.support.repos.followed import (
    LiveWorld,
    folded_events,
    follow_flags,
    following,
    live_world,
)
from tests.support.repos.made_repos import make_record
from trawlnet.atproto.tid import tid
from trawlnet.sim.atproto.accounts import Account
from trawlnet.sim.atproto.keyring import make_keyring
from trawlnet.sim.repository.live import CommitEvent, LiveRepo

pytestmark = pytest.mark.slow
INVENTED = 3000
DEFAULT = ("--resyncs-per-hour", "1000", "--resync-pause", "60")
BASE32 = "abcdefghijklmnopqrstuvwxyz234567"


def invented_dids(count: int) -> Iterator[str]:
    """Every tenth names a web site, where nobody answers."""
    for number in range(count):
        name = "".join(BASE32[byte % 32] for byte in sha256(b"%d" % number).digest()[:24])
        yield f"did:web:127.0.0.1%3A{number + 1}" if number % 10 == 0 else f"did:plc:{name}"


def invent(living: LiveWorld, count: int) -> None:
    """Commits of accounts that there are not, each as sound as a real one."""
    rng, key = Random(5), make_keyring(5)[1]
    rev = tid(int(time.time() * 1e6))

    def commit(did: str) -> CommitEvent:
        changes = {f"app.bsky.feed.post/{rev}": make_record(rng)}
        return LiveRepo(did, key).commit(changes, rev)

    log = living.world.relay_stream.log
    events = [commit(did) for did in invented_dids(count)]
    living.run(happens(lambda: [log.add(one.did, "#commit", one.payload(0)) for one in events]))


def test_an_account_behind_thousands_that_were_invented_is_fetched_soon(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with live_world(31, tmp_path, accounts=8, hosts=2) as living:
        invent(living, INVENTED)
        first, second = living.writers()[:2]
        living.write([first])
        dids = living.world.population.dids

        def is_told_of(account: Account) -> bool:
            return dids[account.index] in folded_events(workspace).records

        flags = (*follow_flags(living.world), *DEFAULT, "--from-start")
        with following(tmp_path, "follow", workspace, *flags) as started:
            started.until(
                lambda: dids[first.index] in folded_events(workspace).records, "its events"
            )
            invent(living, 10)
            living.write([first, second])
            rev = living.run(true_rev(living, first.index))
            started.until(lambda: is_told_of_rev(workspace, rev), "its next commit")
            started.until(lambda: is_told_of(second), "another")
        live = trawlnet("repos", "status", "-w", workspace, "--json").rows[0]["live"]
        assert live["desynchronized"] > INVENTED / 2, "most of them wait still"


def test_a_crawl_that_follows_goes_on_beside_thousands_that_were_invented(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with live_world(32, tmp_path, accounts=20, hosts=2) as living:
        invent(living, INVENTED)
        living.acts(20)
        flags = ("--follow", *follow_flags(living.world), *DEFAULT, "--from-start")
        with following(tmp_path, "crawl", workspace, *flags) as started:
            until_true(started, workspace, living)
            living.write(living.writers())
            until_true(started, workspace, living)
        assert folded_events(workspace).wrong == []


async def true_rev(living: LiveWorld, index: int) -> str:
    return living.world.life.truth_of(index).rev


def is_told_of_rev(workspace: Path, rev: str) -> bool:
    logs = (workspace / "spool" / "repo_events").glob("*.jsonl")
    return any(rev in path.read_text() for path in logs)
