"""Logs are JSON lines that stay small, whatever servers say and however often."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.observe.logs.writer import LogLimits, _LogFile, logging_to, warnings_to
from trawlnet.stores.memory import MemoryStore

HOSTILE = "\x1b[2J\r\n{}%s\u202e\ud800" + "z" * 100_000


@pytest.fixture
def said() -> Iterator[list[str]]:
    yield []


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_what_all_rooms_log_ends_in_one_file(tmp_path: Path, said: list[str]) -> None:
    with logging_to(tmp_path / "logs", "toy-1", said.append) as path:
        logging.getLogger("ours").info("page listed", extra={"lane": "a", "count": 3})
        logging.getLogger("trawlnet.engine").warning(
            "lane %s held", "b", extra={"lane": "b", "until": 2.5}
        )
    first, second = lines(path)
    assert path == tmp_path / "logs" / "toy-1.log"
    assert (first["event"], first["lane"], first["count"]) == ("page listed", "a", 3)
    assert (first["level"], first["logger"]) == ("info", "ours")
    assert (second["event"], second["lane"], second["until"]) == ("lane b held", "b", 2.5)
    assert first["at"].endswith("Z")
    assert said == ["warning: lane b held lane=b"]


def test_no_secret_gets_into_a_log_or_onto_a_terminal(tmp_path: Path, said: list[str]) -> None:
    url = "redis://me:hunter2@hunter2@host/0?password=hunter2"
    log = logging.getLogger("trawlnet.engine")
    with logging_to(tmp_path / "logs", "toy-1", said.append) as path:
        log.warning("cannot reach %s", url, extra={"error": f"no answer from {url}", "path": url})
        log.info("began", extra={"config": json.dumps({"a": {"token": "hunter2", "b": url}})})
        log.info("began", extra={"password": "hunter2", "long": "x" * 482 + url})
        try:
            raise OSError(f"cannot reach {url}")
        except OSError:
            log.exception("failed")
    assert "hunter" not in path.read_text() + "".join(said)
    assert "host/0" in said[0]


def test_what_a_library_warns_of_is_in_the_log_only(tmp_path: Path, said: list[str]) -> None:
    with logging_to(tmp_path, "toy-1", said.append) as path:
        logging.getLogger("aiormq.connection").error("transport failed")
    assert [line["event"] for line in lines(path)] == ["transport failed"]
    assert said == []


class Broken:
    async def __call__(self, task: Task) -> Outcome:
        raise RuntimeError("no such thing as " + HOSTILE)


class One:
    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        yield Page([Task(HOSTILE[:200].replace("\ud800", ""), "a")], "end")


class Nowhere:
    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        return None


def test_a_bug_in_a_handler_leaves_its_trace_in_the_file_and_one_line_on_the_terminal(
    tmp_path: Path, said: list[str]
) -> None:
    async def main() -> None:
        clock = SystemClock()
        store = MemoryStore()
        feed, gate = Feed(One(), store), Gate(clock, Manners())
        parts = Parts(feed, store, Broken(), Nowhere(), gate, clock)
        await crawl(parts, Limits(retry=RetryPolicy(attempts=1)), Control(1))

    with logging_to(tmp_path, "toy-1", said.append) as path:
        asyncio.run(main())
    (line,) = lines(path)
    assert line["event"] == "handler failed"
    assert len(line["exception"]) <= LogLimits().trace_chars
    assert len(path.read_bytes()) < 20_000
    assert len(said) == 1
    assert said[0].startswith("error: handler failed key=")
    assert said[0].isprintable()
    assert len(said[0]) < 500


def test_a_line_is_bounded_whatever_it_is_given(tmp_path: Path, said: list[str]) -> None:
    with logging_to(tmp_path, "toy-1", said.append) as path:
        log = logging.getLogger("trawlnet.x")
        many = {f"field{n}": HOSTILE for n in range(100)}
        log.warning(HOSTILE, extra={"lane": HOSTILE, **many})
        odd = {
            "big": 10**5000,
            "nan": float("nan"),
            "nested": {"a": [HOSTILE] * 50},
            "key": b"\xff",
        }
        log.info("odd", extra=odd)
        logging.getLogger("lib").error("%d items", "not a number")
    assert all(len(line) < 100_000 for line in path.read_bytes().splitlines())
    assert all(text.isprintable() and len(text) < 1000 for text in said)
    assert lines(path)[1]["event"] == "odd"


def test_an_event_that_repeats_is_counted_instead_of_told(tmp_path: Path, said: list[str]) -> None:
    limits = LogLimits(per_kind=3)
    with logging_to(tmp_path, "toy-1", said.append, limits) as path:
        log = logging.getLogger("trawlnet.x")
        for n in range(50):
            log.warning("host lies", extra={"lane": f"host{n}"})
        log.info("something else")
    told = lines(path)
    assert [line["event"] for line in told] == ["host lies"] * 3 + ["something else", "suppressed"]
    assert (told[-1]["kind"], told[-1]["count"]) == ("trawlnet.x: host lies", 47)
    assert len(said) == 3


def test_a_new_minute_tells_again(tmp_path: Path, said: list[str]) -> None:
    with logging_to(tmp_path, "toy-1", said.append, LogLimits(per_kind=1)) as path:
        handler = logging.getLogger().handlers[0]
        for at in (1000.0, 1001.0, 1002.0, 1061.0):
            record = logging.LogRecord("x", logging.INFO, "", 0, "tick", None, None)
            record.created = at
            handler.handle(record)
    assert [line["event"] for line in lines(path)] == ["tick", "suppressed", "tick"]
    assert lines(path)[1]["count"] == 2


def test_events_without_end_of_kinds_share_one_allowance(tmp_path: Path, said: list[str]) -> None:
    with logging_to(tmp_path, "toy-1", said.append, LogLimits(per_kind=2)) as path:
        for n in range(5000):
            logging.getLogger("x").info(f"kind {n}")
    told = lines(path)
    assert len(told) <= 210
    assert (told[-1]["kind"], told[-1]["event"]) == ("other events", "suppressed")


def test_files_are_rotated_and_old_runs_forgotten(tmp_path: Path, said: list[str]) -> None:
    limits = LogLimits(file_bytes=2000, rotated=2, runs=3, per_kind=10_000)
    for run in range(5):
        with logging_to(tmp_path, f"toy-{run}", said.append, limits):
            for _ in range(100):
                logging.getLogger("x").info("page", extra={"text": "x" * 100})
    (tmp_path / "other-1.log").touch()
    names = sorted(path.name for path in tmp_path.glob("toy-*"))
    assert names == [
        f"toy-{run}.log{part}" for run in (2, 3, 4) for part in ("", ".1", ".2")
    ]  # fmt: skip
    assert all(path.stat().st_size <= 2000 for path in tmp_path.glob("toy-*"))


def test_the_log_of_a_run_that_is_under_way_is_not_forgotten(
    tmp_path: Path, said: list[str]
) -> None:
    """However many runs begin beside it: a crawl of weeks, and a scrape each hour."""
    limits = LogLimits(file_bytes=2000, rotated=1, runs=2, per_kind=10_000)
    long = _LogFile(tmp_path / "toy-0.log", said.append, limits)
    record = logging.makeLogRecord({"msg": "page", "text": "x" * 300})
    for _ in range(10):
        long.emit(record)  # Rotated more than once: what is written now has the name.
    for run in range(1, 5):
        with logging_to(tmp_path, f"toy-{run}", said.append, limits):
            logging.getLogger("x").info("page")
    long.emit(record)
    names = {path.name for path in tmp_path.glob("toy-*")}
    assert names == {"toy-0.log", "toy-0.log.1", "toy-3.log", "toy-4.log"}
    long.close()
    with logging_to(tmp_path, "toy-5", said.append, limits):
        logging.getLogger("x").info("page")
    assert {path.name for path in tmp_path.glob("toy-*")} == {"toy-4.log", "toy-5.log"}


def test_a_log_that_cannot_be_written_is_said_once(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / "toy-1.log").mkdir()
    with logging_to(tmp_path, "toy-1", said.append):
        for _ in range(3):
            logging.getLogger("x").info("page")
    assert len(said) == 1
    assert said[0].startswith("warning: cannot write the log")


def test_afterwards_logging_is_as_it_was_before(tmp_path: Path, said: list[str]) -> None:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    with logging_to(tmp_path, "toy-1", said.append):
        pass
    assert (logging.getLogger().handlers, logging.getLogger().level) == before


def test_a_command_without_a_log_tells_warnings_in_short_lines(said: list[str]) -> None:
    with warnings_to(said.append):
        log = logging.getLogger("trawlnet.archive.x")
        log.info("segment finalised", extra={"path": "a"})
        log.warning("segment damaged", extra={"path": "a@64", "error": "cut off"})
        logging.getLogger("lib").warning("of no interest")
    assert said == ["warning: segment damaged path=a@64 error=cut off"]


def test_a_process_without_a_workspace_logs_the_same_lines_to_stderr() -> None:
    code = """
import logging
from trawlnet.observe.logs.writer import log_to_stderr
log_to_stderr()
logging.getLogger("trawlnet.x").info("shard owns", extra={"shard": 3})
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line = json.loads(ran.stderr)
    assert (line["event"], line["level"], line["shard"]) == ("shard owns", "info", 3)


def test_a_trace_stands_in_its_line_and_the_words_of_the_record_itself_do_not(
    tmp_path: Path, said: list[str]
) -> None:
    with logging_to(tmp_path, "toy-1", said.append) as path:
        try:
            raise ValueError("why")
        except ValueError:
            logging.getLogger("x").exception("it broke", extra={"key": "k", "_mark": 1})
    (line,) = lines(path)
    assert list(line) == ["event", "logger", "level", "key", "at", "exception"]
    assert line["exception"].endswith("ValueError: why")


def test_the_colours_of_a_library_stay_out_of_the_log(tmp_path: Path, said: list[str]) -> None:
    """uvicorn hands over each of its messages a second time, with a terminal's codes in it."""
    with logging_to(tmp_path / "logs", "toy-1", said.append) as path:
        colours = {"color_message": "Started server process [\x1b[36m%d\x1b[0m]"}
        logging.getLogger("uvicorn.error").info("Started server process [%d]", 7, extra=colours)
    (line,) = lines(path)
    assert line["event"] == "Started server process [7]"
    assert "color_message" not in line and "\\u001b" not in path.read_text("utf-8")
