"""A PDS whose firehose is hostile from the first message to the last, as fast as it is read."""

from __future__ import annotations

import asyncio

from aiohttp import WSMsgType, web

from tests.support.atproto.hostile_frames import hostile_frames
from trawlnet.atproto.dagcbor import encode
from trawlnet.sim.repository.live import frame_of

_SEQ_OF_SEVEN = b"\x63seq\x07"  # As all these frames have it.
_FIRST_SEQ = 1_000_000
_TIME = "2026-01-01T00:00:00.000Z"
_HOST = "127.0.0.{}"
_ROUNDS = 4


Messages = list[bytes | str]


class HostilePds:
    """On each connection it sends all that may be sent on one, some times, and then one of the
    messages that end it. Messages count as sent when the connection has taken them."""

    def __init__(self, number: int, messages: Messages, ending: Messages) -> None:
        self.sent = 0
        self._messages = messages
        self._ending = ending
        self._connections = 0
        self.url = ""
        self._number = number
        self._seq = _FIRST_SEQ
        self._runner: web.AppRunner | None = None

    async def open(self) -> None:
        app = web.Application()
        app.router.add_get("/xrpc/com.atproto.sync.subscribeRepos", self._tell)
        self._runner = web.AppRunner(app, shutdown_timeout=0.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, _HOST.format(self._number), 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _tell(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        last = self._ending[self._connections % len(self._ending)]
        self._connections += 1
        try:
            for message in [*_ROUNDS * self._messages, last]:
                await self._send(socket, message)
                await asyncio.sleep(0)  # Other servers have their turn, too.
            async for _ in socket:
                pass  # The client leaves.
        except ConnectionError:
            pass  # It has left already.
        return socket

    async def _send(self, socket: web.WebSocketResponse, message: bytes | str) -> None:
        self.sent += 1
        self._seq += 1
        if isinstance(message, str):
            text = message.replace('"seq": 7', f'"seq": {self._seq}')
            await socket.send_frame(text.encode("utf-8", "surrogatepass"), WSMsgType.TEXT)
        else:
            seq = encode("seq") + encode(self._seq)
            await socket.send_bytes(message.replace(_SEQ_OF_SEVEN, seq))


def hostile_pdses(count: int, slanders: list[bytes]) -> list[HostilePds]:
    """Together they send every kind of frame; of those that end a connection each has a part. All
    of them slander others."""
    frames = hostile_frames()
    ending = [one.message for one in frames if one.expected.ends_connection]
    others = [one.message for one in frames if not one.expected.ends_connection]
    return [
        HostilePds(number + 2, [*slanders, *others], ending[number::count])
        for number in range(count)
    ]


def slander_of(did: str) -> list[bytes]:
    """What a stranger may say of an account, each in a sound frame."""
    about = {"seq": 7, "did": did, "time": _TIME}
    return [
        frame_of("#account", {**about, "active": False, "status": "deleted"}),
        frame_of("#account", {**about, "active": True}),
        frame_of("#identity", {**about, "handle": "evil.example"}),
    ]
