"""SIGKILL for producers and consumers of a spool, at any instant: no published message is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.crash.nursery import Nursery, nursery_of
from tests.support.long import times
from tests.support.program import PATIENCE, wait_until

KILLS = times(20, 40)


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    with nursery_of("spool_roles", tmp_path) as nursery:
        yield nursery


def noted(nursery: Nursery, log: str) -> set[int]:
    path = nursery.folder / log
    return {int(line) for line in path.read_bytes().split()} if path.exists() else set()


def torture(nursery: Nursery) -> set[int]:
    """Kill one of the two again and again. Returns keys the bookmark had passed without work."""
    dice = random.Random(1)
    passed: set[int] = set()
    running = {role: nursery.start(role) for role in ("producer", "consumer")}
    for kill in range(KILLS):
        time.sleep(dice.uniform(0.005, 0.08))
        if kill % 2:  # On a busy machine a process may not have got anywhere yet.
            wait_for_progress(nursery)
        role = dice.choice(["producer", "consumer"])
        assert nursery.kill(running.pop(role)), "it had ended by itself"
        if role == "consumer":
            passed |= passed_by(nursery)
        running[role] = nursery.start(role)
    for pid in running.values():
        nursery.kill(pid)
    return passed


def wait_for_progress(nursery: Nursery) -> None:
    before = progress(nursery)
    deadline = time.monotonic() + PATIENCE
    while any(log <= old for log, old in zip(progress(nursery), before, strict=True)):
        assert time.monotonic() < deadline, "nobody gets anywhere"
        time.sleep(0.002)


def progress(nursery: Nursery) -> list[set[int]]:
    return [noted(nursery, "published"), noted(nursery, "worked")]


def passed_by(nursery: Nursery) -> set[int]:
    return behind_bookmark(nursery) - noted(nursery, "worked")


def behind_bookmark(nursery: Nursery) -> set[int]:
    """Published keys before the place where the next consumer will begin."""
    spool = nursery.folder / "finds"
    file = spool / "finds.bookmark.json"
    if not file.exists():
        return set()
    place = orjson.loads(file.read_bytes())
    # The log is read first: what is published later is behind no bookmark yet.
    published = noted(nursery, "published")
    for path in sorted(spool.glob("finds-*.jsonl")):
        if path.name < place["file"]:
            continue
        start = place["offset"] if path.name == place["file"] else 0
        for line in path.read_bytes()[start:].splitlines(keepends=True):
            if line.endswith(b"\n"):
                next_key = orjson.loads(line)["key"]
                return {key for key in published if key < next_key}
    return set()


def finish(nursery: Nursery) -> None:
    assert nursery.wait(nursery.start("last")) == 0


def test_no_published_message_is_lost_over_many_kills(nursery: Nursery) -> None:
    passed = torture(nursery)
    finish(nursery)
    published, worked = noted(nursery, "published"), noted(nursery, "worked")
    assert len(published) >= KILLS // 2, "the producers got somewhere between the kills"
    assert published - worked == set(), "published but never worked on"
    assert worked - noted(nursery, "attempted") == set(), "worked on what nobody published"
    assert noted(nursery, "broken") == set(), "a torn message was consumed"
    assert passed == set(), "the bookmark ran ahead of the work"
    assert not (nursery.folder / "finds" / "finds.poison.jsonl").exists()


def test_acking_before_the_work_is_caught_as_loss(nursery: Nursery) -> None:
    """The check above has teeth: this consumer saves its bookmark first, and loses messages."""
    pids = [nursery.start(role) for role in ("producer", "eager")]
    wait_until(lambda: bool(passed_by(nursery)), "the bookmark is ahead of the work")
    for pid in pids:
        assert nursery.kill(pid)
    finish(nursery)
    assert noted(nursery, "published") - noted(nursery, "worked"), "messages were lost for good"
