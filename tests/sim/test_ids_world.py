"""The traffic model keeps its own laws, and the server says what the model says."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trawlnet.sim.habits import Habit
from trawlnet.sim.ids import (
    Cap,
    CounterLeap,
    IdState,
    IdsWorld,
    SimEmbargo,
    TimeSpan,
    Traffic,
    read_manifest,
    scenario,
    scenario_names,
    serve_ids,
)
from trawlnet.sim.ids.bodies import SimReport, pgcr

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures" / "pgcr"
HIDDEN = (IdState.AHEAD, IdState.PENDING, IdState.HOLE, IdState.GAP)


# --- The model ---


def test_ids_come_at_the_rate_of_the_moment() -> None:
    traffic = Traffic(wave_period=600.0)
    for t in (10.0, 150.0, 450.0, 7000.0):
        came = traffic.head(t + 10.0) - traffic.head(t)
        assert came == pytest.approx(10.0 * traffic.rate_at(t + 5.0), abs=2.0)


PAUSES = ((), (TimeSpan(50.0, 80.0), TimeSpan(70.0, 100.0), TimeSpan(100.2, 900.0)))


@given(
    st.integers(0, 3_000_000), st.floats(0.5, 500.0), st.floats(0.0, 0.99), st.sampled_from(PAUSES)
)
@example(1260068, 0.87109375, 0.87109375, ())
@settings(max_examples=200, deadline=None)
def test_an_id_is_the_head_from_the_moment_it_is_handed_out(
    ordinal: int, rate: float, wave: float, pauses: tuple[TimeSpan, ...]
) -> None:
    gaps = (CounterLeap(100.0, 5000), CounterLeap(100.5, 7))
    traffic = Traffic(rate=rate, wave=wave, gaps=gaps, pauses=pauses)
    i = traffic.first_id + ordinal
    born = traffic.allocated_at(i)
    if born is None:
        assert any(start <= i < end for start, end in traffic.gap_ranges())
    else:
        assert traffic.head(born + 1e-6) >= i
        assert traffic.head(born - 0.01 / rate) < i
        assert not any(pause.start + 1e-6 < born < pause.end - 1e-6 for pause in pauses)


@pytest.mark.parametrize("change", [{"rate": 0.0}, {"wave": 1.0}, {"wave": -0.1}])
def test_traffic_that_could_stop_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="never stop"):
        Traffic(**change)


def test_far_away_ids_cost_no_more_than_near_ones() -> None:
    traffic = Traffic(gaps=(CounterLeap(50.0, 10_000_000),))
    born = traffic.allocated_at(traffic.first_id + 10**10)
    assert born is not None
    assert traffic.count(born) == pytest.approx(10**10 - 10_000_000 + 1, rel=1e-12)


@given(st.integers(0, 1000), st.integers(-10, 40_000), st.data())
@settings(max_examples=150, deadline=None)
def test_states_only_ever_move_forward(seed: int, offset: int, data: st.DataObject) -> None:
    traffic = replace(scenario("mixed", seed), late_share=0.2, hole_share=0.1, raid_share=0.5)
    times = sorted(data.draw(st.lists(st.floats(0.0, 1500.0), min_size=2, max_size=8)))
    i = traffic.first_id + offset
    states = [traffic.state(i, t) for t in times]
    order = [IdState.AHEAD, IdState.PENDING, IdState.EMBARGOED, IdState.VISIBLE]
    for before, after in itertools.pairwise(states):
        if before in (IdState.HOLE, IdState.GAP, IdState.VISIBLE):
            assert after is before
        elif after in order:
            assert order.index(after) >= order.index(before)


def test_delays_holes_and_latecomers_have_their_shares() -> None:
    traffic = Traffic(seed=5)
    ids = range(traffic.first_id, traffic.first_id + 60_000)
    delays = []
    holes = 0
    for i in ids:
        shown, born = traffic.visible_at(i), traffic.allocated_at(i)
        assert born is not None
        if shown is None:
            holes += 1
        else:
            delays.append(shown - born)
    assert min(delays) >= traffic.delay
    assert sum(delays) / len(delays) == pytest.approx(24.0, abs=0.5)
    assert holes == pytest.approx(30, abs=18)
    assert sum(d > 18.0 + 70.0 for d in delays) == pytest.approx(60_000 * 0.002 * 0.37, abs=25)


def test_a_gap_takes_exactly_its_ids_and_nothing_after_it_is_lost() -> None:
    traffic = Traffic(hole_share=0.0, gaps=(CounterLeap(100.0, 1234),))
    ((start, end),) = traffic.gap_ranges()
    assert end - start == 1234
    assert [traffic.state(i, 300.0) for i in (start - 1, start, end - 1, end)] == [
        IdState.VISIBLE,
        IdState.GAP,
        IdState.GAP,
        IdState.VISIBLE,
    ]
    assert traffic.state(start, 99.0) is IdState.AHEAD
    before, after = traffic.allocated_at(start - 1), traffic.allocated_at(end)
    assert before is not None
    assert after is not None
    assert before <= 100.0 <= after
    assert after - before < 0.1


def test_nothing_comes_out_during_a_stall_and_everything_after_it() -> None:
    stall = TimeSpan(100.0, 400.0)
    traffic = Traffic(hole_share=0.0, stalls=(stall,))
    shown = [traffic.visible_at(i) for i in range(traffic.first_id, traffic.first_id + 20_000)]
    assert not [t for t in shown if t is None or stall.covers(t)]
    assert sum(1 for t in shown if t is not None and stall.end <= t < stall.end + 1.0) > 10_000


def test_an_embargo_holds_raids_only_and_opens_at_once() -> None:
    traffic = Traffic(
        hole_share=0.0, raid_share=0.3, embargoes=(SimEmbargo(TimeSpan(50.0, 100.0), 500.0),)
    )
    ids = range(traffic.first_id, traffic.first_id + 6000)
    held = [i for i in ids if traffic.state(i, 400.0) is IdState.EMBARGOED]
    assert len(held) > 300
    assert all(traffic.is_raid(i) for i in held)
    assert all(traffic.state(i, 499.9) is IdState.EMBARGOED for i in held)
    assert all(traffic.state(i, 500.0) is IdState.VISIBLE for i in held)


@pytest.mark.parametrize("t", [20.0, 60.0, 350.0, 500.0, 515.0, 900.0])
def test_the_anchor_is_the_newest_id_that_shows(t: float) -> None:
    traffic = scenario("mixed", 3)
    anchor = traffic.newest_visible(t)
    later = range((anchor or traffic.first_id - 1) + 1, traffic.head(t) + 1)
    assert anchor is None or (traffic.visible_at(anchor) or 0.0) <= t
    assert not [i for i in later if (traffic.visible_at(i) or 1e9) <= t]


def test_service_times_are_lognormal_and_differ_by_request() -> None:
    traffic = Traffic()
    times = sorted(traffic.service_time(i, 0) for i in range(4000))
    assert times[2000] == pytest.approx(0.12, rel=0.1)
    assert times[3364] == pytest.approx(0.12 * 2.718**0.5, rel=0.15)  # One sigma up.
    assert traffic.service_time(7, 0) != traffic.service_time(7, 1)


def test_every_scenario_can_be_made_and_differs_by_seed() -> None:
    for name in scenario_names():
        one, two = scenario(name, 1), scenario(name, 2)
        first = range(one.first_id, one.first_id + 20)
        assert [one.visible_at(i) for i in first] != [two.visible_at(i) for i in first]
    with pytest.raises(ValueError, match="steady"):
        scenario("calm", 1)


def test_the_model_says_the_same_in_another_process() -> None:
    code = (
        "import json, sys; sys.path[:0] = json.loads(sys.argv[1])\n"
        "from trawlnet.sim.ids import scenario\n"
        "m = scenario('mixed', 9)\n"
        "print(json.dumps([m.visible_at(m.first_id + k * 997) for k in range(300)]))\n"
    )
    command = [sys.executable, "-c", code, json.dumps(sys.path)]
    made = subprocess.run(
        command, env={"PYTHONHASHSEED": "3"}, capture_output=True, check=True, text=True
    ).stdout
    model = scenario("mixed", 9)
    here = [model.visible_at(model.first_id + k * 997) for k in range(300)]
    assert json.loads(made) == here


# --- The server, with a clock that stands still until it is told ---


class StandingClock:
    def __init__(self) -> None:
        self.time = 1_790_000_000.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Client:
    def __init__(
        self, world: IdsWorld, session: aiohttp.ClientSession, clock: StandingClock
    ) -> None:
        self.world, self.session, self.clock = world, session, clock

    async def get(self, path: str) -> tuple[int, bytes]:
        async with self.session.get(self.world.base_url + path) as response:
            return response.status, await response.read()

    async def report(self, i: int, query: str = "") -> tuple[int, bytes]:
        return await self.get(f"/Platform/Destiny2/Stats/PostGameCarnageReport/{i}/{query}")

    async def code(self, i: int) -> tuple[int, int]:
        status, body = await self.report(i)
        return status, json.loads(body)["ErrorCode"]


def in_world(
    tmp_path: Path, visit: Callable[[Client], Coroutine[Any, Any, None]], **options: Any
) -> None:
    async def main() -> None:
        clock = StandingClock()
        manifest = tmp_path / "manifest.json"
        world = await serve_ids(4, manifest=manifest, clock=clock, **options)
        try:
            async with aiohttp.ClientSession() as session:
                await visit(Client(world, session, clock))
        finally:
            await world.close()

    asyncio.run(main())


def test_the_server_says_what_the_model_says(tmp_path: Path) -> None:
    traffic = Traffic(
        seed=4,
        rate=2.0,
        hole_share=0.05,
        raid_share=0.3,
        blemish_share=0.0,
        gaps=(CounterLeap(60.0, 20),),
        embargoes=(SimEmbargo(TimeSpan(0.0, 40.0), 400.0),),
    )

    async def visit(client: Client) -> None:
        seen: Counter[IdState] = Counter()
        ids = range(traffic.first_id - 3, traffic.first_id + 330)
        for i in ids:
            state = traffic.state(i, 150.0)
            seen[state] += 1
            expected = {IdState.VISIBLE: (200, 1), IdState.EMBARGOED: (200, 12)}
            assert await client.code(i) == expected.get(state, (404, 1653))
        assert set(seen) == set(IdState)
        client.clock.time += 400.0 / 4.0
        for i in ids:
            code = 1 if traffic.state(i, 550.0) is IdState.VISIBLE else 1653
            assert (await client.code(i))[1] == code
        assert traffic.state(ids[50], 550.0) is not IdState.EMBARGOED

    in_world(tmp_path, visit, traffic=traffic, age=150.0, speed=4.0)


def test_an_outage_answers_every_id_with_disabled(tmp_path: Path) -> None:
    traffic = Traffic(outages=(TimeSpan(100.0, 200.0),), blemish_share=0.0, hole_share=0.0)

    async def visit(client: Client) -> None:
        assert await client.code(traffic.first_id) == (503, 5)
        _, body = await client.get("/Platform/Settings/")
        assert json.loads(body)["Response"]["systems"]["Destiny2"]["enabled"] is False
        client.clock.time += 60.0
        assert await client.code(traffic.first_id) == (200, 1)

    in_world(tmp_path, visit, traffic=traffic, age=150.0)


def test_a_cap_refuses_the_excess_in_all_its_forms(tmp_path: Path) -> None:
    traffic = Traffic(
        caps=(Cap(TimeSpan(0.0, 1000.0), 10.0),), blemish_share=0.0, hole_share=0.0, raid_share=0.0
    )

    async def visit(client: Client) -> None:
        client.clock.time += 2.0
        forms = Counter()
        for i in range(traffic.first_id, traffic.first_id + 100):
            status, body = await client.report(i)
            envelope = json.loads(body) if body.startswith(b"{") else {"ErrorCode": "page"}
            forms[status, envelope["ErrorCode"]] += 1
            if envelope["ErrorCode"] == 31:
                assert envelope["ThrottleSeconds"] == 1
        assert forms[200, 1] == 15  # A bucket of one and a half seconds, and a clock that stands.
        refused = {(503, 1672), (200, 1672), (429, 31), (503, "page")}
        assert set(forms) == {(200, 1)} | refused
        client.clock.time += 0.5
        codes = [(await client.code(traffic.first_id)) for _ in range(6)]
        assert codes.count((200, 1)) == 5

    in_world(tmp_path, visit, traffic=traffic, age=300.0)


def test_blemished_answers_heal_when_asked_again(tmp_path: Path) -> None:
    traffic = Traffic(blemish_share=1.0, hole_share=0.0)

    async def visit(client: Client) -> None:
        first: Counter[str] = Counter()
        for i in range(traffic.first_id, traffic.first_id + 60):
            first[flaw(*await client.report(i))] += 1
            assert flaw(*await client.report(i)) == "none"
        other = traffic.first_id + 100
        assert flaw(*await client.report(other, "?retry=1")) == "none"
        assert set(first) == {"miscounted", "not json", "page", "error"}

    in_world(tmp_path, visit, traffic=traffic, age=300.0)


def flaw(status: int, body: bytes) -> str:
    if body.startswith(b"<"):
        return "page"
    try:
        content = json.loads(body)
    except ValueError:
        return "not json"
    if status != 200 or content["ErrorCode"] != 1:
        return "error"
    entries = content["Response"]["entries"]
    counted = entries[0]["values"]["playerCount"]["basic"]["value"]
    return "none" if counted == len(entries) else "miscounted"


def test_reports_end_when_the_model_says(tmp_path: Path) -> None:
    traffic = Traffic(seed=4, blemish_share=0.0, hole_share=0.0, raid_share=0.5)

    async def visit(client: Client) -> None:
        modes, sizes = Counter(), []
        for i in range(traffic.first_id, traffic.first_id + 80):
            _, body = await client.report(i)
            sizes.append(len(body))
            response = json.loads(body)["Response"]
            assert response["activityDetails"]["instanceId"] == str(i)
            began = datetime.fromisoformat(response["period"]).timestamp()
            lasted = response["entries"][0]["values"]["activityDurationSeconds"]["basic"]["value"]
            ended = traffic.completed_at(i)
            assert ended is not None
            assert began + lasted == int(client.world.timeline.wall(ended))
            modes[response["activityDetails"]["mode"] == 4] += traffic.is_raid(i)
            user = response["entries"][0]["player"]["destinyUserInfo"]
            assert int(user["membershipId"]) > 2**53
        assert modes[True] > 20
        assert modes[False] == 0
        assert 1_000 < min(sizes) < max(sizes) < 20_000

    in_world(tmp_path, visit, traffic=traffic, age=300.0, speed=8.0)


def test_reports_have_the_shape_of_real_ones() -> None:
    if not FIXTURES.is_dir():
        pytest.skip(f"no sample reports in {FIXTURES}")
    ours = set(shape(json.loads(pgcr(SimReport(1, 15_000_000_000, 1.7e9, raid=True)))))
    for sample in sorted(FIXTURES.glob("*.json")):
        theirs = set(shape(json.loads(sample.read_text())))
        assert theirs == ours, sample.name


def shape(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from shape(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from shape(inner, f"{path}[]")
    else:
        yield path, type(value).__name__


@pytest.mark.parametrize("null_missing", [True, False])
def test_the_plain_api_has_items_and_an_anchor(tmp_path: Path, null_missing: bool) -> None:
    traffic = Traffic(hole_share=0.0)

    async def visit(client: Client) -> None:
        _, body = await client.get(f"/v0/item/{traffic.first_id}.json")
        assert json.loads(body)["id"] == traffic.first_id
        _, newest = await client.get("/v0/maxitem.json")
        assert int(newest) == traffic.head(300.0)
        missing = await client.get(f"/v0/item/{int(newest) + 1}.json")
        assert missing == (200 if null_missing else 404, b"null")
        assert (await client.get("/elsewhere"))[0] == 404

    in_world(tmp_path, visit, traffic=traffic, null_missing=null_missing)


def test_the_manifest_is_enough_to_know_every_id(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        world = client.world
        line = json.loads(json.dumps(world.ready_line()))
        assert line == {"base_url": world.base_url, "manifest": str(world.manifest)}
        content, model = read_manifest(world.manifest)
        assert model == world.traffic
        assert content["head"] == model.head(content["age"])
        gaps = [range(row["start"], row["end"]) for row in content["gaps"]]
        assert len(gaps) == 3
        first, end = content["first_id"], min(content["listed_to"], content["first_id"] + 12_000)
        holes = set(content["holes"])
        existing = {
            i for i in range(first, end) if i not in holes and not any(i in gap for gap in gaps)
        }
        assert existing == {i for i in range(first, end) if model.visible_at(i) is not None}
        assert {i for i in range(first, end) if model.state(i, 1e6) is IdState.VISIBLE} == existing

    in_world(tmp_path, visit)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    digests = []

    async def visit(client: Client) -> None:
        digest = hashlib.sha256()
        for i in range(client.world.traffic.first_id, client.world.traffic.first_id + 50):
            digest.update((await client.report(i))[1])
        digests.append(digest.hexdigest())

    in_world(tmp_path, visit)
    in_world(tmp_path, visit)
    assert digests[0] == digests[1]


def test_an_id_api_can_have_bad_habits_too(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        first = client.world.traffic.first_id
        assert [(await client.report(first))[0] for _ in range(4)] == [500, 503, 502, 504]

    in_world(tmp_path, visit, habit=Habit.SERVER_ERROR)
