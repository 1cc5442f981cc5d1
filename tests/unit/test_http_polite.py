"""Good manners: who we say we are, one turn for each request, connections kept within bounds."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from typing import Any

import brotli
import pytest
import zstandard

from tests.support.net.clients import AGENT, CountedTurns, Visit, visit
from tests.support.net.hostile_server import Exchange, hostile
from trawlnet import __version__
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Reason
from trawlnet.engine.rules import Manners
from trawlnet.net.agent import user_agent
from trawlnet.net.client.answer import RequestLimits, Response, Stream, outcome_of
from trawlnet.net.client.dial import Pools
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.trouble import Trouble

DEADLINE = 3.0  # Seconds: more than an answer takes on a busy machine.
BEYOND = 3.3


async def hello(exchange: Exchange) -> None:
    await exchange.answer(body=b"hello")


def test_a_request_says_who_is_asking_and_carries_no_baggage() -> None:
    async def act(v: Visit) -> None:
        await v.get(headers={"Accept": "application/json"})
        headers = Exchange(v.server.heads[0], None, 0).headers  # type: ignore[arg-type]
        assert headers == {
            "host": f"127.0.0.1:{v.server.port}",
            "user-agent": AGENT,
            "accept": "application/json",
            "accept-encoding": "gzip, deflate, br, zstd",
        }

    visit(hello, act)


@pytest.mark.parametrize("contact", ["https://example.org/bot", "bot@example.org"])
def test_a_user_agent_names_product_version_and_contact(contact: str) -> None:
    assert user_agent(contact) == f"trawlnet/{__version__} (+{contact})"


@pytest.mark.parametrize("contact", ["", " ", "me", "http://", "https://x", "a@b", "x\r\nHost: y"])
def test_a_user_agent_without_a_contact_is_refused(contact: str) -> None:
    with pytest.raises(ValueError, match="user agent"):
        user_agent(contact)


@pytest.mark.parametrize("agent", ["", "Mozilla/5.0", "trawlnet/1.0"])
def test_nothing_is_sent_without_a_contact(agent: str) -> None:
    with pytest.raises(ValueError, match="contact"):
        Http(CountedTurns(), SystemClock(), agent)


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")

    async def act(v: Visit) -> bytes:
        return (await v.get()).body

    assert visit(hello, act) == b"hello"


def test_cookies_are_not_kept() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(Set_Cookie="a=b; Path=/")

    async def act(v: Visit) -> None:
        for _ in range(2):  # By name: cookies of bare addresses are never kept anyway.
            await v.http.get(v.server.url(host="localhost"))
        assert v.server.requests == 2
        assert not any(b"ookie" in head for head in v.server.heads)

    visit(script, act, guard=Guard(allow_private=True))


def test_a_header_that_cannot_be_written_is_left_out() -> None:
    async def act(v: Visit) -> None:
        odd = {"If-None-Match": '"caf\udce9"', "X-Split": "a\r\nb: c", "X-Fine": "ü"}
        assert (await v.get(headers=odd)).status == 200
        head = v.server.heads[0]
        assert b"None-Match" not in head and b"Split" not in head and b"X-Fine" in head

    visit(hello, act)


CODINGS = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("br", brotli.compress),
    ("zstd", zstandard.compress),
    ("identity", bytes),
]


@pytest.mark.parametrize(("name", "deflate"), CODINGS)
def test_bodies_in_every_coding_we_ask_for_are_read(name: str, deflate: Any) -> None:
    text = b"worth having " * 100_000

    async def script(exchange: Exchange) -> None:
        await exchange.answer(body=deflate(text), Content_Encoding=name)

    async def act(v: Visit) -> Response:
        return await v.get()

    answer = visit(script, act)
    assert answer.body == text
    assert answer.wire_bytes == len(deflate(text))


def test_a_body_of_exactly_the_cap_is_read_and_one_byte_more_is_not() -> None:
    async def act(v: Visit) -> None:
        for field in ("wire", "inflated"):
            assert (await v.get(limits=RequestLimits(**{field: 5}))).body == b"hello"
            assert (await v.get(limits=RequestLimits(**{field: 4}))).reason is Reason.TOO_LARGE

    visit(hello, act)


def test_the_turn_lasts_until_the_body_has_been_read() -> None:
    async def act(v: Visit) -> None:
        async with v.http.stream(v.server.url()) as stream:
            assert isinstance(stream, Stream)
            assert v.turns.inside == 1
            assert [chunk async for chunk in stream] == [b"hello"]
            assert v.turns.inside == 1
        assert v.turns.inside == 0

    visit(hello, act)


def test_a_reader_may_leave_early_and_the_connection_is_not_reused() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(body=b"x" * 5_000_000)

    async def act(v: Visit) -> None:
        for _ in range(2):
            async with v.http.stream(v.server.url()) as stream:
                async for _chunk in stream:
                    break
        assert v.server.connections == v.server.requests == 2

    visit(script, act)


def test_a_request_that_is_called_off_gives_back_its_turn_and_its_connection() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.number == 0:
            await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            await asyncio.sleep(60)
        await exchange.answer(body=b"hello")

    async def act(v: Visit) -> None:
        task = asyncio.create_task(v.get())
        while v.server.requests == 0:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert v.turns.inside == 0
        assert (await v.get()).body == b"hello"
        assert v.server.connections == 2

    visit(script, act)


def test_a_slow_reader_is_not_blamed_on_the_server() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(body=b"x" * 3_000_000)

    async def act(v: Visit) -> int:
        total = 0
        limits = RequestLimits(total=DEADLINE)
        async with v.http.stream(v.server.url(), limits=limits) as stream:
            async for chunk in stream:
                assert isinstance(chunk, bytes), chunk
                if total == 0:
                    await asyncio.sleep(BEYOND)
                total += len(chunk)
        return total

    assert visit(script, act) == 3_000_000


def test_the_wait_for_a_turn_does_not_count_against_the_deadline() -> None:
    async def run() -> Response | Trouble:
        async with hostile(hello) as server:
            gate = Gate(SystemClock(), Manners(rate=1.0 / BEYOND, concurrency=1))
            guard, limits = Guard(allow_private=True), RequestLimits(total=DEADLINE)
            async with Http(gate, SystemClock(), AGENT, guard=guard, limits=limits) as http:
                answers = [http.get(server.url()) for _ in range(2)]
                return (await asyncio.gather(*answers))[-1]

    assert asyncio.run(run()).reason is Reason.OK


def test_the_gap_to_what_left_before_does_not_count_against_it_either() -> None:
    class Unhurried(CountedTurns):
        async def leave(self) -> None:
            await asyncio.sleep(BEYOND)

    async def run() -> Response | Trouble:
        guard, limits = Guard(allow_private=True), RequestLimits(total=DEADLINE)
        async with (
            hostile(hello) as server,
            Http(Unhurried(), SystemClock(), AGENT, guard=guard, limits=limits) as http,
        ):
            return await http.get(server.url())

    answer = asyncio.run(run())
    assert isinstance(answer, Response)
    assert answer.elapsed < DEADLINE


def test_a_parked_lane_is_the_workers_business() -> None:
    async def run() -> None:
        clock = SystemClock()
        gate = Gate(clock, Manners())
        gate.park("parked.example", clock.now() + 100.0)
        async with Http(gate, clock, AGENT) as http:
            with pytest.raises(LaneParked):
                await http.get("http://parked.example/")

    asyncio.run(run())


def test_connections_are_kept_and_used_again() -> None:
    async def act(v: Visit) -> None:
        for _ in range(5):
            await v.get()
        assert (v.server.connections, v.server.requests, v.turns.left) == (1, 5, 5)

    visit(hello, act)


def test_a_kept_connection_that_the_server_gave_up_costs_a_second_turn_and_no_failure() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.number != 1:
            await exchange.answer(body=b"hello")

    async def act(v: Visit) -> None:
        assert (await v.get()).body == b"hello"
        assert (await v.get()).body == b"hello"
        assert v.server.requests == len(v.turns.lanes) == 3

    visit(script, act)


def test_a_server_that_always_hangs_up_is_asked_once() -> None:
    async def script(exchange: Exchange) -> None:
        return

    async def act(v: Visit) -> None:
        assert (await v.get()).reason is Reason.CONNECTION_ERROR
        assert v.server.requests == len(v.turns.lanes) == 1

    visit(script, act)


def test_a_second_kept_connection_given_up_is_a_failure() -> None:
    both = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        if exchange.number == 1:
            both.set()
        if exchange.number < 2:
            await both.wait()  # Both at a time, so that two connections are kept.
            await exchange.answer(body=b"hello")

    async def act(v: Visit) -> None:
        await asyncio.gather(v.get(), v.get())
        assert v.server.connections == 2
        assert (await v.get()).reason is Reason.CONNECTION_ERROR
        assert v.server.requests == len(v.turns.lanes) == 4

    visit(script, act)


def test_so_many_idle_connections_are_kept_and_no_more() -> None:
    open_now: set[Any] = set()

    async def script(exchange: Exchange) -> None:
        open_now.add(exchange.writer)
        await exchange.answer(body=b"hello")

    async def act(v: Visit) -> int:
        for n in range(1, 9):
            await v.http.get(v.server.url(host=f"127.0.0.{n}"))
        async with asyncio.timeout(60):
            while (count := sum(not one.transport.is_closing() for one in open_now)) > 3:
                await asyncio.sleep(0.01)
        return count

    async def run() -> int:
        async with hostile(script, host="0.0.0.0") as server:
            turns = CountedTurns()
            options: Any = {"guard": Guard(allow_private=True), "pools": Pools(kept=3)}
            async with Http(turns, SystemClock(), AGENT, **options) as http:
                return await act(Visit(http, server, turns))

    assert asyncio.run(run()) == 3


@pytest.mark.parametrize(
    ("status", "header", "reason", "wait"),
    [
        ("429 Slow", {"Retry-After": "9"}, Reason.RATE_LIMITED, 9.0),
        ("429 Slow", {"RateLimit-Reset": "12"}, Reason.RATE_LIMITED, 12.0),
        ("429 Slow", {"Retry-After": "999999"}, Reason.RATE_LIMITED, 3600.0),
        ("429 Slow", {}, Reason.RATE_LIMITED, None),
        ("503 Busy", {"Retry-After": "9"}, Reason.UNAVAILABLE, 9.0),
        # As some APIs say "slow down".
        (
            "403 Spent",
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9"},
            Reason.RATE_LIMITED,
            9.0,
        ),
        (
            "403 No",
            {"X-RateLimit-Remaining": "7", "X-RateLimit-Reset": "9"},
            Reason.HTTP_ERROR,
            None,
        ),
        ("403 No", {"Retry-After": "0"}, Reason.HTTP_ERROR, 0.0),
        ("404 Gone", {}, Reason.NOT_FOUND, None),
    ],
)
def test_a_servers_word_on_when_to_come_back_reaches_the_outcome(
    status: str, header: dict[str, str], reason: Reason, wait: float | None
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(status, b"body", **header)

    async def act(v: Visit) -> Response:
        return await v.get()

    answer = visit(script, act)
    outcome = outcome_of(answer)
    assert (outcome.reason, outcome.wait) == (reason, wait)
    assert outcome.detail == f"HTTP {status[:3]}"
    assert answer.body == b"body"


def test_the_clock_starts_at_wall_time_and_never_steps_back() -> None:
    clock = SystemClock()
    assert abs(clock.now() - time.time()) < 1.0
    seen = [clock.now() for _ in range(1000)]
    assert seen == sorted(seen)


def test_a_nap_of_no_length_or_less_returns() -> None:
    asyncio.run(SystemClock().sleep(-5.0))


def test_an_endless_nap_is_possible_and_can_be_interrupted() -> None:
    async def run() -> None:
        async with asyncio.timeout(0.01):
            await SystemClock().sleep(float("inf"))

    with pytest.raises(TimeoutError):
        asyncio.run(run())
