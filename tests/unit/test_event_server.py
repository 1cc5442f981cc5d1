"""`repos serve` over real sockets: where a stream begins, and what bad clients cost."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import urllib.error
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import zstandard
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.repos.event_server import Served, event_server, texts
from tests.support.repos.told_world import COLLECTIONS, Folding, ToldWorld
from trawlnet.crawlers.repos.events.event import RecordEvent

PATIENCE = 120.0


def within_patience(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await scenario

    asyncio.run(bounded())


async def world_of(folder: Path, acts: int = 0) -> ToldWorld:
    world = await ToldWorld(folder, 11).open()
    for _ in range(acts):
        await world.act()
    return world


async def folded(client: ClientConnection, world: ToldWorld, folding: Folding) -> None:
    while not folding.matches(world.truth):
        folding.take(str(await client.recv()))


def post(number: int, size: int = 10) -> RecordEvent:
    text = json.dumps({"text": "x" * size}).encode()
    return RecordEvent("did:plc:a", "3k", "create", "a.b.c", str(number), "bafy", text)


async def get(served: Served, path: str) -> tuple[int, str]:
    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{served.host}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    return await asyncio.to_thread(ask)


def test_a_client_gets_the_archive_then_the_log_then_what_happens(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = await world_of(tmp_path, 60)
        async with event_server(tmp_path) as served, served.subscribe("cursor=1") as client:
            folding = Folding()
            await folded(client, world, folding)
            for _ in range(20):
                await world.act()
            await folded(client, world, folding)
        await world.close()

    within_patience(scenario())


def test_a_cursor_in_the_log_is_inclusive(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = await world_of(tmp_path)
        await world.log.append([post(n) for n in range(5)])
        async with event_server(tmp_path) as served:
            first_us = int(world.now * 1e6)
            async with served.subscribe(f"cursor={first_us + 2}") as client:
                rows = [json.loads(text) for text in await texts(client, 3)]
        assert [row["commit"]["rkey"] for row in rows] == ["2", "3", "4"]
        assert [row["time_us"] - first_us for row in rows] == [2, 3, 4]
        await world.close()

    within_patience(scenario())


@pytest.mark.parametrize("query", ["", "cursor=", "cursor=9999999999999999"])
def test_without_a_cursor_or_with_one_of_the_future_it_is_live(tmp_path: Path, query: str) -> None:
    async def scenario() -> None:
        world = await world_of(tmp_path, 10)
        async with event_server(tmp_path) as served, served.subscribe(query) as client:
            await world.log.append([post(1)])  # What comes after the answer is not missed.
            (text,) = await texts(client, 1)
        assert json.loads(text)["commit"]["rkey"] == "1"
        await world.close()

    within_patience(scenario())


async def until(true: Any) -> None:
    while not true():
        await asyncio.sleep(0.01)


def test_a_client_may_change_its_mind(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = await world_of(tmp_path, 40)
        query = "cursor=1&requireHello=true"
        async with event_server(tmp_path) as served, served.subscribe(query) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await client.recv()
            wanted = {"wantedCollections": [COLLECTIONS[0]], "maxMessageSizeBytes": 100_000}
            await client.send(json.dumps({"type": "something else"}))
            await client.send(json.dumps({"type": "options_update", "payload": wanted}))
            paths = [path for of in world.truth.values() for path in of]
            count = sum(path.startswith(COLLECTIONS[0]) for path in paths)
            rows = [json.loads(text) for text in await texts(client, count)]
        assert count > 1
        assert {row["commit"]["collection"] for row in rows} == {COLLECTIONS[0]}
        await world.close()

    within_patience(scenario())


def test_compressed_messages_need_no_dictionary(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = await world_of(tmp_path, 30)
        dictionary = zstandard.ZstdCompressionDict(b"app.bsky.feed.post did:plc: createdAt" * 40)
        for unpack in (
            zstandard.ZstdDecompressor(),
            zstandard.ZstdDecompressor(dict_data=dictionary),
        ):
            query = "cursor=1&compress=true"
            async with event_server(tmp_path) as served, served.subscribe(query) as client:
                frame = await client.recv()
            assert isinstance(frame, bytes)
            assert json.loads(unpack.decompress(frame))["kind"] == "commit"
        await world.close()

    within_patience(scenario())


def test_what_is_wrong_is_said_before_the_upgrade(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with event_server(tmp_path, most_clients=1) as served:
            with pytest.raises(InvalidStatus) as refused:
                await served.subscribe("cursor=soon")
            assert refused.value.response.status_code == 400
            assert b"cursor" in refused.value.response.body
            dids = "&".join(f"wantedDids=did:plc:{n:a>24}".translate(NO_DIGITS) for n in range(400))
            with pytest.raises(InvalidStatus) as too_long:
                await served.subscribe(dids)
            assert too_long.value.response.status_code == 400
            assert b"send more in a message" in too_long.value.response.body
            with pytest.raises(InvalidStatus) as elsewhere:
                await connect(f"ws://{served.host}/nope")
            assert elsewhere.value.response.status_code == 404
            assert b"/subscribe" in elsewhere.value.response.body
            async with served.subscribe():
                with pytest.raises(InvalidStatus) as busy:
                    await served.subscribe()
                assert busy.value.response.status_code == 503
                status, health = await get(served, "/xrpc/_health")
                assert (status, json.loads(health)["clients"]) == (200, 1)
            assert (await get(served, "/subscribe"))[0] == 426
            assert (await get(served, "/"))[0] == 200
            await until(lambda: served.site.meter.clients == 0)
            _, figures = await get(served, "/metrics")
        assert 'trawlnet_event_clients_gone_total{why="busy"} 1.0' in figures
        assert 'trawlnet_event_clients_gone_total{why="refused"} 1.0' in figures
        assert 'trawlnet_event_clients_gone_total{why="left"} 1.0' in figures

    within_patience(scenario())


NO_DIGITS = str.maketrans("0123456789", "bcdefghijk")
BAD = [
    "nonsense",
    json.dumps({"type": "options_update", "payload": {"wantedDids": ["nobody"]}}),
    json.dumps({"type": "options_update", "payload": {"wantedCollections": ["x"] * 2}}),
]


@pytest.mark.parametrize("text", BAD)
def test_a_bad_message_ends_the_connection_with_its_reason(tmp_path: Path, text: str) -> None:
    async def scenario() -> None:
        async with event_server(tmp_path) as served, served.subscribe() as client:
            await client.send(text)
            with pytest.raises(ConnectionClosed) as ended:
                await client.recv()
            assert ended.value.rcvd is not None
            assert ended.value.rcvd.code == 1008
            assert ended.value.rcvd.reason

    within_patience(scenario())


async def endless_options(client: ClientConnection) -> None:
    update = json.dumps({"type": "options_update", "payload": {"wantedDids": ["did:plc:a"]}})
    for _ in range(10_000):
        await client.send(update)


async def a_huge_message(client: ClientConnection) -> None:
    await client.send("x" * (2 << 20))


async def a_message_without_end(client: ClientConnection) -> None:
    async def pieces() -> Any:
        for _ in range(100_000):
            yield b""

    await client.send(pieces())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "code"),
    [(endless_options, 1008), (a_huge_message, 1009), (a_message_without_end, 1009)],
)
def test_a_client_that_talks_too_much_is_let_go(tmp_path: Path, attack: Any, code: int) -> None:
    async def scenario() -> None:
        world = await world_of(tmp_path)
        async with event_server(tmp_path) as served, served.subscribe() as good:
            async with served.subscribe() as bad:
                with pytest.raises(ConnectionClosed) as ended:
                    await attack(bad)
                    await bad.recv()
            assert ended.value.rcvd is not None
            assert ended.value.rcvd.code == code
            await world.log.append([post(1)])
            await texts(good, 1)
            await until(lambda: served.site.meter.clients == 1)
        await world.close()

    within_patience(scenario())


def handshake(served: Served, query: str = "") -> socket.socket:
    """A client by hand, with little room for what it does not read."""
    host, port = served.host.split(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((host, int(port)))
    client.sendall(
        f"GET /subscribe?{query} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert b" 101 " in client.recv(4096)
    return client


@pytest.mark.slow
def test_a_client_that_never_reads_slows_nobody_and_is_let_go(tmp_path: Path) -> None:
    """Far more is written than any buffer holds: 60 MB for each of four silent clients."""

    async def scenario() -> None:
        world = await world_of(tmp_path)
        async with event_server(tmp_path) as served:
            silent = [await asyncio.to_thread(handshake, served) for _ in range(4)]
            async with served.subscribe() as good:
                await until(lambda: served.site.meter.clients == 5)
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                for batch in range(60):
                    await world.log.append([post(batch * 100 + n, 10_000) for n in range(100)])
                    rows = [json.loads(text) for text in await texts(good, 100)]
                    assert rows[-1]["commit"]["rkey"] == str(batch * 100 + 99)
                grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
                await until(lambda: served.site.meter.clients == 1)
                _, figures = await get(served, "/metrics")
            for client in silent:
                client.close()
        assert 'trawlnet_event_clients_gone_total{why="slow"} 4.0' in figures
        assert grown < 200_000, f"{grown} KB more"
        await world.close()

    within_patience(scenario())


def test_the_reason_comes_behind_what_a_slow_client_has_not_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = await world_of(tmp_path)
        async with event_server(tmp_path) as served:
            slow = await asyncio.to_thread(handshake, served)
            await until(lambda: served.site.meter.clients == 1)
            for batch in range(20):
                await world.log.append([post(batch * 100 + n, 10_000) for n in range(100)])
            await until(lambda: _is_stalled(served))
            seen = await asyncio.to_thread(_read_all, slow)
        assert b"ConsumerTooSlow" in seen[-200:]
        await world.close()

    within_patience(scenario())


def _is_stalled(served: Served) -> bool:
    return served.site.meter.clients == 0 or 'why="slow"} 1.0' in served.site.meter.text().decode()


def _read_all(client: socket.socket) -> bytes:
    seen = b""
    client.settimeout(PATIENCE)
    try:
        while chunk := client.recv(1 << 20):
            seen = (seen + chunk)[-1000:]
    except OSError:
        pass
    client.close()
    return seen


def test_pings_that_nobody_reads_the_answers_of_do_not_pile_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with event_server(tmp_path) as served:
            bad = await asyncio.to_thread(handshake, served)
            ping = b"\x89\xfd" + b"\0" * 4 + b"x" * 125
            bad.settimeout(0.5)

            def flood() -> int:
                sent = 0
                try:
                    for _ in range(2000):
                        bad.sendall(ping * 500)
                        sent += 500 * len(ping)
                except OSError:
                    pass  # It is not read any more, or hung up on.
                return sent

            sent = await asyncio.to_thread(flood)
            assert sent < 60 << 20, "the server took all of it"
            await until(lambda: served.site.meter.clients == 0)
            bad.close()

    within_patience(scenario())
