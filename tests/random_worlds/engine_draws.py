"""How a world, its config and its runs are drawn: values around thresholds, no two rates alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.random_worlds.engine_world import Habit, Host, Spell, World
from trawlnet.engine.crawl import Limits
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task


@dataclass(frozen=True, slots=True)
class Run:
    """One process: how many workers it has, and what ends it."""

    workers: int
    kill_at: int | None = None  # At this step over an edge of the engine.
    most_tasks: int | None = None
    most_seconds: float | None = None
    drain_at: float | None = None  # Seconds after its beginning.
    pause: tuple[float, float] | None = None  # From when, and for how long.
    retry: bool = False  # Put failures back before it begins.
    first_look: float = 1.0  # Seconds until somebody looks at the figures, and twice as long each.


@dataclass(frozen=True, slots=True)
class Config:
    limits: Limits
    manners: Manners
    patience: float  # Of the gate; a task that is started ahead of time needs as much.
    remember_done: bool
    embedded: bool  # LMDB, or else memory.
    runs: tuple[Run, ...]


RATES = st.sampled_from([0.07, 0.3, 0.5, 0.9, 1.0, 2.3, 5.0, 11.0, 70.0, math.inf])
SECONDS = st.sampled_from([0.0, 0.001, 0.04, 0.05, 0.3, 1.0, 2.7])
WAITS = st.one_of(
    st.none(), st.sampled_from([0.0, 0.0005, 0.2, 0.99, 1.0, 1.01, 4.0, 31.0, 700.0, 9e4])
)


@st.composite
def manners(draw: st.DrawFn) -> Manners:
    return Manners(
        rate=draw(RATES),
        burst=draw(st.sampled_from([1, 1, 1, 2, 5])),
        concurrency=draw(st.integers(1, 5)),
        halve_every=draw(st.integers(1, 5)),
        floor=draw(st.sampled_from([0.05, 0.5, 3.0])),
        block_at=draw(st.sampled_from([1, 2, 4, 6, 10, 1000])),
        first_park=draw(st.sampled_from([0.5, 5.0, 40.0])),
        longest_park=draw(st.sampled_from([3.0, 60.0, 3600.0])),
    )


SPELLS = st.builds(
    Spell,
    st.sampled_from(Habit),
    st.sampled_from([1, 2, 3, 5, 9, 15]),
    st.one_of(SECONDS, st.sampled_from([0.0, 30.0, 400.0])),
    WAITS,
)


# As quick to fail as can be: what a lane in trouble gets is all that slows this one down.
QUICK_TO_FAIL = st.builds(
    Spell, st.sampled_from([Habit.DOWN, Habit.BUSY]), st.just(40), st.just(0.0), st.just(0.0)
)


@st.composite
def hosts(draw: st.DrawFn, name: str) -> Host:
    own = draw(st.one_of(st.none(), manners()))
    if draw(st.integers(0, 5)) == 0:
        return Host(name, (draw(QUICK_TO_FAIL),), (0.0,), own)
    spells, connect = st.lists(SPELLS, max_size=4), st.lists(SECONDS, min_size=1, max_size=3)
    return Host(name, tuple(draw(spells)), tuple(draw(connect)), own)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    names = [f"h{n}" for n in range(draw(st.integers(1, 5)))]
    tasks = st.builds(
        lambda number, due, score: Task(
            f"k{number}", names[number % len(names)], {"n": number}, due, score
        ),
        st.integers(0, 40),
        st.sampled_from([0.0, 0.0, 0.0, 2.0, 50.0]),
        st.sampled_from([0.0, 0.0, 1.0, -3.5]),
    )
    pages = draw(st.lists(st.lists(tasks, max_size=12), max_size=5))
    links = draw(st.lists(tasks, max_size=8))
    calls = draw(st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.002, 0.3]), min_size=1, max_size=5))
    return World(
        tuple(draw(hosts(name)) for name in names),
        tuple(tuple(page) for page in pages),
        tuple(links),
        draw(SECONDS),
        draw(SECONDS),
        tuple(calls),
    )


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    high = draw(st.sampled_from([0, 3, 20, 1000]))
    return Limits(
        batch=draw(st.sampled_from([1, 2, 7, 256])),
        linger=draw(st.sampled_from([0.0, 0.0, 0.02, 1.5])),
        backlog=draw(st.sampled_from([1, 3, 256])),
        unsettled=draw(st.sampled_from([0, 0, 1, 5, 100])),
        lease=draw(st.sampled_from([8.0, 120.0, 5000.0])),
        ahead=draw(st.sampled_from([0.0, 0.05, 0.4])),
        gather=draw(st.sampled_from([0.0, 0.02])),
        high_water=high,
        few_lanes=draw(st.sampled_from([0, 2, 4])),
        highest_water=high + draw(st.sampled_from([0, 10])),
        lanes=draw(st.sampled_from([2, 4, 1000])),
        retry=RetryPolicy(
            attempts=draw(st.integers(1, 5)),
            patience=draw(st.sampled_from([0, 1, 4, 20])),
            base=draw(st.sampled_from([0.01, 0.7, 2.0])),
            cap=draw(st.sampled_from([5.0, 3600.0])),
            jitter=draw(st.sampled_from([0.0, 0.25])),
        ),
    )


RUNS = st.builds(
    Run,
    workers=st.sampled_from([1, 2, 3, 8, 50]),
    kill_at=st.one_of(st.none(), st.integers(1, 120)),
    most_tasks=st.one_of(st.none(), st.integers(0, 30)),
    most_seconds=st.one_of(st.none(), st.sampled_from([0.0, 0.5, 3.0, 60.0])),
    drain_at=st.one_of(st.none(), st.sampled_from([0.0, 0.3, 5.0])),
    pause=st.one_of(st.none(), st.sampled_from([(0.0, 2.0), (1.0, 30.0), (0.7, 400.0)])),
    retry=st.booleans(),
    first_look=st.sampled_from([0.0301, 0.3, 1.7]),
)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    last = Run(draw(st.sampled_from([1, 2, 9, 40])), retry=draw(st.booleans()))
    return Config(
        draw(limits()),
        draw(manners()),
        draw(st.sampled_from([0.4, 1.0])),
        draw(st.booleans()),
        draw(st.booleans()),
        (*draw(st.lists(RUNS, max_size=3)), last),
    )
