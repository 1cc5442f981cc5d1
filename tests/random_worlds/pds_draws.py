"""Worlds for the pds crawl, drawn: hosts and accounts, what befalls them, and who crawls them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.random_worlds.pds_world import COLLECTIONS
from tests.random_worlds.stated import PLAIN, Stated, stated
from trawlnet.crawlers.pds.config import PdsConfig

HOUR, DAY = 3600.0, 86_400.0
BUSY, QUIET = 2 * DAY, 9 * DAY
EVERY = 14 * HOUR
ILL_FOR = 2.5 * HOUR  # At most, and each host three times: fewer than five failures in a row.
ROUND = 50
ACCOUNTS = tuple(f"account{number}" for number in range(5))
HOSTS = ("one.pds-world.net", "two.pds-world.net")


@dataclass(frozen=True)
class Event:
    at: float
    kind: str
    account: str
    number: int
    collection: str


@dataclass(frozen=True)
class Sickness:
    at: float
    requests: int  # To the host, since then: it falls ill while it is asked.
    host: int
    kind: str
    seconds: float
    said: Stated = PLAIN


@dataclass(frozen=True)
class Banned:
    """Somebody bans a host while it is asked, and others go on telling of it."""

    host: int
    requests: int  # To the host, before.
    moment: float  # Seconds after the last of them.
    told_every: float
    lasts: float  # Infinity: for good.
    erase: bool


@dataclass(frozen=True)
class Death:
    """Of a crawl: stopped, or killed, which writes nothing more; or frozen, so that another process
    takes its work over before it wakes up."""

    requests: int  # Since it began.
    moment: float  # Seconds after the last of them.
    pause: float  # Until it runs again.
    kind: str  # stop, kill or freeze.


@dataclass(frozen=True)
class Plan:
    homes: tuple[int, ...]  # Of each account: a host.
    sizes: tuple[int, ...]  # Records that each begins with.
    crowd: tuple[int, ...]  # Accounts without anything on each host.
    page: int
    by_collection: bool
    ends_with_cursor: bool
    events: tuple[Event, ...]
    ills: tuple[Sickness, ...]
    bans: tuple[Banned, ...] = ()


@dataclass(frozen=True)
class User:
    config: PdsConfig
    begins: float
    pauses: float  # Ends here, and begins again.
    deaths: tuple[Death, ...] = ()


EVENTS = st.builds(
    Event,
    st.floats(0.0, BUSY),
    st.sampled_from(
        ("put", "put", "edit", "delete", "delete", "empty", "move", "leave", "return", "off", "on")
    ),
    st.sampled_from(ACCOUNTS),
    st.integers(0, 9),
    st.sampled_from(COLLECTIONS),
)
ILLS = st.builds(
    Sickness,
    st.floats(0.0, BUSY - ILL_FOR),
    st.integers(1, 40),
    st.integers(0, 1),
    st.sampled_from(
        (
            "busy",
            "busy",
            "503",
            "dropped",
            "hangs",
            "garbage",
            "shrunk",
            "spoilt",
            "repeats",
            "invents",
            "undescribed",
        )
    ),
    st.floats(1.0, ILL_FOR),
    # Without a time, 403 is an answer like others.
    stated(1, 9, 10, 11, 61, 700, statuses=(429, 429, 503, 403)).filter(
        lambda said: said.status != 403 or said.wait > 0.0
    ),
)
# Some rows of what was read before cannot be read, throughout a scan.
SPOILING = [
    st.builds(
        Sickness,
        st.floats(0.5 * DAY, 1.2 * DAY),
        st.just(1),
        st.just(host),
        st.just("spoilt"),
        st.floats(HOUR, ILL_FOR),
        st.builds(Stated, seconds=st.sampled_from(range(len(COLLECTIONS)))),
    )
    for host in range(len(HOSTS))
]
MOMENTS = st.sampled_from((0.0, 0.01, 0.05, 0.06, 2.0))  # An answer takes 0.05 seconds.
BANS = st.builds(
    Banned,
    st.integers(0, 1),
    st.integers(1, 120),
    MOMENTS,
    st.sampled_from((400.0, 5000.0)),
    st.sampled_from((HOUR, DAY, math.inf)),
    st.booleans(),
)
PAUSES = st.sampled_from((0.001, 0.5, 300.0))
DEATHS = st.builds(
    Death, st.integers(1, 90), MOMENTS, PAUSES, st.sampled_from(("stop", "kill", "freeze"))
)
# In the middle of a scan, as a rule.
FREEZES = st.builds(
    Death, st.integers(2, 20), st.sampled_from((0.0, 0.01)), PAUSES, st.just("freeze")
)
PLANS = st.builds(
    Plan,
    st.tuples(*[st.integers(0, 1)] * len(ACCOUNTS)),
    st.tuples(*[st.sampled_from((0, 1, 3, 99, 100, 101, 130))] * len(ACCOUNTS)),
    st.tuples(*[st.sampled_from((0, 1, 19, 31, 36, 41, 50))] * 2),
    st.sampled_from((1, 3, 20, ROUND, 1000)),
    st.booleans(),
    st.booleans(),
    st.lists(EVENTS, max_size=14).map(tuple),
    # Every world has rows that cannot be read: it takes some luck that this matters.
    st.tuples(*SPOILING, st.lists(ILLS, max_size=2)).map(lambda all: (*all[:-1], *all[-1])),
    st.lists(BANS, max_size=1).map(tuple),
)
GLOBS = (
    ("pub.chive.*",),
    ("pub.chive.eprint.*",),
    ("app.bsky.*",),
    ("pub.chive.review.comment", "app.bsky.feed.like"),
    ("pub.*", "app.bsky.feed.*"),
    ("pub.chive.*.submission", "*.like"),
    ("pub.chive*",),
)
USERS = st.builds(
    User,
    st.builds(
        PdsConfig,
        collections=st.sampled_from(GLOBS),
        requests_per_minute=st.floats(23.0, 1900.0),
        scan_timeout=st.sampled_from((4.0, 13.0, 60.0, 210.0)),
        claim_timeout=st.sampled_from((10.0, 120.0, 500.0)),
        max_records_per_pds=st.sampled_from((40, 99, 1000)),
        batch=st.integers(1, 3),
        concurrency=st.integers(1, 3),
        scan_interval=st.sampled_from((2500.0, 3700.0, 7100.0)),
        contact=st.just("tests@example.org"),
    ),
    st.floats(0.0, DAY),
    st.floats(DAY, BUSY),
    # Every world has somebody who is frozen: it is rare, and does harm seldom.
    st.tuples(FREEZES, st.lists(DEATHS, max_size=2)).map(lambda both: (both[0], *both[1])),
)
