"""Redirects are new requests: each has its turn, its guard check, and only harmless headers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from tests.support.net.clients import AGENT, CountedTurns, Visit, visit
from tests.support.net.hostile_server import Exchange, Script, hostile
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.answer import RequestLimits, Response
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import AddressRefused, Guard
from trawlnet.net.http import Http
from trawlnet.net.redirect import Leg, first_leg, next_leg
from trawlnet.net.trouble import Circular, Trouble


def site(redirects: Mapping[str, str], status: str = "302 Found") -> Script:
    async def script(exchange: Exchange) -> None:
        if exchange.path in redirects:
            await exchange.answer(status, Location=redirects[exchange.path])
        else:
            await exchange.answer(body=exchange.path.encode())

    return script


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed_with_a_turn_for_each_hop(status: int) -> None:
    async def act(v: Visit) -> None:
        answer = await v.get("/a")
        assert isinstance(answer, Response)
        assert (answer.body, answer.url) == (b"/c?d", v.server.url("/c?d"))
        assert answer.hops == (v.server.url("/a"), v.server.url("/b"))
        assert v.server.paths == ["/a", "/b", "/c?d"]
        assert v.turns.lanes == [f"127.0.0.1:{v.server.port}"] * 3

    visit(site({"/a": "/b", "/b": "c?d#fragment"}, f"{status} Moved"), act)


@pytest.mark.parametrize(
    ("redirects", "requests"),
    [({"/a": "/a"}, 1), ({"/a": "/b", "/b": "/a"}, 2), ({"/a": "/a#x"}, 1)],
)
def test_going_round_in_circles_is_a_loop(redirects: dict[str, str], requests: int) -> None:
    async def act(v: Visit) -> None:
        assert (await v.get("/a")).reason is Reason.LOOP
        assert v.server.requests == len(v.turns.lanes) == requests

    visit(site(redirects), act)


def test_too_many_hops_are_a_loop() -> None:
    async def act(v: Visit) -> None:
        assert (await v.get("/0")).reason is Reason.LOOP
        assert v.server.requests == len(v.turns.lanes) == 6
        fewer = await v.get("/0", limits=RequestLimits(redirects=2))
        assert fewer.reason is Reason.LOOP
        assert v.server.requests == len(v.turns.lanes) == 9

    visit(site({f"/{n}": f"/{n + 1}" for n in range(100)}), act)


def test_a_caller_may_have_redirects_returned() -> None:
    async def act(v: Visit) -> None:
        answer = await v.get("/a", limits=RequestLimits(redirects=0))
        assert (answer.status, answer.headers["location"]) == (302, "/b")
        assert answer.reason is Reason.HTTP_ERROR
        assert v.server.requests == len(v.turns.lanes) == 1

    visit(site({"/a": "/b"}), act)


FORBIDDEN = [
    "http://10.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://127.0.0.1:22/",
    "http://127.0.0.2/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://2130706433/",
    "http://0x7f.1/",
    "//10.0.0.1/",
    "file:///etc/passwd",
    "ftp://example.org/",
    "gopher://example.org/",
    "javascript:alert(1)",
    "http://user:secret@example.org/",
    "http://[::1/",
    "http://exämple.org/",
    "/" + "x" * 9000,
]


@pytest.mark.parametrize("location", FORBIDDEN)
def test_a_redirect_to_where_we_may_not_go_is_refused_without_a_packet(location: str) -> None:
    async def act(v: Visit) -> None:
        answer = await v.get("/a")
        assert isinstance(answer, Trouble)
        assert answer.reason is Reason.REFUSED
        assert answer.url == v.server.url("/a")
        assert v.server.requests == len(v.turns.lanes) == v.server.connections == 1

    visit(site({"/a": location}), act)


@pytest.mark.parametrize("location", ["", "   "])
def test_a_redirect_to_nowhere_is_an_answer(location: str) -> None:
    async def act(v: Visit) -> None:
        assert (await v.get("/a")).status == 302

    visit(site({"/a": location}), act)


def test_raw_bytes_in_a_location_travel_percent_encoded() -> None:
    async def act(v: Visit) -> None:
        assert (await v.get("/a")).status == 200
        assert v.server.paths == ["/a", "/caf%E9%20%3Cx%3E?q=%2C"]

    visit(site({"/a": "/caf\xe9 <x>?q=%2C"}), act)


def test_secrets_stay_with_their_origin() -> None:
    secrets = {"Authorization": "Bearer x", "Cookie": "a=b", "X-API-Key": "k", "If-None-Match": "e"}

    async def run() -> None:
        turns = CountedTurns()
        async with hostile(site({})) as other:
            target = other.url("/other")
            async with hostile(site({"/a": "/b", "/b": target})) as home:
                guard = Guard(allow_private=True)
                async with Http(turns, SystemClock(), AGENT, guard=guard) as http:
                    headers = {**secrets, "Accept": "text/html"}
                    answer = await http.get(home.url("/a"), headers=headers, lane="mine")
        assert isinstance(answer, Response)
        for head in home.heads:
            assert b"Bearer x" in head and b"X-API-Key: k" in head
        (head,) = other.heads
        sent = head.decode("ascii").lower()
        assert "accept: text/html" in sent and f"user-agent: {AGENT.lower()}" in sent
        assert not any(name.lower() in sent for name in secrets)
        assert turns.lanes == ["mine", "mine", f"127.0.0.1:{other.port}"]

    asyncio.run(run())


def test_a_way_back_home_is_on_the_callers_lane_but_without_the_secrets() -> None:
    guard = Guard()
    leg = first_leg(guard, "https://a.example/1", "mine", {"X-Key": "k", "accept": "x"})
    away = next_leg(guard, leg, "https://b.example/", 5)
    back = next_leg(guard, away, "https://a.example/2", 5)
    assert [leg.lane, away.lane, back.lane] == ["mine", "b.example", "mine"]
    assert dict(back.headers) == {"accept": "x"}


def leg_from(url: str) -> Leg:
    return first_leg(Guard(), url, None, {"X-Key": "k"})


@pytest.mark.parametrize("location", ["http://a.example/", "https://www.a.example/"])
def test_another_scheme_or_subdomain_is_another_origin(location: str) -> None:
    assert not next_leg(Guard(), leg_from("https://a.example/"), location, 5).headers


def test_a_policy_of_tls_holds_for_redirects() -> None:
    guard = Guard(schemes=frozenset({"https"}))
    with pytest.raises(AddressRefused):
        next_leg(guard, leg_from("https://a.example/"), "http://a.example/", 5)


def test_a_second_visit_to_any_url_of_the_chain_is_a_loop() -> None:
    leg = leg_from("https://a.example/1")
    leg = next_leg(Guard(), leg, "/2", 5)
    leg = next_leg(Guard(), leg, "/3", 5)
    with pytest.raises(Circular):
        next_leg(Guard(), leg, "/2", 5)


def test_a_failing_hop_is_named_in_the_trouble() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.path == "/a":
            await exchange.answer("302 Found", Location="/b")

    async def act(v: Visit) -> None:
        answer = await v.get("/a")
        assert answer.url == v.server.url("/b")
        assert answer.reason is Reason.CONNECTION_ERROR

    visit(script, act)
