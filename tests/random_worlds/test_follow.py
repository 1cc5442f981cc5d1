"""The follower in networks that change, drawn at random with configs and kills, in virtual time."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds
from tests.random_worlds.follow_laws import consumed, events_in
from tests.random_worlds.follow_runs import Following, Kill, Plan
from tests.random_worlds.follow_world import Act, Firehose, FollowSpec, LivingWorld
from tests.random_worlds.repos_world import EPOCH
from trawlnet.crawlers.repos.following.live_store import look_at_live
from trawlnet.sim.atproto.history import iso_time
from trawlnet.sim.atproto.live.relay_stream import Mischief

ACTS = ("write",) * 12 + (
    *(
        "oddity",
        "hush",
        "silent_prev",
        "sync",
        "pause",
        "resume",
        "resume",
        "leave",
        "rotate",
        "move",
        "drift",
    ),
    *("forge", "slander", "lie", "join"),
)
# Every state is flushed to the disk, and nothing of it is to outlive the test.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
MOMENTS = ("request", "frame", "dial")
STEPS = ("states", "adopting", "events", "deltas", "blocks")
ALL_STEPS = (*STEPS, *(f"{step} done" for step in STEPS), "events half", "deltas half")

acts = st.builds(
    Act,
    what=st.sampled_from(ACTS),
    whom=st.integers(0, 40),
    pause=st.sampled_from((0.0, 0.0, 0.01, 0.2, 1.0, 7.0, 90.0)),
    chance=st.integers(0, 2**32),
)


@st.composite
def flapping(draw: st.DrawFn) -> tuple[Act, ...]:
    """An account or two that go and come back again and again."""
    return tuple(
        Act(what, whom, pause, number)
        for number, (what, whom, pause) in enumerate(
            draw(
                st.lists(
                    st.tuples(
                        st.sampled_from(("pause", "resume", "write")),
                        st.integers(0, 1),
                        st.sampled_from((0.0, 0.01, 0.2, 0.4, 1.0)),
                    ),
                    min_size=6,
                    max_size=40,
                )
            )
        )
    )


firehoses = st.builds(
    Firehose,
    is_inclusive=st.booleans(),
    is_json=st.sampled_from((False, False, True)),
    window=st.sampled_from((100_000, 100_000, 40, 12)),
    breaks=st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from(("close", "slow", "garbage", "huge", "odd"))),
        max_size=4,
        unique_by=lambda one: one[0],
    ).map(tuple),
    poison=st.lists(st.integers(0, 80), max_size=2, unique=True).map(tuple) | st.just(()),
)
specs = st.builds(
    FollowSpec,
    seed=st.integers(0, 2**32),
    hosts=st.integers(1, 3),
    accounts=st.integers(1, 12),
    acts=st.lists(acts, min_size=1, max_size=60).map(tuple) | flapping(),
    firehose=firehoses,
    share=st.sampled_from((0.0, 0.0, 0.1, 0.5)),
    kinds=st.lists(st.sampled_from(tuple(Mischief)), unique=True).map(tuple),
    page=st.sampled_from((2, 1000)),
    fails=st.tuples(st.integers(0, 20), st.sampled_from((0, 0, 2, 7, 30))),
    latency=st.sampled_from((0.001, 0.05, 0.7)),
    way_back=st.sampled_from((0.0, 0.0, 0.05, 0.7, 3.0)),
    relays=st.sampled_from((1, 1, 2)),
)
rates = st.sampled_from((3.1, 23.0, 500.0))
configs = st.builds(
    lambda rate, more: (
        more | {"small_pds_rps": rate, "default_pds_rps": rate, "large_pds_rps": rate}
    ),
    rates,
    st.fixed_dictionaries(
        {
            "plc_rps": st.sampled_from((4.0, 90.0)),
            "pds_concurrency": st.integers(1, 4),
            "workers": st.sampled_from((1, 3, 50)),
            "attempts": st.integers(1, 5),
            "retry_base": st.sampled_from((0.3, 2.0)),
            "resync_pause": st.sampled_from((0.5, 5.0, 60.0)),
            "resyncs_per_hour": st.sampled_from((20.0, 1000.0, 1e6)),
            "follow_memory": st.just(16 << 20),
            "segment_size": st.sampled_from((1024, 20_000, 2 << 30)),
            "collections": st.sampled_from(((), (), ("app.bsky.feed.*",), ("*.follow",))),
        }
    ),
)
kills = st.lists(
    st.builds(
        Kill,
        moment=st.sampled_from(MOMENTS + ALL_STEPS),
        number=st.integers(1, 12),
        down=st.sampled_from((0.0, 1.0, 20.0, 400.0)),
        is_compacted=st.sampled_from((False, False, False, True)),
    ),
    max_size=3,
).map(tuple)
plans = st.builds(
    Plan,
    verb=st.sampled_from(("crawl", "follow")),
    upstreams=st.sampled_from(("relay", "relay", "pdses", "some", "both")),
    from_start=st.sampled_from((False, False, True)),
    some_dids=st.sampled_from((False, False, False, True)),
    config=configs,
    kills=kills,
)


PLAIN = {
    "small_pds_rps": 500.0,
    "default_pds_rps": 500.0,
    "large_pds_rps": 500.0,
    "resync_pause": 5.0,
    "retry_base": 0.3,
}

SLOW = PLAIN | {
    "attempts": 3,
    "resync_pause": 60.0,
    "plc_rps": 4.0,
    "small_pds_rps": 3.1,
    "default_pds_rps": 3.1,
    "large_pds_rps": 3.1,
    "pds_concurrency": 4,
}


def written(*accounts: int, pause: float = 1.0) -> tuple[Act, ...]:
    return tuple(Act("write", whom, pause, number) for number, whom in enumerate(accounts))


@given(spec=specs, plan=plans)
@worlds(12)
def test_what_was_followed_is_the_truth(spec: FollowSpec, plan: Plan) -> None:
    follow(spec, plan)


def follow(spec: FollowSpec, plan: Plan) -> None:
    with tempfile.TemporaryDirectory(prefix="world-", dir=MEMORY) as folder:
        Following(LivingWorld(spec), Path(folder), plan).judge()


@pytest.mark.parametrize(
    ("spec", "plan"),
    [
        # Without a relay, following ended before it began.
        (FollowSpec(1, 2, 3, written(0, 1, 2)), Plan("follow", "pdses", False, False, PLAIN)),
        # A server that failed ten times in a row was left alone for good.
        (
            FollowSpec(2, 1, 8, written(*range(8), pause=0.0), fails=(0, 30), latency=0.001),
            Plan("follow", "relay", False, False, PLAIN | {"attempts": 1, "resync_pause": 0.5}),
        ),
        # So was one whose visits were still open when it was given up.
        (
            FollowSpec(
                *(253, 3, 1),
                (Act("write", 26, 0.0, 2147483649), Act("write", 21, 0.0, 86081)),
                Firehose(True, breaks=tuple((at, "close") for at in (41, 45, 43, 32))),
                *(0.1, tuple(Mischief)[:10]),
                fails=(0, 30),
                latency=0.05,
            ),
            Plan(
                *("follow", "relay", True, False, SLOW),
                (Kill("request", 4, 20.0), Kill("events", 12, 1.0), Kill("request", 6, 0.0)),
            ),
        ),
        # From the oldest message on, with a cursor: what the server no longer had was lost.
        (
            FollowSpec(3, 1, 8, written(*range(8), *(0,) * 20), Firehose(window=12)),
            Plan("follow", "relay", True, False, PLAIN, (Kill("states done", 4, 400.0),)),
        ),
        # A gap was forgotten when the listing that was to close it failed.
        (
            FollowSpec(4, 1, 8, written(*range(8), *(0,) * 20), Firehose(window=12), fails=(0, 9)),
            Plan(
                *("follow", "relay", False, False, PLAIN | {"attempts": 1}),
                (Kill("states done", 4, 400.0),),
            ),
        ),
        # Killed before it had a cursor: an account that left meanwhile was kept for ever.
        (
            FollowSpec(0, 1, 1, (*written(0, pause=7.0), Act("leave", 0, 0.0, 0)), page=2),
            Plan("crawl", "relay", False, False, SLOW, (Kill("frame", 1, 0.0),)),
        ),
        # Visits that followed accounts to their new server had their turns at the old one.
        (
            FollowSpec(
                *(1, 2, 4),
                (
                    *written(0, 1, 2, 3, pause=9.0),
                    *(Act("hush", 1, 5000.0, 20), Act("hush", 3, 0.0, 10)),
                    *(Act("hush", 0, 0.0, 7), Act("move", 0, 0.0, 7)),
                    *(Act("hush", 2, 0.0, 9), Act("move", 2, 0.0, 9)),
                ),
            ),
            Plan("follow", "relay", False, False, SLOW | {"resyncs_per_hour": 20.0, "workers": 1}),
        ),
        # The world itself left an account out of its listing when another one left.
        (
            FollowSpec(0, 1, 5, (*written(0), Act("leave", 0, 0.0, 0)), page=2, latency=0.001),
            Plan("crawl", "relay", False, False, SLOW | {"workers": 1}),
        ),
        # A turn that was given back was waited for when the chain broke again.
        (
            FollowSpec(0, 3, 6, (Act("write", 0, 7.0, 0), Act("hush", 0, 90.0, 1)), page=2),
            Plan(
                *("crawl", "relay", True, False),
                SLOW | {"workers": 1, "resync_pause": 0.5, "resyncs_per_hour": 20.0},
            ),
        ),
        # One that was back before its directory was asked was withdrawn for a moment.
        (
            FollowSpec(0, 2, 1, (Act("move", 0, 1.0, 0), Act("move", 0, 0.2, 0))),
            Plan("crawl", "relay", False, False, SLOW | {"workers": 1, "resync_pause": 0.5}),
        ),
    ],
)
def test_what_was_found_stays_mended(spec: FollowSpec, plan: Plan) -> None:
    follow(spec, plan)


FLAPPING = ("pause", "resume", "write")
RESTLESS = (*FLAPPING, *("write", "move", "leave", "join", "rotate", "sync"))


def hurried(seed: int, acts: Sequence[str], accounts: int) -> tuple[FollowSpec, Plan]:
    """One thing after the other, while answers take their time."""
    dice = Random(seed)
    pauses = (0.0, 0.01, 0.2, 0.4, 1.0, 3.0)
    happened = tuple(
        Act(dice.choice(acts), dice.choice(range(accounts)), dice.choice(pauses), number)
        for number in range(dice.randint(6, 40))
    )
    latency, way_back = dice.choice((0.001, 0.05, 0.7)), dice.choice((0.05, 0.7, 3.0))
    hosts = 1 if accounts < 3 else 2
    spec = FollowSpec(seed, hosts, accounts, happened, latency=latency, way_back=way_back)
    verb, pause = dice.choice(("crawl", "follow")), dice.choice((0.2, 0.5, 5.0))
    return spec, Plan(verb, "relay", False, False, PLAIN | {"resync_pause": pause})


@given(
    seed=st.integers(0, 2**32),
    crowd=st.sampled_from(((FLAPPING, 2), (RESTLESS, 6), (RESTLESS, 3))),
    kills=kills,
)
@worlds(12)
def test_what_is_followed_in_a_hurry_is_the_truth(
    seed: int, crowd: tuple[Sequence[str], int], kills: tuple[Kill, ...]
) -> None:
    spec, plan = hurried(seed, *crowd)
    follow(spec, replace(plan, kills=kills))


@pytest.mark.parametrize(
    ("seed", "acts", "accounts"),
    [
        # A visit found the account away; before that was stored, word came that it was back, which
        # was taken for nothing new.
        *((seed, FLAPPING, 2) for seed in (9, 68, 96, 137)),
        # One that was away when the crawl came by, and of which nothing was remembered, came back.
        (607, FLAPPING, 2),
        # Who had moved since its home was looked up was away for good.
        *((seed, RESTLESS, 6) for seed in (5376, 5467, 7019, 7037)),
        # A visit that was let go of in the instant in which it was due counted as one to come.
        (5819, RESTLESS, 6),
    ],
)
def test_what_is_said_while_an_answer_is_under_way_is_heard(
    seed: int, acts: Sequence[str], accounts: int
) -> None:
    follow(*hurried(seed, acts, accounts))


@pytest.mark.parametrize("kills", [(), (Kill("deltas", 4, 1.0),), (Kill("deltas done", 6, 1.0),)])
@pytest.mark.parametrize("verb", ["crawl", "follow"])
def test_a_record_without_a_json_form_is_as_if_it_were_not_there(
    verb: str, kills: tuple[Kill, ...], tmp_path: Path
) -> None:
    """It comes, is replaced by another and by a good one, comes again and goes."""
    acts = ("oddity", "unpost", "oddity", "oddity", "oddity", "oddity", "unpost", "post", "oddity")
    odd = tuple(Act(act, number % 2, 3.0, number) for number, act in enumerate(acts * 4))
    world = LivingWorld(FollowSpec(8, 1, 2, (*written(0, 1, 1), *odd, Act("leave", 0, 1.0, 0))))
    following = Following(world, tmp_path, Plan(verb, "relay", False, False, PLAIN, kills))
    following.judge()
    assert consumed(following.place).odd == []


def changes() -> tuple[Act, ...]:
    """Accounts write, get new keys, move, go and come back."""
    acts = ("write", "rotate", "write", "move", "rotate", "pause", "resume", "write", "rotate")
    return tuple(Act(act, number, 3.0, number) for number, act in enumerate(acts * 6))


@pytest.mark.parametrize("kinds", [(), (Mischief.REPEAT, Mischief.REWIND, Mischief.SWAP)])
@pytest.mark.parametrize("upstreams", ["relay", "both"])
def test_who_tells_it_as_well_makes_no_other_event_of_it(
    upstreams: str, kinds: tuple[Mischief, ...], tmp_path: Path
) -> None:
    spec = FollowSpec(7, 2, 4, (*written(0, 1, 2, 3), *changes()), relays=2, share=0.5, kinds=kinds)
    world = LivingWorld(spec)
    Following(world, tmp_path, Plan("follow", upstreams, False, False, PLAIN)).judge()
    events = [event for event in events_in(tmp_path / "net") if event["kind"] == "identity"]
    told = {(event["did"], event["time"]) for event in events}
    assert len(told) == len(events) >= 8
    assert told >= {
        change for change in world.identities if change[1] > iso_time(int(EPOCH * 1000))
    }


@pytest.mark.parametrize("upstreams", ["relay", "pdses"])
@pytest.mark.parametrize("is_inclusive", [False, True])
def test_a_message_that_can_never_be_read_stops_nobody(
    upstreams: str, is_inclusive: bool, tmp_path: Path
) -> None:
    """What it may have said, and what came while it was tried again, is compared."""
    acts = (*written(*(0, 1, 2) * 2), Act("leave", 1, 1.0, 3), *written(*(0, 2) * 10, pause=20.0))
    firehose = Firehose(is_inclusive, poison=(15, 22))
    world = LivingWorld(FollowSpec(6, 1, 3, acts, firehose))
    Following(world, tmp_path, Plan("follow", upstreams, False, False, PLAIN)).judge()
    look = look_at_live(tmp_path / "net" / "state" / "repos")
    assert look is not None and look.figures.gaps == 2


def test_who_repeats_the_message_at_the_cursor_tells_things_in_order(tmp_path: Path) -> None:
    """Such a server was taken for one without order: each connection began far too early."""
    firehose = Firehose(is_inclusive=True, breaks=((3, "close"), (5, "close"), (7, "close")))
    world = LivingWorld(FollowSpec(5, 1, 2, written(*(0, 1) * 6), firehose))
    Following(world, tmp_path, Plan("follow", "relay", False, False, PLAIN)).judge()
    dials = [row.path for row in world.log if "subscribeRepos" in row.path]
    cursors = [int(path.partition("cursor=")[2] or world.relay.log.oldest) for path in dials]
    assert len(cursors) >= 4
    assert cursors == sorted(cursors), cursors
