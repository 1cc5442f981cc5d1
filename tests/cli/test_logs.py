"""`trawlnet logs`: every line that was asked for, in order, whatever happens to the files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import at_once, started
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.observe.logs.reader import LogFilter, Reader
from trawlnet.observe.logs.writer import LoggedTries, logging_to
from trawlnet.stores.memory import MemoryStore


def write(path: Path, *lines: dict[str, Any] | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for line in lines:
            file.write(line if isinstance(line, str) else json.dumps(line) + "\n")


def line(minute: int, event: str = "attempt failed", **fields: Any) -> dict[str, Any]:
    return {"at": f"2024-05-01T12:{minute:02}:00Z", "level": "info", "event": event, **fields}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    logs = tmp_path / "logs"
    write(logs / "repos-20240501T120000Z.log.2", line(1, n=1))
    write(logs / "repos-20240501T120000Z.log.1", line(3, n=3, lane="https://a.example"))
    write(logs / "repos-20240501T120000Z.log", line(5, n=5, reason="timeout"))
    write(
        logs / "ids_store-20240501T120100Z.log",
        line(2, "Store away", n=2, level="warning"),
        line(4, n=4, lane="https://b.example", reason="timeout"),
    )
    write(logs / "missed.log", "17\n")
    write(logs / "pages-1.csv", "timestamp,url\n")
    return tmp_path


def numbers(workspace: Path, *flags: object) -> list[int]:
    ran = at_once("logs", "-w", workspace, "--json", *flags)
    assert ran.code == 0, ran.err
    return [row["n"] for row in ran.rows]


def test_all_runs_and_their_older_files_are_one_story_with_the_newest_last(workspace: Path):
    assert numbers(workspace) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["--crawler", "ids"], [2, 4]),
        (["--lane", "b.ex"], [4]),
        (["--reason", "timeout"], [4, 5]),
        (["--reason", "timeout", "--lane", "a.ex"], []),
        (["--event", "store"], [2]),
        (["--level", "warning"], [2]),
        (["--level", "debug"], [1, 2, 3, 4, 5]),
        (["--since", "2024-05-01T12:03:00Z"], [3, 4, 5]),
        (["--since", "2024-05-01T14:04:00+02:00"], [4, 5]),
        (["--since", "2h"], []),
        (["--limit", "2"], [4, 5]),
    ],
)
def test_a_question_leaves_out_what_was_not_asked_for(workspace: Path, flags, found):
    assert numbers(workspace, *flags) == found


def test_a_whole_second_comes_before_its_fractions(tmp_path: Path):
    first = line(1, n=1)
    write(tmp_path / "logs/web-1.log", {**first, "at": "2024-05-01T12:00:00.5Z", "n": 2})
    write(tmp_path / "logs/web-2.log", {**first, "at": "2024-05-01T12:00:00Z"})
    assert numbers(tmp_path) == [1, 2]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--reason", "timeouts"], "did you mean timeout?"),
        (["--level", "loud"], "levels: debug"),
        (["--crawler", "repo"], "did you mean repos?"),
        (["--since", "yesterday"], "write it like 30m"),
    ],
)
def test_a_word_that_is_wrong_is_named_with_what_to_type(workspace: Path, flags, words):
    ran = at_once("logs", "-w", workspace, *flags)
    assert ran.code == 2 and words in ran.err and not ran.out


def test_no_workspace_is_told_apart_from_no_logs(tmp_path: Path):
    assert at_once("logs", "-w", tmp_path / "none").code == 10
    ran = at_once("logs", "-w", tmp_path)
    assert ran.code == 0 and "nothing was logged" in ran.err


def test_torn_and_foreign_lines_are_left_out_and_counted(workspace: Path):
    write(workspace / "logs/repos-20240501T120000Z.log", "{torn\n", "[]\n", "{}\n", '{"at": 5}\n')
    write(workspace / "logs/web-1.log", '{"at": "2024-05-01T12:09:00Z", "unfinished')
    ran = at_once("logs", "-w", workspace, "--json")
    assert [row["n"] for row in ran.rows] == [1, 2, 3, 4, 5] and "4 lines" in ran.err


def test_what_a_server_called_itself_moves_no_cursor(tmp_path: Path):
    write(tmp_path / "logs/web-1.log", line(1, "x\x1b[2J", lane="\x1b]0;evil\x07", detail="a b"))
    out = at_once("logs", "-w", tmp_path).out
    assert "\x1b" not in out and "\x07" not in out and 'detail="a b"' in out


def test_what_comes_later_is_read_once_also_across_a_rotation(workspace: Path):
    reader = Reader(workspace / "logs", LogFilter(crawler="repos"))
    path = workspace / "logs/repos-20240501T120000Z.log"
    assert [one.fields["n"] for one in reader.lines()] == [1, 3, 5]
    write(path, line(6, n=6), '{"at": "2024-05-01T12:07:00Z", "n"')
    assert [one.fields["n"] for one in reader.lines()] == [6]
    write(path, ": 7}\n")
    path.with_name(path.name + ".2").rename(path.with_name(path.name + ".3"))
    path.with_name(path.name + ".1").rename(path.with_name(path.name + ".2"))
    path.rename(path.with_name(path.name + ".1"))
    write(path, line(8, n=8))
    write(workspace / "logs/repos-20240502T000000Z.log", line(9, n=9))
    assert [one.fields["n"] for one in reader.lines()] == [7, 8, 9]
    assert list(reader.lines()) == []


def test_following_shows_what_is_logged_while_it_looks(workspace: Path, tmp_path: Path):
    with started("logs", "-w", workspace, "--json", "--follow", folder=tmp_path / "out") as program:
        program.until(lambda: len(program.out.splitlines()) == 5, "the lines so far")
        write(workspace / "logs/web-20240503T000000Z.log", line(7, n=7))
        program.until(lambda: '"n": 7' in program.out, "the new line")


class Failing:
    """Answers as it is told, one word for each key."""

    async def __call__(self, task: Task) -> Outcome:
        return Outcome(Reason(task.key), detail="so it is", wait=3600.0)


class Told:
    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        words = (Reason.TIMEOUT, Reason.NOT_FOUND, Reason.OK, Reason.RATE_LIMITED)
        yield Page([Task(word, f"https://{word}.example") for word in words], "end")


class Nowhere:
    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        return None


def test_a_crawl_logs_tries_that_failed_and_lanes_that_are_held(tmp_path: Path):
    async def main() -> None:
        clock = SystemClock()
        gate, handler = Gate(clock, Manners()), LoggedTries(Failing())
        store = MemoryStore()
        parts = Parts(Feed(Told(), store), store, handler, Nowhere(), gate, clock)
        limits = Limits(retry=RetryPolicy(attempts=1, patience=0))
        await crawl(parts, limits, Control(2))

    with logging_to(tmp_path / "logs", "web-20240501T120000Z", lambda line: None):
        asyncio.run(main())
    failed = at_once("logs", "-w", tmp_path, "--event", "attempt failed", "--json").rows
    assert {row["reason"] for row in failed} == {"timeout", "rate_limited"}
    assert all(row["detail"] == "so it is" and row["lane"] for row in failed)
    held = at_once("logs", "-w", tmp_path, "--event", "lane held", "--json").rows
    assert "https://rate_limited.example" in {row["lane"] for row in held}
