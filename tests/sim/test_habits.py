"""Every habit really shows to a plain client, and closing a world ends all of them."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from pathlib import Path

import aiohttp
import pytest
import uvloop
import zstandard
from aiohttp import web

from trawlnet.net.clock import SystemClock
from trawlnet.sim import serve as serving
from trawlnet.sim.habits import PRIVATE_TARGETS, THROTTLES, Habit, Temper, misbehave
from trawlnet.sim.serve import (
    Call,
    Served,
    bind_hosts,
    bind_ports,
    free_port,
    loopback_hosts,
    serve,
)

BODY = b"<p>honest</p>" * 300
QUICK = Temper(slow=0.15, drip_gap=0.05, drip_size=64, bomb_size=256 << 20)
HOST = "127.0.0.2"
PATIENCE = 30.0  # Seconds; only a test that fails waits that long.
WAIT = 60  # Seconds that a throttling host asks for; a client may come to look a little later.


async def start(habit: Habit, temper: Temper = QUICK, log: Path | None = None) -> Served:
    async def honest() -> web.Response:
        return web.Response(body=BODY, content_type="text/html")

    async def answer(call: Call) -> web.StreamResponse:
        return await misbehave(
            habit, call.request, honest, turn=call.turn, now=call.now, temper=temper
        )

    return await serve(answer, bind_hosts([HOST]), clock=SystemClock(), log=log)


Visit = Callable[[aiohttp.ClientSession, str], Awaitable[None]]


def visit(habit: Habit, client: Visit, temper: Temper = QUICK) -> None:
    async def main() -> None:
        served = await start(habit, temper)
        deadline = aiohttp.ClientTimeout(total=PATIENCE)
        session = aiohttp.ClientSession(timeout=deadline, auto_decompress=False)
        try:
            async with session:
                await client(session, f"http://{HOST}:{served.port}/page")
        finally:
            await served.close()

    asyncio.run(main())


async def get(session: aiohttp.ClientSession, url: str) -> tuple[int, bytes]:
    async with session.get(url, allow_redirects=False) as response:
        return response.status, await response.read()


async def statuses(session: aiohttp.ClientSession, url: str, count: int) -> list[int]:
    found = []
    for _ in range(count):
        try:
            found.append((await get(session, url))[0])
        except aiohttp.ClientError:
            found.append(0)
    return found


def test_a_good_host_answers_honestly() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        assert await get(session, url) == (200, BODY)

    visit(Habit.GOOD, client)


def test_a_slow_host_answers_late_but_whole() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        started = time.monotonic()
        assert await get(session, url) == (200, BODY)
        assert time.monotonic() - started >= QUICK.slow

    visit(Habit.SLOW, client)


def test_a_dripping_host_keeps_sending_and_is_far_from_done() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        got = b""
        async with session.get(url) as response:
            assert response.content_length == len(BODY)
            for _ in range(3):
                got += await response.content.readany()
        assert 0 < len(got) < len(BODY)
        assert BODY.startswith(got)

    visit(Habit.DRIP, client)


def test_a_dripping_host_finishes_for_the_patient() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        assert await get(session, url) == (200, BODY)

    visit(Habit.DRIP, client, Temper(drip_gap=0.001, drip_size=500))


def test_a_flapping_host_fails_two_of_five_in_the_same_order_each_run() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        seen = await statuses(session, url, 10)
        assert [status == 200 for status in seen] == [False, False, True, True, True] * 2

    visit(Habit.FLAPPING, client)
    visit(Habit.FLAPPING, client)


@pytest.mark.parametrize("habit", sorted(THROTTLES))
def test_a_throttling_host_refuses_every_third_request_with_its_header(habit: Habit) -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        assert await statuses(session, url, 2) == [200, 200]
        async with session.get(url) as response:
            assert response.status == 429
            waits = _waits(response.headers)
        if habit is Habit.THROTTLE_BARE:
            assert waits == {}
        else:
            assert WAIT / 2 < waits[habit] <= WAIT + 2.0

    visit(habit, client, replace(QUICK, throttle_wait=WAIT))


def _waits(headers: Mapping[str, str]) -> dict[Habit, float]:
    waits = {}
    after = headers.get("Retry-After", "")
    if after.isdigit():
        waits[Habit.THROTTLE_RETRY_AFTER] = float(after)
    elif after:
        waits[Habit.THROTTLE_DATE] = parsedate_to_datetime(after).timestamp() - time.time()
    if "RateLimit-Reset" in headers:
        waits[Habit.THROTTLE_RESET] = int(headers["RateLimit-Reset"]) - time.time()
    return waits


def test_a_failing_host_shows_every_kind_of_server_error() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        assert await statuses(session, url, 4) == [500, 503, 502, 504]

    visit(Habit.SERVER_ERROR, client)


def test_a_truncating_host_cuts_both_counted_and_chunked_bodies() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        announced = []
        for _ in range(2):
            async with session.get(url) as response:
                announced.append(response.headers.get("Content-Length"))
                with pytest.raises(aiohttp.ClientPayloadError):
                    await response.read()
        assert announced == [str(len(BODY)), None]

    visit(Habit.TRUNCATING, client)


def test_a_lying_host_sends_noise_of_the_right_type_and_length() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        async with session.get(url) as response:
            body = await response.read()
            assert response.content_type == "text/html"
        assert len(body) == len(BODY)
        assert body != BODY

    visit(Habit.LYING, client)


def test_a_huge_body_does_not_end() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        size = 0
        async with session.get(url) as response:
            async for piece in response.content.iter_any():
                size += len(piece)
                if size > 20 << 20:
                    break
        assert size > 20 << 20

    visit(Habit.HUGE, client)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_bomb_is_small_on_the_wire_and_large_inside(coding: str) -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        headers = {"Accept-Encoding": "gzip, zstd"}
        if coding == "zstd":
            await get(session, url)
        async with session.get(url, headers=headers) as response:
            wire = await response.read()
            assert response.headers["Content-Encoding"] == coding
        assert len(wire) < 1 << 20
        assert inflated_size(coding, wire) == QUICK.bomb_size

    visit(Habit.BOMB, client)


def inflated_size(coding: str, wire: bytes) -> int:
    inflater = (
        zlib.decompressobj(31)
        if coding == "gzip"
        else zstandard.ZstdDecompressor().decompressobj(read_across_frames=False)
    )
    return sum(
        len(inflater.decompress(wire[start : start + 64])) for start in range(0, len(wire), 64)
    )


def test_the_default_bomb_inflates_to_gigabytes() -> None:
    assert Temper().bomb_size >= 2 << 30


def test_long_headers_go_past_what_a_client_allows() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        reader, writer = await asyncio.open_connection(HOST, int(url.split(":")[2].split("/")[0]))
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readexactly(200_000)
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\r\n\r\n" not in head
        writer.close()

    visit(Habit.LONG_HEADERS, client)


def test_redirects_lead_to_private_addresses() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        places = []
        for _ in PRIVATE_TARGETS:
            async with session.get(url, allow_redirects=False) as response:
                assert response.status == 302
                places.append(response.headers["Location"])
        assert places == list(PRIVATE_TARGETS)

    visit(Habit.REDIRECT_PRIVATE, client)


def test_a_redirect_loop_comes_back_to_where_it_began() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        with pytest.raises(aiohttp.TooManyRedirects) as caught:
            await session.get(url)
        assert len({str(hop.url) for hop in caught.value.history}) == 2

    visit(Habit.REDIRECT_LOOP, client)


def test_garbage_is_not_http() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        for _ in range(3):
            with pytest.raises(aiohttp.ClientError):
                await get(session, url)

    visit(Habit.GARBAGE, client)


def test_a_stalled_host_takes_the_request_and_says_nothing() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await get(session, url)

    visit(Habit.STALL, client)


def test_a_reset_comes_in_the_middle_of_the_body() -> None:
    async def client(session: aiohttp.ClientSession, url: str) -> None:
        port = int(url.split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionResetError):
            while await reader.read(100_000):
                pass
        writer.close()

    visit(Habit.RESET, client)


def test_a_dead_host_refuses_connections() -> None:
    async def main() -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await get(session, f"http://{HOST}:{free_port(HOST)}/")

    asyncio.run(main())


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("habit", [Habit.STALL, Habit.DRIP, Habit.HUGE, Habit.LONG_HEADERS])
def test_closing_a_world_ends_connections_in_the_middle(
    habit: Habit,
    make_loop: Callable[[], asyncio.AbstractEventLoop],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "_CLOSE_PATIENCE", 2 * PATIENCE)

    async def main() -> None:
        served = await start(habit, Temper())
        _, writer = await asyncio.open_connection(HOST, served.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.1)  # The client does not read: buffers fill up where there is much.
        started = time.monotonic()
        await served.close()
        assert time.monotonic() - started < PATIENCE
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(HOST, served.port)
        writer.close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())


def test_closing_a_world_does_not_wait_for_connections_that_are_just_arriving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "_CLOSE_PATIENCE", 2 * PATIENCE)

    async def main() -> None:
        for turns in range(8):
            served = await start(Habit.GOOD)
            callers = [
                asyncio.create_task(asyncio.open_connection(HOST, served.port)) for _ in range(20)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            started = time.monotonic()
            await served.close()
            assert time.monotonic() - started < PATIENCE
            for answer in await asyncio.gather(*callers, return_exceptions=True):
                if isinstance(answer, tuple):
                    answer[1].close()

    asyncio.run(main())


@pytest.mark.parametrize("logged", [True, False])
def test_a_client_that_leaves_in_the_middle_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, logged: bool
) -> None:
    async def answer(call: Call) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(call.request)
        assert call.request.transport is not None
        call.request.transport.abort()  # What writing meets when the client has just gone.
        await response.write(BODY)
        return response

    async def main() -> None:
        log = tmp_path / "requests.jsonl" if logged else None
        served = await serve(answer, bind_hosts([HOST]), clock=SystemClock(), log=log)
        async with aiohttp.ClientSession() as session:
            assert await statuses(session, f"http://{HOST}:{served.port}/", 3) == [0, 0, 0]
        await served.close()

    asyncio.run(main())
    assert not caplog.records


def test_a_client_that_gives_up_leaves_no_handler_behind() -> None:
    async def main() -> None:
        served = await start(Habit.STALL)
        _, writer = await asyncio.open_connection(HOST, served.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while served.turns[HOST, served.port] == 0:
            await asyncio.sleep(0.01)
        writer.close()
        async with asyncio.timeout(PATIENCE):
            while asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.sleep(0.01)
        await served.close()

    asyncio.run(main())


def test_the_log_tells_when_each_answer_began_and_ended(tmp_path: Path) -> None:
    async def main() -> None:
        served = await start(Habit.SLOW, log=tmp_path / "requests.jsonl")
        async with aiohttp.ClientSession() as session:
            for name in ("a", "b?c=d"):
                await get(session, f"http://{HOST}:{served.port}/{name}")
        await served.close()

    asyncio.run(main())
    rows = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert [(row["host"], row["path"], row["status"]) for row in rows] == [
        (HOST, "/a", 200),
        (HOST, "/b?c=d", 200),
    ]
    assert all(row["end"] - row["time"] >= QUICK.slow * 0.9 for row in rows)


def test_hundreds_of_hosts_share_a_port_and_are_told_apart() -> None:
    hosts = loopback_hosts(300)

    async def answer(call: Call) -> web.StreamResponse:
        return web.Response(text=f"{call.host} {call.turn}")

    async def main() -> None:
        served = await serve(answer, bind_hosts(hosts), clock=SystemClock())
        async with aiohttp.ClientSession() as session:
            for host in (hosts[0], hosts[249], hosts[250], hosts[299], hosts[299]):
                _, body = await get(session, f"http://{host}:{served.port}/")
                assert body.decode().split()[0] == host
        assert served.turns[hosts[299], served.port] == 2
        await served.close()

    asyncio.run(main())
    assert len(set(hosts)) == 300


def test_latency_comes_before_every_answer() -> None:
    async def answer(call: Call) -> web.StreamResponse:
        return web.Response(text="late")

    async def main() -> None:
        served = await serve(answer, bind_hosts([HOST]), clock=SystemClock(), latency=0.2)
        started = time.monotonic()
        async with aiohttp.ClientSession() as session:
            await get(session, f"http://{HOST}:{served.port}/")
        assert time.monotonic() - started >= 0.19
        await served.close()

    asyncio.run(main())


def test_hosts_can_also_be_ports_of_one_address() -> None:
    async def answer(call: Call) -> web.StreamResponse:
        return web.Response(text=str(call.port))

    async def main() -> None:
        served = await serve(answer, bind_ports(3), clock=SystemClock())
        async with aiohttp.ClientSession() as session:
            for host, port in served.places:
                assert await get(session, f"http://{host}:{port}/") == (200, str(port).encode())
        await served.close()

    asyncio.run(main())


def test_a_port_in_use_is_an_error_that_leaves_nothing_bound() -> None:
    taken = bind_hosts(["127.0.0.3"])
    taken[0].listen()
    port = taken[0].getsockname()[1]
    with pytest.raises(OSError, match="in use"):
        bind_hosts(["127.0.0.2", "127.0.0.3"], port)
    for one in [*bind_hosts(["127.0.0.2"], port), *taken]:
        one.close()
