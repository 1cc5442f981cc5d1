"""When a follower calls for attention, and when it says that all is well again."""

from __future__ import annotations

from collections.abc import Mapping

from trawlnet.crawlers.repos.following.figures.live_alerts import (
    AWAY,
    BEHIND,
    REJECTED,
    REJECTED_LEAST,
    REJECTED_SPAN,
    UNREADABLE,
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


def test_a_stream_that_stays_behind_is_told_of_once_and_again_when_it_has_caught_up() -> None:
    rules = LiveAlerts(LIMIT)
    steps = [
        (0.0, 0.0, []),
        (1.0, 101.0, []),
        (101.0, 200.0, []),
        (102.0, 201.0, [BEHIND]),
        (103.0, 5000.0, []),
        (104.0, 51.0, []),
        (105.0, 49.0, [BEHIND + OVER]),
        (106.0, 99.0, []),
        (500.0, 99.0, []),
    ]
    for at, behind, expected in steps:
        assert titles(rules.looked(look(at, {"a.example": behind}))) == expected, (at, behind)


def test_one_that_catches_up_after_hours_without_a_process_is_not_told_of() -> None:
    """However long that takes, and although each single look finds it far behind."""
    rules = LiveAlerts(LIMIT)
    behind, at = 36_000.0, 0.0
    while behind > 0:
        assert rules.looked(look(at, {"a.example": behind})) == [], behind
        at, behind = at + 1, behind - 2


def test_one_that_stops_catching_up_is_told_of_after_the_limit() -> None:
    rules = LiveAlerts(LIMIT)
    for at in range(50):
        assert rules.looked(look(at, {"a.example": 36_000.0 - 10 * at})) == []
    for at in range(50, 150):
        assert rules.looked(look(at, {"a.example": 35_510.0})) == [], at
    assert titles(rules.looked(look(150, {"a.example": 35_510.0}))) == [BEHIND]


def test_one_that_hardly_gains_is_told_of() -> None:
    """It would take for ever: some milliseconds a second are no catching up."""
    rules = LiveAlerts(LIMIT)
    told = [rules.looked(look(at, {"a.example": 36_000.0 - 0.01 * at})) for at in range(150)]
    assert [titles(alerts) for alerts in told if alerts] == [[BEHIND]]


def late(rules: LiveAlerts, behind: Mapping[str, float], at: float) -> list[Alert]:
    """They are so far behind for longer than the limit."""
    rules.looked(look(at, behind))
    return rules.looked(look(at + LIMIT + 1, behind))


def test_each_stream_has_its_own_delay_and_a_message_names_few() -> None:
    rules = LiveAlerts(LIMIT)
    (alert,) = late(rules, {"a.example": 600.0, "b.example": 1.0}, 0)
    assert "a.example" in alert.text and "10 minutes" in alert.text and "b" not in alert.fields
    many = {f"h{number}.example": 200.0 for number in range(9)}
    (alert,) = late(rules, {"a.example": 600.0} | many, 500)
    assert "and 4 more" in alert.text and len(alert.fields) == 5


def test_one_that_is_cut_off_while_behind_has_not_caught_up() -> None:
    rules = LiveAlerts(LIMIT)
    assert titles(late(rules, {"a.example": 101.0}, 0)) == [BEHIND]
    assert titles(rules.looked(look(201, {}, {"a.example": 201.0}))) == []
    assert titles(rules.looked(look(202, {"a.example": 99.0}))) == []
    assert titles(rules.looked(look(203, {"a.example": 1.0}))) == [BEHIND + OVER]


def test_time_without_a_connection_is_no_time_of_catching_up() -> None:
    rules = LiveAlerts(LIMIT)
    assert rules.looked(look(0, {"a.example": 600.0})) == []
    assert rules.looked(look(1, {}, {"a.example": 1.0})) == []
    assert rules.looked(look(99, {"a.example": 700.0})) == []
    assert titles(rules.looked(look(198, {"a.example": 700.0}))) == []
    assert titles(rules.looked(look(200, {"a.example": 700.0}))) == [BEHIND]


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


def test_each_time_that_messages_are_passed_over_is_told_of_once() -> None:
    rules = LiveAlerts(LIMIT)
    told = [
        rules.looked(StreamsNow(at, {}, {}, 0, {}, {"a.example": 0, "b.example": passed_over}))
        for at, passed_over in enumerate((0, 1, 1, 2, 2))
    ]
    assert [titles(alerts) for alerts in told] == [[], [UNREADABLE], [], [UNREADABLE], []]
    assert "b.example" in told[1][0].text and "a.example" not in told[1][0].text
