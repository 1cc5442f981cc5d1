"""Finding PDSes: relays, the directory and mentions, honest and hostile ones."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from trawlnet.crawlers.atproto import reader
from trawlnet.crawlers.atproto.mirror import PlcMirror
from trawlnet.crawlers.atproto.reader import Directory
from trawlnet.crawlers.errors import NotReady, Unanswered
from trawlnet.crawlers.pds.build import open_kit, scan_parts
from trawlnet.crawlers.pds.config import PdsConfig, lease
from trawlnet.crawlers.pds.discovery.cycle import DiscoverySources, discover
from trawlnet.crawlers.pds.discovery.finding import DiscoveryCounts, Finder
from trawlnet.crawlers.pds.discovery.mentions import from_dids
from trawlnet.crawlers.pds.discovery.plc import from_plc
from trawlnet.crawlers.pds.discovery.relay import from_relay, relay_url
from trawlnet.crawlers.pds.scanning.claimed import ClaimContext
from trawlnet.crawlers.pds.scanning.named import NamedScans, scan_batch
from trawlnet.crawlers.pds.scanning.slice import ScanSlice
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.net.agent import user_agent
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.atproto import AtprotoWorld, serve_atproto
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import open_registry
from trawlnet.tables.registry.rules import PdsSource

AGENT = user_agent("https://example.org/crawler")
NOWHERE = Path("/nonexistent")


@asynccontextmanager
async def finding(
    folder: Path, guard: Guard, *, private: bool, clock: Any = None
) -> AsyncIterator[Finder]:
    clock = clock or SystemClock()
    gate = Gate(clock, Manners(rate=10_000.0, concurrency=10, steered=True))
    terms = Terms(allow_private=private, domain_budget=10_000)
    registry = await open_registry(folder / "registry.db", terms)
    try:
        async with Http(gate, clock, AGENT, guard=guard) as http:
            yield Finder(registry, http, gate, clock)
    finally:
        await registry.close()


@dataclass
class Stranger:
    """A server on loopback that says what a test wants, and remembers what it was asked."""

    answers: dict[str, Callable[[web.BaseRequest], Any]]
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def guard(self) -> Guard:
        """This one may be reached, and nobody else who is not public."""
        return Guard(exempt=frozenset({("127.0.0.1", self.port)}))

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        answer = next((a for part, a in self.answers.items() if part in request.path), None)
        found = answer(request) if answer else None
        if found is None:
            return web.Response(status=404, text="{}")
        return web.Response(text=found if isinstance(found, str) else json.dumps(found))


@asynccontextmanager
async def stranger(**answers: Callable[[web.BaseRequest], Any]) -> AsyncIterator[Stranger]:
    one = Stranger(answers)
    server = web.Server(one)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    one.port = site._server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        await runner.cleanup()


@asynccontextmanager
async def world(seed: int = 11) -> AsyncIterator[AtprotoWorld]:
    served = await serve_atproto(seed, accounts=120, hosts=9)
    try:
        yield served
    finally:
        await served.close()


def test_every_server_of_a_network_is_found_and_counted_once(tmp_path: Path) -> None:
    dids = tmp_path / "dids"

    async def run() -> None:
        async with (
            world() as net,
            finding(tmp_path, Guard(allow_private=True), private=True) as finder,
        ):
            dids.write_text("\n".join(net.population.dids) + "\n# the end\n")
            relay = relay_url(net.relay.replace("http:", "ws:"), allow_private=True)
            tallies = await discover(
                finder, DiscoverySources(net.plc, True, NOWHERE, [relay], dids)
            )
            rows = await finder.registry.listing(limit=1000)
            assert {row.pds_url for row in rows} == set(net.pds)
            assert sum(tally.new for tally in tallies.values()) == len(net.pds)
            for tally in tallies.values():
                assert tally.found == tally.new + tally.known + tally.refused.total()
                assert tally.error == ""
            # One in seven has never asked the relay to be crawled: the directory knows it.
            assert 0 < tallies[PdsSource.PLC].new + tallies[PdsSource.DID].new < len(net.pds)
            counted = {row.pds_url: row.account_count for row in rows if row.account_count}
            sizes = {h.url: len(net.population.members[h.index]) for h in net.plan.hosts}
            assert counted.items() <= sizes.items() and len(counted) > 5
            # All of it again: nothing is new, and nobody who answered is asked about his DID.
            before = sum(net.served.turns.values())
            again = await discover(finder, DiscoverySources(net.plc, True, NOWHERE, [relay], dids))
            assert sum(tally.new for tally in again.values()) == 0
            assert again[PdsSource.RELAY].known == tallies[PdsSource.RELAY].found
            assert sum(net.served.turns.values()) - before <= 4

    asyncio.run(run())


def test_a_relay_is_read_to_its_last_page(tmp_path: Path) -> None:
    def hosts(request: web.BaseRequest) -> Any:
        at = int(request.query.get("cursor", "0"))
        page = [{"hostname": f"p{n}.net-{n}.org", "status": "active"} for n in range(at, at + 1000)]
        return {"hosts": page[: 2500 - at], **({"cursor": f"{at + 1000}"} if at < 2000 else {})}

    async def run() -> None:
        async with (
            stranger(listHosts=hosts) as relay,
            finding(tmp_path, relay.guard, private=False) as finder,
        ):
            tally = DiscoveryCounts()
            await from_relay(finder, relay.url, tally)
            assert (tally.found, tally.new, tally.error) == (2500, 2500, "")
            assert len(relay.asked) == 3 and all("limit=1000" in path for path in relay.asked)
            row = (await finder.registry.listing(limit=1))[0]
            assert (row.discovery_source, row.is_relay_connected) == (PdsSource.RELAY, True)

    asyncio.run(run())


LOOPS: dict[str, Callable[[web.BaseRequest], Any]] = {
    "the cursor repeats": lambda request: {"hosts": [], "cursor": "same"},
    "the same page again": lambda request: {
        "hosts": [{"hostname": "a.net-a.org"}],
        "cursor": f"{request.query.get('cursor', '')}x",
    },
    "empty pages in a row": lambda request: {
        "hosts": None,
        "cursor": f"{request.query.get('cursor', '')}x",
    },
    "parse_error": lambda request: {"repos": []},
    "not a page of hosts": lambda request: "[" * 100_000,
}


@pytest.mark.parametrize("why", LOOPS)
def test_a_relay_that_leads_nowhere_is_left_and_named(why: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            stranger(listHosts=LOOPS[why]) as relay,
            finding(tmp_path, relay.guard, private=False) as finder,
        ):
            tally = DiscoveryCounts()
            await from_relay(finder, relay.url, tally)
            assert why in tally.error and relay.url in tally.error
            assert len(relay.asked) <= 21

    asyncio.run(run())


# Every way to write an address that is not public, and names for them.
PRIVATE = (
    *("127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "017700000001", "0.0.0.0", "10.0.0.8"),
    *("172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "224.0.0.1", "255.255.255.255"),
    *(
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[fe80::1]",
        "[fc00::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00::]",
    ),
    *("localhost", "localhost.", "pds.localhost", "pds.local", "printer.lan", "db.internal"),
    *("intranet", "x.test", "1.0.0.127.in-addr.arpa"),
)
JUNK = ("", " ", "a b.org", "pds.org/path", "user@pds.org", "pds.org:0", "pds.org:99999", "-a.org")


def test_what_a_relay_may_not_name_is_refused_and_counted(tmp_path: Path) -> None:
    rows: list[Any] = [{"hostname": name, "status": "active"} for name in (*PRIVATE, *JUNK)]
    rows += [None, {"hostname": 5}, {"hostname": "banned.net-a.org", "status": "banned"}]
    rows += [{"hostname": "Good.Net-a.org", "accountCount": -3, "status": "offline"}]

    async def run() -> None:
        async with (
            stranger(listHosts=lambda request: {"hosts": rows}) as relay,
            finding(tmp_path, relay.guard, private=False) as finder,
        ):
            tally = DiscoveryCounts()
            await from_relay(finder, relay.url, tally)
            assert tally.found == len(rows) and tally.new == 1
            assert tally.refused["banned"] == 1 and tally.refused["address"] >= 15
            (row,) = await finder.registry.listing()
            assert (row.pds_url, row.account_count) == ("https://good.net-a.org", 0)
            assert not row.is_relay_connected

    asyncio.run(run())


def document(did: str, endpoint: Any) -> dict[str, Any]:
    service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer"}
    return {"id": did, "service": [service | {"serviceEndpoint": endpoint}]}


def did_of(number: int) -> str:
    return f"did:plc:{'abcdefghijklmnopqrstuvwx'[number % 24]}{number:a>23}".translate(
        str.maketrans("0189", "wxyz")
    )


def test_what_a_did_document_may_not_name_is_refused_and_counted(tmp_path: Path) -> None:
    endpoints = [f"https://{name}" for name in PRIVATE] + ["http://pds.net-a.org", "ftp://a.org"]
    dids = {did_of(number): endpoint for number, endpoint in enumerate(endpoints)}

    def answer(request: web.BaseRequest) -> Any:
        did = request.path.removeprefix("/")
        return document(did, dids[did])

    async def run() -> None:
        async with (
            stranger(did=answer) as plc,
            finding(tmp_path, plc.guard, private=False) as finder,
        ):
            tally = DiscoveryCounts()
            await from_dids(finder, dids, plc.url, tally)
            assert (tally.found, tally.refused.total()) == (len(endpoints),) * 2
            assert await finder.registry.listing() == [] and not tally.unresolved

    asyncio.run(run())


def test_dids_are_looked_up_once_a_day_and_trouble_is_counted_apart(tmp_path: Path) -> None:
    first, gone, broken = (did_of(number) for number in range(3))

    def answer(request: web.BaseRequest) -> Any:
        if request.path == f"/{first}":
            return document(first, "https://pds.net-a.org/")
        return None if request.path == f"/{gone}" else "not JSON"

    async def run() -> None:
        async with (
            stranger(did=answer) as plc,
            finding(tmp_path, plc.guard, private=False) as finder,
        ):
            tally = DiscoveryCounts()
            await from_dids(finder, [first, gone, broken, first], plc.url, tally)
            assert (tally.found, tally.new) == (1, 1)
            assert tally.unresolved == {"not_found": 1, "parse_error": 1}
            asked = len(plc.asked)
            again = DiscoveryCounts()
            await from_dids(finder, [first, gone, broken], plc.url, again)
            assert (again.known, again.unresolved) == (1, tally.unresolved)
            assert len(plc.asked) == asked == 3

    asyncio.run(run())


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
        *("::1", "::ffff:127.0.0.1", "fe80::1", "fc00::1", "64:ff9b::7f00:1", "2002:7f00:1::"),
    ],
)
def test_a_public_name_with_a_private_address_is_refused_when_connecting(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay, the directory, and the web site of a did:web are each asked under such a name."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def lookup(host: str, port: int, *args: Any, **more: Any) -> list[Any]:
        tail = (address, port, 0, 0) if ":" in address else (address, port)
        return [(family, socket.SOCK_STREAM, 6, "", tail)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)

    async def run() -> None:
        async with finding(tmp_path, Guard(), private=False, clock=SimClock()) as finder:
            tally = DiscoveryCounts()
            await from_relay(finder, "https://relay.net-a.org", tally)
            assert "refused" in tally.error
            with pytest.raises(NotReady, match="is refused"):
                await from_plc(finder, "https://plc.net-a.org", NOWHERE, DiscoveryCounts())
            # It stops no other source.
            (tally,) = (
                await discover(finder, DiscoverySources("https://plc.net-a.org", True, NOWHERE))
            ).values()
            assert "refused" in tally.error
            tally = DiscoveryCounts()
            dids = [did_of(1), "did:web:rebind.net-a.org"]
            await from_dids(finder, dids, "https://plc.net-a.org", tally)
            assert tally.unresolved == {"refused": 2}
            assert await finder.registry.listing() == []

    run_sim(run())


@pytest.mark.parametrize("source", PdsSource)
def test_whoever_named_it_a_name_with_a_private_address_is_not_scanned(
    source: PdsSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lookup(host: str, port: int, *args: Any, **more: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    config = PdsConfig(contact="https://example.org/crawler")

    async def run() -> None:
        clock = SimClock()
        async with open_kit(config, tmp_path, clock, CrawlMetrics("pds", clock)) as kit:
            entered = await kit.registry.register("https://pds.net-a.org", source, now=0.0)
            parts, told = await scan_parts(kit), []
            scans = NamedScans(
                ClaimContext(kit.registry, clock, "me", lease(config)),
                kit.gate,
                lambda url, owner: ScanSlice(parts, url, owner, clock.now() + 60.0),
            )
            await scan_batch(scans, 1, "", lambda url, result: told.append(result))
            assert len(told) == 1
            row = await kit.registry.get(entered.url)
            assert row is not None and row.last_reason is Reason.REFUSED
            assert (row.consecutive_failures, row.has_chive_records) == (1, None)

    run_sim(run())


def test_a_redirect_leads_no_source_to_a_private_address(tmp_path: Path) -> None:
    async def away(request: web.BaseRequest) -> web.StreamResponse:
        raise web.HTTPFound("http://127.0.0.1:1/secret")

    async def run() -> None:
        server = web.ServerRunner(web.Server(away))
        await server.setup()
        site = web.TCPSite(server, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]
        guard = Guard(exempt=frozenset({("127.0.0.1", port)}))
        try:
            async with finding(tmp_path, guard, private=False) as finder:
                relay, mentions = DiscoveryCounts(), DiscoveryCounts()
                await from_relay(finder, f"http://127.0.0.1:{port}", relay)
                assert "refused" in relay.error
                await from_dids(finder, [did_of(1)], f"http://127.0.0.1:{port}", mentions)
                assert mentions.unresolved == {"refused": 1}
        finally:
            await server.cleanup()

    asyncio.run(run())


def test_the_export_is_read_on_from_where_it_stopped(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            world() as net,
            finding(tmp_path, Guard(allow_private=True), private=True) as finder,
        ):
            await from_plc(finder, net.plc, NOWHERE, DiscoveryCounts())
            place = await finder.registry.notes.get(f"plc {net.plc}")
            assert place is not None and json.loads(place)["position"] > 100
            # As if the run had been cut off in the middle: the rest alone is read again.
            half = json.dumps({"form": "seq", "position": json.loads(place)["position"] // 2})
            await finder.registry.notes.put(f"plc {net.plc}", half)
            rest, nothing = DiscoveryCounts(), DiscoveryCounts()
            await from_plc(finder, net.plc, NOWHERE, rest)
            assert rest.found > 0 and rest.new == 0
            await from_plc(finder, net.plc, NOWHERE, nothing)
            assert nothing.found == 0
            assert await finder.registry.notes.get(f"plc {net.plc}") == place

    asyncio.run(run())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that does not answer is given up at once, not after minutes."""
    monkeypatch.setattr(reader, "_RETRY", RetryPolicy(attempts=1))


@pytest.mark.usefixtures("impatient")
def test_a_mirror_is_read_without_asking_the_directory(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            world() as net,
            finding(tmp_path, Guard(allow_private=True), private=True) as finder,
        ):
            directory = Directory(net.plc, finder.http, finder.gate, finder.clock, True)
            async with opened(tmp_path / "tables") as tables:
                await PlcMirror(directory, tables, asyncio.Event()).run(lambda tally: None)
            before = sum(net.served.turns.values())
            mirrored, other = DiscoveryCounts(), DiscoveryCounts()
            await from_plc(finder, net.plc, tmp_path / "tables", mirrored)
            assert sum(net.served.turns.values()) == before
            live = {net.plan.hosts[a.host].url for a in map(net.population.account, range(120))}
            found = {row.pds_url for row in await finder.registry.listing(limit=1000)}
            assert found <= live and len(found) == mirrored.new > 5
            assert mirrored.found == mirrored.new + mirrored.refused.total()
            # The mirror of one directory says nothing about another.
            with pytest.raises(Unanswered):
                await from_plc(finder, net.relay, tmp_path / "tables", other)

    asyncio.run(run())


@pytest.mark.usefixtures("impatient")
def test_a_source_that_fails_stops_no_other(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            stranger(listHosts=lambda request: {"hosts": [{"hostname": "a.net-a.org"}]}) as r,
            finding(tmp_path, r.guard, private=False) as finder,
        ):
            dead = "http://127.0.0.1:1"
            wanted = DiscoverySources(r.url, True, NOWHERE, [dead, r.url])
            tallies = await discover(finder, wanted)
            assert tallies[PdsSource.RELAY].new == 1 and dead in tallies[PdsSource.RELAY].error
            assert tallies[PdsSource.PLC].error != ""

    asyncio.run(run())
