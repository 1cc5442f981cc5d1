"""When a follower calls for attention, and when it says that all is well again."""

from __future__ import annotations

from collections.abc import Mapping

from trawlnet.crawlers.repos.following.figures.live_alerts import (
    AWAY,
    BEHIND,
    REJECTED,
    REJECTED_LEAST,
    REJECTED_SPAN,
    LiveAlerts,
    StreamsNow,
)
from trawlnet.observe.alerts.rules import OVER
from trawlnet.observe.alerts.shapes import Alert

LIMIT = 100.0


def look(
    at: float,
    behind: Mapping[str, float] | None = None,
    away: Mapping[str, float] | None = None,
    frames: int = 0,
    rejected: Mapping[str, int] | None = None,
) -> StreamsNow:
    return StreamsNow(at, behind or {}, away or {}, frames, rejected or {})


def titles(alerts: list[Alert]) -> list[str]:
    return [one.title for one in alerts]


def test_a_stream_that_falls_behind_is_told_of_once_and_again_when_it_has_caught_up() -> None:
    rules = LiveAlerts(LIMIT)
    steps = {0.0: [], 100.0: [], 101.0: [BEHIND], 5000.0: [], 51.0: [], 49.0: [BEHIND + OVER]}
    for second, (behind, expected) in enumerate(steps.items()):
        assert titles(rules.looked(look(second, {"a.example": behind}))) == expected, behind
    assert titles(rules.looked(look(9, {"a.example": 99.0}))) == []


def test_each_stream_has_its_own_delay_and_a_message_names_few() -> None:
    rules = LiveAlerts(LIMIT)
    (alert,) = rules.looked(look(0, {"a.example": 600.0, "b.example": 1.0}))
    assert "a.example" in alert.text and "10 minutes" in alert.text and "b" not in alert.fields
    many = {f"h{number}.example": 200.0 for number in range(9)}
    (alert,) = rules.looked(look(1, {"a.example": 600.0} | many))
    assert "and 4 more" in alert.text and len(alert.fields) == 5


def test_one_that_is_cut_off_while_behind_has_not_caught_up() -> None:
    rules = LiveAlerts(LIMIT)
    assert titles(rules.looked(look(0, {"a.example": 101.0}))) == [BEHIND]
    assert titles(rules.looked(look(1, {}, {"a.example": 1.0}))) == []
    assert titles(rules.looked(look(2, {"a.example": 99.0}))) == []
    assert titles(rules.looked(look(3, {"a.example": 1.0}))) == [BEHIND + OVER]


def test_a_firehose_without_a_connection_is_told_of_after_the_limit() -> None:
    rules = LiveAlerts(LIMIT)
    away = {"a.example": 1000.0}
    assert titles(rules.looked(look(1100.0, {}, away))) == []
    (alert,) = rules.looked(look(1101.0, {}, away))
    assert alert.title == AWAY and "a.example" in alert.text
    assert titles(rules.looked(look(1102.0, {}, away))) == []
    assert titles(rules.looked(look(1103.0, {"a.example": 50.0}))) == [AWAY + OVER]


def test_many_failures_are_told_of_with_their_reasons() -> None:
    rules = LiveAlerts(LIMIT)
    old = {"bad_car": 10_000}  # Of earlier runs.
    assert titles(rules.looked(look(0, frames=0, rejected=old))) == []
    few = old | {"bad_signature": REJECTED_LEAST - 1}
    assert titles(rules.looked(look(1, frames=100, rejected=few))) == []
    many = old | {"bad_signature": REJECTED_LEAST}
    (alert,) = rules.looked(look(2, frames=10 * REJECTED_LEAST - 1, rejected=many))
    assert alert.title == REJECTED
    assert alert.fields == {"bad_signature": str(REJECTED_LEAST)}
    # A twentieth of the messages: it is over; and it may begin anew.
    assert titles(rules.looked(look(3, frames=20 * REJECTED_LEAST, rejected=many))) == [
        REJECTED + OVER
    ]


def test_few_failures_among_many_messages_are_usual() -> None:
    rules = LiveAlerts(LIMIT)
    for second in range(1000):
        seen = look(second, frames=100 * second, rejected={"bad_car": 9 * second})
        assert rules.looked(seen) == []


def test_failures_of_long_ago_do_not_count() -> None:
    rules = LiveAlerts(LIMIT)
    for number in range(2 * REJECTED_LEAST):
        at = number * REJECTED_SPAN / (REJECTED_LEAST - 2)
        assert rules.looked(look(at, frames=number, rejected={"bad_car": number})) == []


def test_silence_ends_an_alert_about_failures() -> None:
    rules = LiveAlerts(LIMIT)
    rules.looked(look(0))
    assert titles(rules.looked(StreamsNow(1, {}, {}, 100, {"bad_car": 100}))) == [REJECTED]
    assert titles(rules.looked(StreamsNow(300, {}, {}, 100, {"bad_car": 100}))) == []
    later = StreamsNow(1 + REJECTED_SPAN, {}, {}, 100, {"bad_car": 100})
    assert titles(rules.looked(later)) == [REJECTED + OVER]
