"""Reading the directory's export, where it may not be asked at all."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from trawlnet.crawlers.atproto.export import ExportCursor
from trawlnet.crawlers.atproto.reader import Directory, ExportReader, MirrorCounts, Wait
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.errors import NotReady, Unanswered
from trawlnet.engine.gate import Gate
from trawlnet.engine.rules import Manners
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.sim.virtual import SimClock, run_sim


@pytest.mark.parametrize("tireless", [True, False])
def test_an_address_that_we_refuse_ourselves_is_told_at_once(tireless: bool) -> None:
    """Not after four minutes of retries, and not never for a mirror that follows."""

    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, Manners())
        async with Http(gate, clock, agent_for("a@b.example", allow_private=False)) as http:
            directory = Directory("http://127.0.0.1:2582", http, gate, clock)
            reader = ExportReader(directory, MirrorCounts(), tireless=tireless)
            with pytest.raises(NotReady, match="is refused") as refused:
                await reader.page(ExportCursor())
        assert "--allow-private-hosts" in refused.value.hint
        assert clock.now() < 1.0

    run_sim(main())


class HastyClock(SystemClock):
    """Sockets have real time; our own waits are added up, and over at once."""

    waited = 0.0

    def now(self) -> float:
        return super().now() + self.waited

    async def sleep(self, seconds: float) -> None:
        self.waited += max(0.0, seconds)
        await asyncio.sleep(0)


@pytest.mark.parametrize("reason", ["connection_error", "dns_error"])
def test_a_directory_that_was_never_there_is_given_up_on_soon_and_each_wait_is_told(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lookup(*args: Any, **more: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    url = "http://127.0.0.1:1"
    if reason == "dns_error":
        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        url = "http://plc.nowhere.example"

    async def main() -> None:
        clock, waits = HastyClock(), list[Wait]()
        gate = Gate(clock, Manners(rate=1000.0))
        agent = agent_for("a@b.example", allow_private=True)
        async with Http(gate, clock, agent, guard=Guard(allow_private=True)) as http:
            directory = Directory(url, http, gate, clock, True, waits.append)
            with pytest.raises(Unanswered, match=f"does not return .*{reason}") as failed:
                await ExportReader(directory, MirrorCounts()).page(ExportCursor())
        assert 5.0 < clock.waited < 20.0
        assert "stored" not in failed.value.hint
        assert len(waits) == 3
        assert all(wait.url == url and not wait.was_answered for wait in waits)
        assert waits[0].why.startswith(f"{reason}: ")

    asyncio.run(main())
