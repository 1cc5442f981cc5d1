"""Traces of real crawls, as a collector gets them; and nothing at all without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.net.otlp_receiver import Receiver, attributes, receiving
from tests.support.program import environment, trawlnet
from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.crawl.tracing import tracing
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.observe.traces.wrappers import AttemptTrace, Choice, TraceStep, Ways


def parent_name(span: Any, way: list[Any]) -> str:
    return next((one.name for one in way if one.span_id == span.parent_span_id), "")


@pytest.fixture(scope="module")
def collected(network: Any, tmp_path_factory: pytest.TempPathFactory) -> Receiver:
    with receiving() as collector:
        place = tmp_path_factory.mktemp("traced")
        done = trawlnet(*network.crawl(place), OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert done.code in (0, 3), done.err
    return collector


def test_a_collector_sees_each_step_of_a_task_beneath_the_task(collected: Receiver):
    told = {(one["service.name"], one["trawlnet.crawler"]) for one in collected.resources}
    assert told == {("trawlnet", "repos")}
    assert len(collected.ways()) >= 20  # Of a second, fifty are taken at most.
    for way in collected.ways().values():
        (root,) = (span for span in way if not span.parent_span_id)
        assert root.name == "task" and attributes(root)["trawlnet.reason"] in set(Reason)
        above = {(span.name, parent_name(span, way)) for span in way if span is not root}
        assert above >= {("lease", "task"), ("handle", "task"), ("settle", "task")}
        assert above <= {
            *(("lease", "task"), ("handle", "task"), ("write", "task"), ("settle", "task")),
            *(("gate", "handle"), ("fetch", "handle"), ("parse", "handle")),
        }
        for span in way:
            assert root.start_time_unix_nano <= span.start_time_unix_nano
            assert span.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano


def test_what_is_stored_goes_from_lease_to_settlement_in_order(collected: Receiver):
    whole = [way for way in collected.ways().values() if "write" in {s.name for s in way}]
    assert whole
    for way in whole:
        begun = {span.name: span.start_time_unix_nano for span in way}
        order = ("lease", "handle", "gate", "fetch", "parse", "write", "settle")
        assert [begun[name] for name in order] == sorted(begun[name] for name in order)


def test_a_share_that_is_none_is_refused_with_what_to_write(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "many")
    with pytest.raises(UsageTrouble) as trouble, tracing("web", SystemClock()):
        pass
    assert trouble.value.hint == "a number from 0 to 1"


def test_a_collector_that_never_answers_does_not_hold_the_crawl(network: Any, tmp_path: Path):
    with receiving(answers=False) as collector:
        done = trawlnet(
            *network.crawl(tmp_path, "--json"), OTEL_EXPORTER_OTLP_ENDPOINT=collector.url
        )
        assert collector.asked
    assert done.rows[-1]["ending"] == "done" and done.code in (0, 3)


def test_a_collector_that_is_not_there_is_told_of_once(network: Any, tmp_path: Path):
    done = trawlnet(*network.crawl(tmp_path), OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert done.code in (0, 3) and done.err.count("traces not sent") == 1
    assert "127.0.0.1:9" not in done.err


def test_without_a_collector_nothing_of_it_is_loaded():
    code = (
        "import sys; from trawlnet.cli.crawl.run import tracing\n"
        "from trawlnet.net.clock import SystemClock\n"
        "with tracing('web', SystemClock()) as ways: assert ways is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    kept = {n: v for n, v in environment().items() if not n.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", code], check=True, env=kept)


@pytest.mark.parametrize(
    ("choice", "traced"),
    [(Choice(), 50), (Choice(per_second=7), 7), (Choice(open=3), 3), (Choice(ratio=0.0), 0)],
)
def test_however_many_tasks_there_are_few_are_kept(choice: Choice, traced: int):
    done: list[AttemptTrace] = []
    ways = Ways(SystemClock(), done.append, choice)
    tasks = [Task(f"k{n}", "lane") for n in range(500)]
    for task in tasks:
        ways.begin(task, TraceStep("lease", 5.0, 5.1))
    for task in tasks:
        ways.end(Receipt(task, Reason.OK), TraceStep("settle", 6.0, 6.1))
    assert len(done) == traced and all(len(one.steps) == 2 for one in done)
    assert all(ways.of(task.key) is None for task in tasks)


def test_all_tries_of_a_key_are_traced_or_none():
    ways = Ways(SystemClock(), lambda walked: None, Choice(ratio=0.3, per_second=10**6))
    chosen = []
    for _ in range(2):
        kept = set()
        for n in range(1000):
            ways.begin(Task(f"k{n}", "l"), TraceStep("lease", 1.0, 1.0))
            if ways.of(f"k{n}"):
                kept.add(n)
                ways.end(Receipt(Task(f"k{n}", "l"), Reason.OK), TraceStep("settle", 2.0, 2.0))
        chosen.append(kept)
    assert chosen[0] == chosen[1] and 200 < len(chosen[0]) < 400


def test_a_task_of_many_requests_keeps_its_first_steps_and_counts_the_rest():
    done: list[AttemptTrace] = []
    ways, task = Ways(SystemClock(), done.append, Choice()), Task("k", "l")
    ways.begin(task, TraceStep("lease", 1.0, 1.0))
    way = ways.of("k")
    assert way is not None
    for n in range(5000):
        way.add(TraceStep("fetch", n, n))
    ways.end(Receipt(task, Reason.OK), TraceStep("settle", 2.0, 2.0))
    assert len(done[0].steps) == 101 and done[0].left_out == 4901
    assert done[0].steps[-1].name == "settle"
