"""A lane that falls ill and gets well: never more requests than its burst and its rate allow."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.engine.lane import Lane
from trawlnet.engine.outcome import Reason
from trawlnet.engine.rules import Manners

events = st.one_of(
    st.sampled_from([0.0, 0.2, 1.0, 3.0, 30.0]).map(lambda seconds: ("wait", seconds)),
    st.sampled_from([("start", 0.0), ("fail", 0.0), ("answer", 0.0), ("until ready", 0.0)]),
)


@settings(max_examples=600)
@given(
    st.lists(events, min_size=5, max_size=30),
    st.sampled_from([0.3, 1.0, 7.0]),
    st.integers(1, 4),
    st.booleans(),
)
def test_any_history_stays_within_burst_and_rate(
    history: list[tuple[str, float]], rate: float, burst: int, gap_from_end: bool
) -> None:
    manners = Manners(
        rate=rate,
        burst=burst,
        halve_every=1,
        floor=0.01,
        block_at=math.inf,  # type: ignore[arg-type]
        gap_from_end=gap_from_end,
    )
    lane, now, starts = Lane(manners), 100.0, []
    for what, seconds in history:
        match what:
            case "wait":
                now += seconds
            case "until ready":
                now = max(now, min(lane.next_start(), now + 1000.0))
            case "start" if lane.start(now) == 0.0:
                starts.append(now)
            case "fail":
                lane.fare(manners, lane.pace.after(Reason.UNAVAILABLE), now)
            case "answer":
                lane.fare(manners, lane.pace.after(Reason.OK), now)
    for i, first in enumerate(starts):
        for n, last in enumerate(starts[i:], 1):
            assert n <= burst + (last - first) * rate + 1e-4, starts
