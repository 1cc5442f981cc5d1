from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trawlnet.engine.figures import Window
from trawlnet.engine.outcome import Reason


def test_rate_is_over_the_life_so_far_until_the_window_is_full():
    window = Window(span=60.0, slots=60)
    for second in range(10):
        window.add(Reason.OK, float(second), count=3)
    assert window.rate(10.0) == 3.0
    assert window.rate(69.5) < 0.6


def test_fractions_and_an_empty_window():
    window = Window()
    assert window.rate(5.0) == 0.0 and window.fraction(Reason.OK, 5.0) == 0.0
    window.add(Reason.OK, 0.0, count=3)
    window.add(Reason.NOT_FOUND, 0.0)
    assert window.fraction(Reason.NOT_FOUND, 1.0) == 0.25


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from(list(Reason))), max_size=60))
def test_nothing_inside_the_span_is_missed_and_nothing_far_outside_counted(steps):
    window, now, events = Window(span=20.0, slots=20), 0.0, []
    for step, reason in steps:
        now += step
        window.add(reason, now)
        events.append((now, reason))
    got = window.counts(now)
    certain = Counter(reason for at, reason in events if at > now - 19.0)
    possible = Counter(reason for at, reason in events if at > now - 21.0)
    assert certain <= got <= possible
