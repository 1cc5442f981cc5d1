"""A PLC directory with habits of its own: one per way in which real ones were seen to differ."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aiohttp import web

from trawlnet.sim.atproto.plc_stream import PlcStream, StreamHabits

Line = dict[str, Any]


@dataclass
class OddDirectory:
    lines: list[Line]  # As the numbered export has them, plus `nullified`.
    numbered: bool = True  # False: knows times only.
    refuses_numbers: int = 0  # Status for `after=<number>`.
    obeys_count: bool = True
    most: int = 1000
    repeats_boundary: bool = False
    ignores_after: bool = False
    garbage_every: int = 0  # Of lines.
    throttle_every: int = 0  # Of requests.
    cut_after: int = 0  # Bytes of a body that announces more.
    always: int = 0  # A status, whatever is asked.
    page: str = ""  # Sent with status 200, whatever is asked.
    requests: list[str | None] = field(default_factory=list)
    stream: PlcStream | None = None

    async def export(self, request: web.Request) -> web.StreamResponse:
        after = request.query.get("after")
        self.requests.append(after)
        if self.always:
            return web.Response(status=self.always, text="no")
        if self.page:
            return web.Response(text=self.page, content_type="text/html")
        if self.throttle_every and len(self.requests) % self.throttle_every == 0:
            return web.Response(status=429, headers={"Retry-After": "1"})
        number = int(after) if after is not None and after.isdecimal() else None
        if number is not None and self.refuses_numbers:
            return web.Response(status=self.refuses_numbers, text="Invalid after parameter")
        if number is not None and self.numbered:
            found = self.numbered_lines(number)
        else:  # What JavaScript makes of a bare number is a year long past.
            found = self.timed_lines(after if number is None else None)
        size = min(self.most, int(request.query["count"])) if self.obeys_count else len(found)
        body = b"\n".join(self.written(line, at) for at, line in enumerate(found[:size]))
        if self.cut_after and len(body) > self.cut_after:
            response = web.StreamResponse(headers={"Content-Length": str(len(body))})
            await response.prepare(request)
            await response.write(body[: self.cut_after])
            assert request.transport is not None
            request.transport.close()
            return response
        return web.Response(body=body, content_type="application/jsonlines")

    def open_stream(self, habits: StreamHabits) -> None:
        """To whoever asks: lines that are added are told."""
        self.stream = PlcStream(lambda after, size: self.numbered_lines(after)[:size], habits)

    async def tell(self, request: web.Request) -> web.StreamResponse:
        if self.stream is None:
            return web.Response(status=404, text="Cannot GET /export/stream")
        last = max((line["seq"] for line in self.lines), default=0)
        return await self.stream.answer(request, last)

    def numbered_lines(self, after: int) -> list[Line]:
        if self.ignores_after:
            after = 0
        least = after if self.repeats_boundary else after + 1
        kept = ("type", "seq", "did", "cid", "operation", "createdAt")
        found = [line for line in self.lines if line["seq"] >= least]
        return [{name: line[name] for name in kept if name in line} for line in found]

    def timed_lines(self, after: str | None) -> list[Line]:
        kept = ("did", "cid", "operation", "createdAt", "nullified")
        found = [{name: line[name] for name in kept} for line in self.lines]
        if after is None or self.ignores_after:
            return found
        moment = datetime.fromisoformat(after)

        def is_later(line: Line) -> bool:
            created = datetime.fromisoformat(line["createdAt"])
            return created > moment or (self.repeats_boundary and created == moment)

        return [line for line in found if is_later(line)]

    def written(self, line: Line, at: int) -> bytes:
        if self.garbage_every and at % self.garbage_every == self.garbage_every - 1:
            # The next line is whole again, and carries on from there.
            return b'{"did": "did:plc:cut\n' + json.dumps(line).encode()
        return json.dumps(line).encode()


@asynccontextmanager
async def serving(directory: OddDirectory, port: int = 0) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/export", directory.export)
    app.router.add_get("/export/stream", directory.tell)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
