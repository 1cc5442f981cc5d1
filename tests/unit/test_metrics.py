"""What Prometheus sees agrees with the engine and the store, and holds no remote text."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics import exporter
from trawlnet.observe.metrics.crawl import DURATION_BUCKETS, CrawlMetrics, Scrape, StatusClass
from trawlnet.observe.metrics.exporter import MetricsAddressError, parse_address, serving_metrics
from trawlnet.observe.metrics.families import LocalHistogram, histogram
from trawlnet.stores.memory import MemoryStore

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
NASTY = 'evil"} 1\ntrawlnet_workers{crawler="x"} 99'
CYCLE = [Reason.OK, Reason.NOT_FOUND, Reason.TIMEOUT, Reason.TAKENDOWN, Reason.OK, Reason.UNKNOWN]


class Things:
    def __init__(self, count: int) -> None:
        self.count = count

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        yield Page([Task(f"k{n}", f"{NASTY}{n % 7}", n) for n in range(self.count)], "end")


class Shelf:
    def __init__(self) -> None:
        self.got: list[str] = []

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        self.got += [task.key for task, _ in batch]


class Pausing:
    """Answers in a fixed cycle of reasons, and waits half-way until it has been looked at."""

    def __init__(self, half: int) -> None:
        self.calls = 0
        self.half = half
        self.reached, self.looked = asyncio.Event(), asyncio.Event()

    async def __call__(self, task: Task) -> Outcome:
        self.calls += 1
        if self.calls > self.half:
            self.reached.set()
            await self.looked.wait()
        reason = CYCLE[task.payload % len(CYCLE)]
        return Outcome(reason, items=[b"12345"] if reason is Reason.OK else [], detail=NASTY)


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def by_reason(found: Samples, name: str) -> Counter[str]:
    return Counter(
        {dict(labels)["reason"]: int(v) for (n, labels), v in found.items() if n == name}
    )


def watching(
    figures: CrawlMetrics, control: Control | None = None, gate: Gate | None = None
) -> Scrape:
    """The figures of a crawl that does not run."""
    clock = SystemClock()
    gate = gate or Gate(clock, Manners())
    parts = Parts(None, MemoryStore(), Pausing(0), Shelf(), gate, clock)
    return figures.watch(parts, control or Control(1))


async def fetch(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200
        return await answer.text()


def plain(found: Samples, name: str) -> float:
    return found[(name, frozenset({("crawler", "toy")}))]


def test_a_scrape_agrees_with_the_store_in_the_middle_and_at_the_end() -> None:
    async def main() -> tuple[Samples, int, Samples, MemoryStore, Shelf]:
        clock, store, shelf = SystemClock(), MemoryStore(), Shelf()
        figures = CrawlMetrics("toy", clock)
        handler = Pausing(half=60)
        gate = Gate(clock, Manners(rate=float("inf"), concurrency=4, block_at=10_000))
        control = Control(workers=8)
        feed, counted = Feed(Things(120), store), figures.timed(handler)
        parts = Parts(feed, store, counted, figures.weighed(shelf), gate, clock)
        scrape = figures.watch(parts, control)
        limits = Limits(retry=RetryPolicy(attempts=2, base=0.001))
        async with serving_metrics(scrape.text, "127.0.0.1:0") as url:
            running = asyncio.create_task(crawl(parts, limits, control))
            await handler.reached.wait()
            while sum(control.figures.tally.values()) < handler.half:
                await asyncio.sleep(0.001)
            middle, tried = samples(await fetch(url)), sum((await store.counts()).attempts.values())
            handler.looked.set()
            await running
            return middle, tried, samples(await fetch(url)), store, shelf

    middle, tried, end, store, shelf = asyncio.run(main())
    assert sum(by_reason(middle, "trawlnet_attempts_total").values()) == tried == 60
    assert plain(middle, "trawlnet_in_flight") == 8
    assert plain(middle, "trawlnet_open_tasks") > 0

    counts = asyncio.run(store.counts())
    attempts = by_reason(end, "trawlnet_attempts_total")
    assert +attempts == Counter({str(r): n for r, n in counts.attempts.items()})
    assert set(attempts) == {str(r) for r in Reason}
    assert +by_reason(end, "trawlnet_settled_total") == Counter(
        {str(r): n for r, n in counts.settled.items()}
    )
    assert sum(attempts.values()) == plain(end, "trawlnet_task_duration_seconds_count")
    assert plain(end, "trawlnet_sink_bytes_total") == 5 * len(shelf.got) == 5 * 40
    assert plain(end, "trawlnet_open_tasks") == plain(end, "trawlnet_in_flight") == 0
    assert plain(end, "trawlnet_fed_total") == 120
    assert plain(end, "trawlnet_workers") == 8
    assert not any("evil" in value for _, labels in end for _, value in labels)


def test_lanes_are_counted_by_condition_and_never_named() -> None:
    async def main() -> Samples:
        clock = SystemClock()
        gate = Gate(clock, Manners(block_at=3))
        gate.park("a", clock.now() + 100)
        gate.park("b", float("inf"))
        gate.observe("c", Outcome(Reason.TIMEOUT))
        gate.observe(NASTY, Outcome(Reason.OK))
        figures = CrawlMetrics("toy", clock)
        text = await watching(figures, gate=gate).text()
        assert b"evil" not in text
        return samples(text.decode())

    found = asyncio.run(main())
    for state, count in {"parked": 1, "blocked": 1, "slowed": 1, "healthy": 1}.items():
        labels = frozenset({("crawler", "toy"), ("state", state)})
        assert found[("trawlnet_lanes", labels)] == count


@pytest.mark.parametrize(
    ("status", "label"),
    [(200, "2xx"), (304, "3xx"), (404, "4xx"), (599, "5xx"), (None, "none"), (0, "none"),
     (999, "none"), (-1, "none"), (101, "1xx")],
)  # fmt: skip
def test_any_status_falls_into_one_of_six_classes(status: int | None, label: str) -> None:
    assert StatusClass.of(status) == label


def test_http_figures_are_the_meter_s() -> None:
    async def main() -> Samples:
        clock = SystemClock()
        figures = CrawlMetrics("toy", clock)
        figures.http.request_ended(200, 10, 100)
        figures.http.request_ended(503, 5, 5)
        figures.http.request_ended(None, 0, 0)
        scrape = watching(figures)
        return samples((await scrape.text()).decode())

    found = asyncio.run(main())
    total = {
        dict(labels)["status_class"]: value
        for (name, labels), value in found.items()
        if name == "trawlnet_http_requests_total"
    }
    assert total == {"1xx": 0, "2xx": 1, "3xx": 0, "4xx": 0, "5xx": 1, "none": 1}
    for kind, count in {"wire": 15, "inflated": 105}.items():
        labels = frozenset({("crawler", "toy"), ("kind", kind)})
        assert found[("trawlnet_http_bytes_total", labels)] == count


def test_a_tally_reads_like_the_library_s_histogram() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = LocalHistogram(names.TASK_DURATION, ["web"], DURATION_BUCKETS)
    ours.register(tally)
    library = histogram(names.TASK_DURATION, DURATION_BUCKETS, theirs).labels("web")
    for seconds in (0.0, 0.005, 0.0051, 1.0, 300.0, 1e6):
        tally.observe(seconds)
        library.observe(seconds)
    expected = [line for line in generate_latest(theirs).splitlines() if b"_created" not in line]
    assert generate_latest(ours).splitlines() == expected


def test_every_series_that_all_crawlers_share_is_exported() -> None:
    async def main() -> str:
        clock = SystemClock()
        figures = CrawlMetrics("toy", clock)
        scrape = watching(figures)
        return (await scrape.text()).decode()

    text = asyncio.run(main())
    every = [one for one in names.CATALOGUE if one.owner is names.Owner.EVERY]
    assert len(every) == 14
    # The library says the type of the family, whose name has no suffix, under the sample's name.
    assert all(f"# TYPE {one.exposed} {one.kind}" in text for one in every)
    assert all(f"# HELP {one.exposed} {one.text}" in text for one in every)


def test_two_runs_in_one_process_do_not_mix() -> None:
    async def scrape_of(tries: int) -> Samples:
        clock, control = SystemClock(), Control(1)
        control.figures.tally[Reason.OK] = tries
        return samples((await watching(CrawlMetrics("toy", clock), control).text()).decode())

    for tries in (3, 4):
        found = asyncio.run(scrape_of(tries))
        assert by_reason(found, "trawlnet_attempts_total")["ok"] == tries


@pytest.mark.parametrize(
    ("text", "expected"),
    [("9464", ("127.0.0.1", 9464)), (":0", ("127.0.0.1", 0)), ("0.0.0.0:1", ("0.0.0.0", 1)),
     ("[::1]:80", ("::1", 80))],
)  # fmt: skip
def test_an_address_without_a_host_is_loopback(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "host", "host:", "h:70000", "http://h:1", "h:1x", "h:-1"])
def test_a_bad_address_says_how_to_write_it(text: str) -> None:
    with pytest.raises(MetricsAddressError) as trouble:
        parse_address(text)
    assert "127.0.0.1:9464" in trouble.value.hint


@pytest.mark.slow
def test_visitors_who_stay_do_not_keep_the_next_scrape_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporter, "_HEAD_SECONDS", 0.2)
    monkeypatch.setattr(exporter, "_ANSWER_SECONDS", 0.2)

    async def much() -> bytes:
        return b"x" * 20_000_000

    async def ended(reader: asyncio.StreamReader) -> None:
        try:
            while await reader.read(1 << 20):
                pass
        except ConnectionError:
            pass

    async def main() -> None:
        async with serving_metrics(much, "127.0.0.1:0") as url:
            port = int(url.split(":")[2].partition("/")[0])
            firsts = [b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nX: ", b"y" * 9000]
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
            for (_, writer), first in zip(silent, firsts * 10, strict=True):
                writer.write(first)
            # Those for whom there was no room, and those who ran out of time, are hung up on.
            await asyncio.gather(*(ended(reader) for reader, _ in silent))
            greedy = [await asyncio.open_connection("127.0.0.1", port) for _ in range(32)]
            for _, writer in greedy:
                writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            await asyncio.sleep(0)
            while True:  # Nobody takes the answers: they are given up, and there is room again.
                try:
                    assert len(await fetch(url)) == 20_000_000
                    break
                except (aiohttp.ClientError, TimeoutError):
                    await asyncio.sleep(0.05)
            for _, writer in silent + greedy:
                writer.transport.abort()

    asyncio.run(asyncio.wait_for(main(), 120.0))


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /metrics?x=1 HTTP/1.1", b"200"),
        (b"HEAD /metrics HTTP/1.0", b"200"),
        (b"GET / HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"nonsense", b"405"),
    ],
)
def test_only_metrics_are_served(request_line: bytes, status: bytes) -> None:
    async def few() -> bytes:
        return b"up 1\n"

    async def main() -> bytes:
        async with serving_metrics(few, "127.0.0.1:0") as url:
            port = int(url.split(":")[2].partition("/")[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request_line + b"\r\nHost: x\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    answer = asyncio.run(asyncio.wait_for(main(), 120.0))
    assert answer.split(b" ")[1] == status
    assert answer.endswith(b"up 1\n") == (status == b"200" and request_line.startswith(b"GET"))


def test_a_port_in_use_is_one_clear_line_and_a_closed_exporter_frees_its_port() -> None:
    async def nothing() -> bytes:
        return b""

    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(MetricsAddressError, match=f"127.0.0.1:{port}: address already"):
                async with serving_metrics(nothing, f"127.0.0.1:{port}"):
                    pass
        async with serving_metrics(nothing, f"127.0.0.1:{port}") as url:
            assert url == f"http://127.0.0.1:{port}/metrics"
        with pytest.raises(aiohttp.ClientConnectorError):
            await fetch(url)

    asyncio.run(main())
