"""What answers of an id API mean: the presets, code by code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.ids.api.api import api_headers, read_anchor
from trawlnet.crawlers.ids.api.json_preset import plain_api
from trawlnet.crawlers.ids.api.pgcr_preset import PGCR
from trawlnet.crawlers.ids.api.presets import api_of, base_of
from trawlnet.crawlers.ids.config import IdsConfig, manners
from trawlnet.crawlers.ids.model import AnswerVerdict
from trawlnet.net.client.answer import Response
from trawlnet.sim.ids.bodies import SimReport, error, item, pgcr, proxy_page

ID = 15_000_000_007
ENDED = 1_700_000_000.0
PLAIN = plain_api("", ())


def answered(body: bytes, status: int = 200, wait: float | None = None) -> Response:
    headers: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
    return Response(status, headers, body, "http://api.example/", (), 0.1, len(body), wait)


def report(raid: bool = True, **kind: bool) -> bytes:
    return pgcr(SimReport(1, ID, ENDED, raid), **kind)


@pytest.mark.parametrize(
    ("code", "status", "verdict"),
    [
        (1653, 404, AnswerVerdict.NOT_FOUND),
        (1653, 200, AnswerVerdict.NOT_FOUND),
        (5, 503, AnswerVerdict.DISABLED),
        (5, 200, AnswerVerdict.DISABLED),
        (12, 200, AnswerVerdict.EMBARGOED),
        (12, 403, AnswerVerdict.EMBARGOED),
        (1672, 200, AnswerVerdict.THROTTLED),
        (1672, 503, AnswerVerdict.THROTTLED),
        *((code, 200, AnswerVerdict.THROTTLED) for code in (31, 35, 36, 37, 51, 54, 55, 56, 57)),
        *((code, 500, AnswerVerdict.FAILED) for code in (3, 1618, 1626, 1643)),
        *((code, 401, AnswerVerdict.DISABLED) for code in (2101, 2102, 2103, 2107)),
        (99999, 403, AnswerVerdict.THROTTLED),
        (99999, 503, AnswerVerdict.THROTTLED),
        (99999, 502, AnswerVerdict.FAILED),
        (99999, 200, AnswerVerdict.FAILED),
        (1, 500, AnswerVerdict.FAILED),
    ],
)
def test_the_code_decides_before_the_status(code: int, status: int, verdict: AnswerVerdict) -> None:
    reading = PGCR.read(ID, answered(error(code, "X"), status))
    assert reading.verdict is verdict
    assert reading.word in PGCR.words


def test_a_raid_is_stored_and_its_lag_counts_from_its_end() -> None:
    reading = PGCR.read(ID, answered(report()))
    assert reading.verdict is AnswerVerdict.STORED
    assert reading.happened_at == ENDED
    assert isinstance(reading.message, dict)
    assert reading.message["instance"]["instance_id"] == ID
    assert reading.message["pgcr"]["activityDetails"]["instanceId"] == str(ID)


def test_what_is_no_raid_is_there_and_not_wanted() -> None:
    reading = PGCR.read(ID, answered(report(raid=False)))
    assert (reading.verdict, reading.happened_at) == (AnswerVerdict.FILTERED, ENDED)
    assert reading.message is None


@pytest.mark.parametrize(
    "body",
    [
        report(miscounted=True),
        report()[:-200],
        b"",
        b"[]",
        b"\xff\xfe",
        json.dumps({"ErrorCode": 1, "Response": None}).encode(),
        json.dumps({"ErrorCode": 1}).encode(),
        report().replace(str(ID).encode(), b"15000000008"),
    ],
    ids=["miscounted", "cut", "empty", "list", "noise", "null", "nothing", "another"],
)
def test_a_spoilt_report_is_asked_for_otherwise(body: bytes) -> None:
    reading = PGCR.read(ID, answered(body))
    assert (reading.verdict, reading.again) == (AnswerVerdict.MALFORMED, "malformed_retry")


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(403, AnswerVerdict.THROTTLED), (503, AnswerVerdict.THROTTLED), (502, AnswerVerdict.FAILED)],
)
def test_a_proxys_page_is_no_report(status: int, verdict: AnswerVerdict) -> None:
    reading = PGCR.read(ID, answered(proxy_page(status), status))
    assert (reading.verdict, reading.again) == (verdict, "retry")


def test_the_servers_word_on_waiting_counts_and_is_bounded() -> None:
    told = PGCR.read(ID, answered(error(36, "X", throttle_seconds=7), 429))
    assert told.wait == 7.0
    endless = PGCR.read(ID, answered(error(36, "X", throttle_seconds=10**9), 429))
    assert endless.wait == 600.0
    assert PGCR.read(ID, answered(error(36, "X"), 429, wait=3.0)).wait == 3.0


@pytest.mark.parametrize(
    ("body", "status", "wait", "verdict"),
    [
        (b"null", 200, None, AnswerVerdict.NOT_FOUND),
        (b"null", 404, None, AnswerVerdict.NOT_FOUND),
        (b"", 410, None, AnswerVerdict.NOT_FOUND),
        (b"", 429, None, AnswerVerdict.THROTTLED),
        (b"", 503, None, AnswerVerdict.DISABLED),
        (b"", 503, 5.0, AnswerVerdict.THROTTLED),
        (b"", 500, None, AnswerVerdict.FAILED),
        (b"<html>", 200, None, AnswerVerdict.MALFORMED),
        (b"[1]", 200, None, AnswerVerdict.MALFORMED),
        (item(ID, ENDED, 1), 200, None, AnswerVerdict.STORED),
        (b'{"text":"\\ud800 \\u0000"}', 200, None, AnswerVerdict.STORED),
    ],
)
def test_plain_answers(
    body: bytes, status: int, wait: float | None, verdict: AnswerVerdict
) -> None:
    reading = PLAIN.read(ID, answered(body, status, wait))
    assert reading.verdict is verdict
    assert reading.word in PLAIN.words


def test_plain_items_can_be_chosen_by_what_they_say() -> None:
    api = plain_api("born", ["kind=story", "kind=job"])
    wanted = api.read(7, answered(b'{"kind":"job","born":12.5}'))
    assert (wanted.verdict, wanted.happened_at) == (AnswerVerdict.STORED, 12.5)
    assert wanted.message == {"id": 7, "item": {"kind": "job", "born": 12.5}}
    assert api.read(7, answered(b'{"kind":"poll"}')).verdict is AnswerVerdict.FILTERED
    with pytest.raises(NotReady):
        plain_api("", ["kind"])


@pytest.mark.parametrize(
    ("body", "newest"),
    [(b"123\n", 123), (b'"45"', 45), (b"null", None), (b"9" * 30, None), (b"-4", None)],
)
def test_an_anchor_is_a_bare_number(body: bytes, newest: int | None) -> None:
    assert read_anchor(answered(body)) == newest
    assert read_anchor(answered(body, 500)) is None


def test_the_config_refines_a_preset() -> None:
    given: dict[str, Any] = {"preset": "json", "path": "/x/{id}", "anchor": "none"}
    api = api_of(IdsConfig(**given))
    assert api.url("http://h", 5, "retry=1") == "http://h/x/5?retry=1"
    assert api.anchor == ""
    assert api_of(IdsConfig()).path.endswith("/PostGameCarnageReport/{id}/")
    for path in ("/x/", "x/{id}", "/{id}/{id}", "/{id}/{0}"):
        with pytest.raises(NotReady):
            api_of(IdsConfig(path=path))


@pytest.mark.parametrize("url", ["", "ftp://h", "h.example", "http://", "http://h/?q=1"])
def test_what_is_no_server_is_refused(url: str) -> None:
    with pytest.raises(NotReady):
        base_of(IdsConfig(base_url=url))


def test_the_key_comes_from_the_environment_and_goes_into_its_header() -> None:
    assert api_headers(PGCR, {"BUNGIE_API_KEY": " k "}, required=True) == {"X-API-Key": "k"}
    assert api_headers(PGCR, {}, required=False) == {}
    other = api_of(IdsConfig(key_variable="MINE"))
    assert api_headers(other, {"MINE": "m"}, required=True) == {"X-API-Key": "m"}
    assert api_headers(api_of(IdsConfig(key_variable="none")), {}, required=True) == {}
    for environ in ({}, {"BUNGIE_API_KEY": "a\nb"}, {"BUNGIE_API_KEY": "\u00fc"}):
        with pytest.raises(NotReady):
            api_headers(PGCR, environ, required=True)


@pytest.mark.parametrize("budget", [0.5, 1.0, 25.0, 40.0, 1000.0, 100_000.0])
def test_no_second_can_hold_more_than_the_budget(budget: float) -> None:
    """The bucket lets its burst and a second's worth of its rate go within one second."""
    held = manners(IdsConfig(max_rps=budget))
    assert held.burst - 1 + held.rate <= budget
    assert held.steered


def test_dev_mode_is_small() -> None:
    config = IdsConfig(dev=True)
    assert (config.most_workers, config.below_latest, config.step) == (8, 100, 5)
    assert IdsConfig(dev=True, buffer=7, dev_skip=0).below_latest == 7
    assert IdsConfig().step == 1
    assert IdsConfig(max_workers=3).least_workers == 3


@pytest.mark.parametrize("code", [2101, 2102, 2103, 2107])
def test_a_refused_key_has_words_of_its_own(code: int) -> None:
    assert PGCR.read(ID, answered(error(code, "X"), 401)).word in PGCR.key_words
    assert PGCR.read(ID, answered(error(5, "X"), 503)).word not in PGCR.key_words


def test_a_plain_api_with_a_key_refuses_it_with_401() -> None:
    """Without a key it is the id that is withheld."""
    keyed = api_of(IdsConfig(preset="json", key_variable="SOME_KEY"))
    reading = keyed.read(ID, answered(b"", 401))
    assert reading.verdict is AnswerVerdict.DISABLED
    assert reading.word in keyed.key_words
    assert reading.word in keyed.words
    assert PLAIN.read(ID, answered(b"", 401)).verdict is AnswerVerdict.EMBARGOED
