"""SIGKILL at random instants of a real crawl: nothing is lost, whatever the store is made of."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.crash import crawl_roles
from tests.crash.nursery import nursery_of, size_of
from tests.support.long import times
from tests.support.program import wait_until
from tests.support.servers import redis_server
from trawlnet.captures.records import latest, read_index
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts

KILLS = times(10, 100)
MOST_BETWEEN = 4_000  # Bytes of the index from a start to its kill: some thirty keys.
# What can be written but not settled when the process dies: one batch and what it wrote before.
IN_FLIGHT = 512


@pytest.fixture(params=["lmdb", "redis"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "lmdb":
        yield tmp_path
        return
    with redis_server() as server:
        (tmp_path / "address").write_text(server.url)
        yield tmp_path


def missing(folder: Path) -> set[str]:
    """Keys that should be in the sink and are not."""
    wanted = {key for key, word in crawl_roles.expected(folder).items() if word is Reason.OK}
    return wanted - set(latest(folder / "index.jsonl"))


def counts_of(folder: Path) -> Counts:
    async def main() -> Counts:
        store = await crawl_roles.opened(folder)
        try:
            return await store.counts()
        finally:
            await store.close()

    return asyncio.run(main())


@pytest.mark.slow
def test_nothing_is_lost_over_many_kills(folder: Path) -> None:
    (folder / "roots").write_text("2000")
    dice, landed, written = random.Random(1), 0, partial(size_of, folder, "index.jsonl")
    with nursery_of("crawl_roles", folder) as nursery:
        for _ in range(KILLS):
            landed += nursery.kill_at_any_instant("sound", written, dice, MOST_BETWEEN)
        assert landed >= KILLS * 0.9, "most kills must hit a crawl at work"
        assert nursery.wait(nursery.start("sound")) == 0

    expected = Counter(crawl_roles.expected(folder).values())
    counts = counts_of(folder)
    assert counts.open == 0 and counts.leased == 0
    assert counts.remembered == counts.known == sum(expected.values())
    assert dict(counts.settled) == dict(expected)

    assert missing(folder) == set()
    records = latest(folder / "index.jsonl")
    assert len(records) == expected[Reason.OK], "each key once, and none invented"
    for key, record in records.items():
        digest = hashlib.sha256(crawl_roles.body(key)).hexdigest()
        assert [stored.sha256 for stored in record.bodies] == [digest]
    lines = sum(1 for _ in read_index(folder / "index.jsonl"))
    assert lines - len(records) <= landed * IN_FLIGHT, "written twice only around a kill"


@pytest.mark.parametrize("role", ["settle_first", "cursor_first", "dequeue_deletes"])
def test_the_check_has_teeth(role: str, tmp_path: Path) -> None:
    """Each of these breaks one invariant, and the same check sees keys missing."""
    (tmp_path / "roots").write_text("300")
    with nursery_of("crawl_roles", tmp_path) as nursery:
        pid = nursery.start(role)
        wait_until((tmp_path / crawl_roles.EXPOSED).exists, "the instant that is not covered")
        assert nursery.kill(pid)
        assert nursery.wait(nursery.start("sound")) == 0
    assert missing(tmp_path)
