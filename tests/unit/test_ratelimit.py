"""What headers say about when to come back: every form, honest or not, becomes a bounded wait."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from trawlnet.net.rate_limit import wait_from

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT
LONGEST = 3600.0


def wait(headers: dict[str, str], status: int = 429) -> float | None:
    return wait_from(CIMultiDict(headers), NOW, LONGEST, status=status)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 120 ", 120.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("-5", 0.0),
        ("+7", 7.0),
        ("99999999999999", LONGEST),
        ("9" * 60, LONGEST),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60.0),
        ("Tue Nov 14 22:14:20 2023", 60.0),
        ("Tue, 14 Nov 2023 23:14:20 +0100", 60.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float) -> None:
    assert wait({"Retry-After": value}) == seconds


@pytest.mark.parametrize(
    "value",
    ["", "soon", "1e3", "inf", "nan", "0x10", "1_0", "٣", "1,2", "12 s", "9" * 5000, "Tue, 99"],
)
def test_a_retry_after_that_makes_no_sense_says_nothing(value: str) -> None:
    assert wait({"Retry-After": value}) is None


def test_no_header_says_nothing() -> None:
    assert wait({}) is None


@pytest.mark.parametrize("name", ["RateLimit-Reset", "ratelimit-reset", "X-RateLimit-Reset"])
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (str(int(NOW) + 90), 90.0),  # An instant, as an ATProto server has it.
        (str(int(NOW) - 90), 0.0),
        (str((int(NOW) + 90) * 1000), 90.0),  # The same in milliseconds.
        ("90", 90.0),
        ("-1", 0.0),
        ("99999999", LONGEST),
    ],
)
def test_a_reset_is_an_instant_or_a_few_seconds(name: str, value: str, seconds: float) -> None:
    assert wait({name: value}) == seconds


def test_a_reset_counts_only_when_the_allowance_is_used_up() -> None:
    spent = {"RateLimit-Remaining": "0", "RateLimit-Reset": "30"}
    left = {"RateLimit-Remaining": "7", "RateLimit-Reset": "30"}
    assert wait(spent, status=503) == 30.0
    assert wait(left, status=503) is None
    assert wait(left, status=429) == 30.0
    assert wait({"RateLimit-Reset": "30"}, status=503) is None


def test_retry_after_goes_before_a_reset_and_nonsense_gives_way() -> None:
    assert wait({"Retry-After": "5", "RateLimit-Reset": "30"}) == 5.0
    assert wait({"Retry-After": "soon", "RateLimit-Reset": "30"}) == 30.0
    assert wait({"RateLimit-Reset": "?", "X-RateLimit-Reset": "40"}) == 40.0


def test_instants_are_read_against_the_servers_own_clock() -> None:
    an_hour_ahead = "Tue, 14 Nov 2023 23:13:20 GMT"
    assert wait({"Date": an_hour_ahead, "Retry-After": "Tue, 14 Nov 2023 23:14:20 GMT"}) == 60.0
    assert wait({"Date": an_hour_ahead, "RateLimit-Reset": str(int(NOW) + 3605)}) == 5.0
    assert wait({"Date": "garbage", "RateLimit-Reset": str(int(NOW) + 5)}) == 5.0


words = st.text(max_size=80) | st.integers().map(str) | st.floats().map(str)


@given(st.dictionaries(st.sampled_from(["Retry-After", "RateLimit-Reset", "Date"]), words))
def test_whatever_is_sent_the_wait_is_bounded(headers: dict[str, str]) -> None:
    seconds = wait(headers)
    assert seconds is None or (0.0 <= seconds <= LONGEST and math.isfinite(seconds))
