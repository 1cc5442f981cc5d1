"""Pages that change, and vanish, visited again and again as a drawn config wants it."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds
from tests.support.web.scripted import (
    EPOCH,
    Answer,
    Asked,
    Crawled,
    VirtualClock,
    basic_config,
    crawl_scripted,
    in_virtual_time,
    page,
    scripted_web,
)
from tests.support.web.site import captures
from trawlnet.captures.line import CaptureLine
from trawlnet.engine.outcome import Reason

HOST = "127.0.0.2"
MOMENT = 0.01  # Seconds between the end of an answer and the decision when to come back.
LATE = 60.0  # Seconds that a run may take to get to a page.


@dataclass(frozen=True, slots=True)
class Living:
    """A page that changes at these seconds since the beginning."""

    changes: tuple[int, ...]
    tagged: bool  # With an ETag.
    gone: int | None = None  # Since when.

    def version(self, at: float) -> int:
        return sum(change <= at for change in self.changes)

    def is_gone(self, at: float) -> bool:
        return self.gone is not None and self.gone <= at


@dataclass(frozen=True, slots=True)
class Rhythm:
    shortest: int
    first: int  # Times the shortest.
    longest: int  # Times the first.

    def keys(self) -> dict[str, float | bool]:
        return {
            "enabled": True,
            "min_interval": self.shortest,
            "first_interval": self.shortest * self.first,
            "max_interval": self.shortest * self.first * self.longest,
        }

    def after(self, before: float | None, *, changed: bool) -> float:
        """The wait after a visit, from the wait before it."""
        first = float(self.shortest * self.first)
        if before is None:
            return first
        wait = before * (0.5 if changed else 1.5)
        return min(max(wait, self.shortest), first * self.longest)


living = st.builds(
    Living,
    st.lists(st.integers(1, 2500), max_size=4).map(tuple),
    st.booleans(),
    st.none() | st.none() | st.integers(1, 1500),
)
some_times = st.sampled_from((1, 2, 11, 90))
rhythms = st.builds(Rhythm, st.sampled_from((3, 19, 37, 200)), some_times, some_times)
rests = st.lists(st.sampled_from((20.0, 90.0, 333.0, 800.0)), min_size=1, max_size=3)


@dataclass(frozen=True, slots=True)
class Seen:
    log: Sequence[Asked]
    lines: Sequence[CaptureLine]
    begun: Sequence[float]  # Of each run.
    last: Crawled


@worlds(12)
@given(pages=st.lists(living, min_size=1, max_size=6), rhythm=rhythms, rests=rests)
def test_pages_are_visited_again_when_due_and_their_changes_are_kept(
    pages: list[Living], rhythm: Rhythm, rests: list[float]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        seen = visited(pages, rhythm, rests, Path(folder))
    for number, one in enumerate(pages):
        visits = [asked for asked in seen.log if asked.target == f"/{number}"]
        judge_rhythm(one, rhythm, visits, seen.begun)
        judge_content(number, one, visits, seen)


def judge_rhythm(
    one: Living, rhythm: Rhythm, visits: Sequence[Asked], begun: Sequence[float]
) -> None:
    wait, version = None, -1
    for visit, later in itertools.zip_longest(visits, visits[1:]):
        if one.is_gone(visit.began - EPOCH):
            return  # Whether anybody comes back to it is not promised.
        found = one.version(visit.began - EPOCH)
        wait = rhythm.after(wait, changed=found != version)
        version = found
        due = visit.ended + wait
        assert later is None or later.began >= due - MOMENT, "too early"
        in_time = [run for run in begun if run > max(due, visit.ended) + MOMENT]
        if in_time:
            assert later is not None, "it was due, and not visited again"
            assert later.began < in_time[0] + LATE, "it was due, and visited late"


def judge_content(number: int, one: Living, visits: Sequence[Asked], seen: Seen) -> None:
    there = [visit for visit in visits if not one.is_gone(visit.began - EPOCH)]
    lines = [line for line in seen.lines if line.url.endswith(f"/{number}")]
    assert bool(lines) == bool(there)
    if there:
        body = _body(number, one.version(there[-1].began - EPOCH))
        assert lines[-1].content_sha256 == hashlib.sha256(body).hexdigest()
    failed = [f.reason for key, f in seen.last.failures.items() if key.endswith(f"/{number}")]
    assert failed == [Reason.NOT_FOUND] * (len(there) < len(visits))


def visited(pages: Sequence[Living], rhythm: Rhythm, rests: Sequence[float], folder: Path) -> Seen:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/":
            return page(*(f"/{number}" for number in range(len(pages))))
        if not target[1:].isdigit() or pages[int(target[1:])].is_gone(now - EPOCH):
            return Answer(404)
        version = pages[int(target[1:])].version(now - EPOCH)
        tag = (("ETag", f'"{version}"'),) if pages[int(target[1:])].tagged else ()
        return Answer(body=_body(int(target[1:]), version), headers=tag)

    async def main() -> Seen:
        begun = []
        async with scripted_web([HOST], answers) as server:
            config, seeds = basic_config(revisit=rhythm.keys()), [server.url(HOST)]
            for number, rest in enumerate([0.0, *rests]):
                await asyncio.sleep(rest)
                begun.append(VirtualClock().now())
                done = await crawl_scripted(config, folder, seeds, f"r{number}")
            return Seen(server.log, captures(folder), begun, done)

    return in_virtual_time(main())


def _body(number: int, version: int) -> bytes:
    return f"<html><body>{number} {version}</body></html>".encode()
