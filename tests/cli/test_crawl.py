"""A crawl from its user's seat: what it prints, how it ends, how it is steered and stopped."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import (
    PATIENCE,
    Ran,
    Started,
    at_once,
    environment,
    started,
    trawlnet,
    wait_until,
)
from tests.support.repos.run import blocks_written, holds_something
from trawlnet.engine.outcome import Reason

COUNTS = {"open", "leased", "waiting", "blocked", "scheduled", "known"}
SLOWLY = 1.0  # Requests per second to each host: a crawl that takes about half a minute.


def archived(workspace: Path) -> list[str]:
    """DIDs in the archive, as often as they were written."""
    return list(blocks_written(workspace).elements())


def status(workspace: Path) -> dict[str, Any]:
    ran = at_once("repos", "status", "-w", workspace, "--json")
    assert (ran.code, ran.err) == (0, "")
    (row,) = ran.rows
    return row


@pytest.fixture
def slow(network: Any, tmp_path: Path) -> Iterator[Started]:
    """A crawl that has archived something and has much left to do."""
    workspace = tmp_path / "net"
    with started(*network.crawl(workspace, rps=SLOWLY), folder=tmp_path / "io") as crawl:
        crawl.until(lambda: holds_something(workspace), "a repository")
        yield crawl


def finish(network: Any, workspace: Path) -> None:
    """Continue, and check that nothing was lost and little done twice."""
    ran = trawlnet(*network.crawl(workspace))
    assert ran.code == 0, ran.err
    keys = archived(workspace)
    assert set(keys) == network.repositories
    assert len(keys) - len(set(keys)) <= 8  # Only what was written and not yet settled.


@pytest.fixture(scope="module")
def crawled(network: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """A whole crawl, for tests that only look at it or work on a copy."""
    workspace = tmp_path_factory.mktemp("crawled") / "net"
    return trawlnet(*network.crawl(workspace, "--json")), workspace


def test_a_crawl_ends_by_itself_with_everything_archived(
    network: Any, crawled: tuple[Ran, Path]
) -> None:
    ran, workspace = crawled
    assert ran.code == 0
    assert f"crawling into {workspace}; log in {workspace}/logs/repos-" in ran.err
    assert sorted(archived(workspace)) == sorted(network.repositories)
    (log,) = (workspace / "logs").glob("repos-*.log")
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert (events[0], events[-1]) == ("crawl began", "crawl ended")


def test_json_gives_events_and_a_summary(network: Any, crawled: tuple[Ran, Path]) -> None:
    *events, summary = crawled[0].rows
    assert events and all(event["crawler"] == "repos" and "done" in event for event in events)
    assert summary["event"] == "summary" and summary["ending"] == "done"
    assert summary["exit_code"] == 0 and summary["given_up"] == 0
    assert summary["settled"]["ok"] >= len(network.repositories)


def test_status_tells_how_a_crawl_stands(crawled: tuple[Ran, Path]) -> None:
    _, workspace = crawled
    row = status(workspace)
    assert set(row) >= COUNTS | {"settled", "attempts", "cursor", "running", "rate", "crawler"}
    assert row["running"] is None and row["open"] == 0 and row["known"] > 0
    assert sum(row["settled"].values()) >= row["known"]  # What is archived is not remembered.
    assert row["settled"]["ok"] == row["attempts"]["ok"]
    text = trawlnet("repos", "status", "-w", workspace)
    assert text.code == 0 and text.out.startswith(f"repos in {workspace}: not running\n")


def test_failures_are_rows_that_can_be_put_back(
    network: Any, crawled: tuple[Ran, Path], tmp_path: Path
) -> None:
    workspace = tmp_path / "net"
    shutil.copytree(crawled[1], workspace)
    rows = trawlnet("repos", "failures", "-w", workspace, "--json").rows
    assert [row["key"] for row in rows] == sorted(row["key"] for row in rows)
    inactive = {did for did, row in network.manifest["dids"].items() if row["status"] != "active"}
    assert rows and {row["key"] for row in rows} <= inactive
    for row in rows:
        assert list(row) == ["key", "lane", "reason", "detail", "attempt", "at"]
        assert row["reason"] in set(Reason) and row["at"].endswith("Z") and "T" in row["at"]
    reason = rows[0]["reason"]
    some = trawlnet("repos", "failures", "-w", workspace, "--json", "--reason", reason).rows
    assert some == [row for row in rows if row["reason"] == reason]
    one = trawlnet("repos", "failures", "-w", workspace, TRAWLNET_REPOS_LIMIT="1")
    assert len(one.out.splitlines()) == 1 and reason in one.out

    put_back = trawlnet("repos", "retry", "-w", workspace, "--reason", reason, "--json").rows
    assert put_back == [{"put_back": len(some)}]
    again = trawlnet(*network.crawl(workspace, "--json"))
    assert again.code == 0 and again.rows[-1]["run"]["attempts"] == {reason: len(some)}


def test_reset_asks_says_what_it_deletes_and_starts_over(
    crawled: tuple[Ran, Path], tmp_path: Path
) -> None:
    workspace = tmp_path / "net"
    shutil.copytree(crawled[1], workspace)
    refused = trawlnet("repos", "reset", "-w", workspace, stdin="n\n")
    unasked = trawlnet("repos", "reset", "-w", workspace)
    for_programs = trawlnet("repos", "reset", "-w", workspace, "--json")
    assert for_programs.out == "" and for_programs.error["error"] == "nothing was deleted"
    for ran in (refused, unasked):
        assert (
            ran.code == 1 and "error: nothing was deleted\nhint: answer y, or add --yes" in ran.err
        )
        assert f"deletes {workspace}/state/repos/store (" in ran.err
        assert f"deletes {workspace}/archive (" in ran.err
    (workspace / "trawlnet.yaml").write_text("repos:\n  workers: 9\n")
    assert trawlnet("repos", "reset", "-w", workspace, "--yes").code == 0
    assert not (workspace / "archive").exists()
    assert (workspace / "trawlnet.yaml").exists() and (workspace / "logs").exists()
    assert status(workspace)["known"] == 0


def test_a_limit_ends_with_its_own_code_and_can_be_continued(network: Any, tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    ran = trawlnet(*network.crawl(workspace, "--max-tasks", 5))
    assert ran.code == 4 and "stopped at a limit after" in ran.err
    assert f"tasks left; continue: trawlnet repos crawl -w {workspace}" in ran.err
    finish(network, workspace)


def test_tasks_given_up_on_show_in_the_exit_code(tmp_path: Path) -> None:
    flags = ("--relay", "http://127.0.0.1:1", "--allow-private-hosts", "--attempts", "1")
    ran = trawlnet("repos", "crawl", "-w", tmp_path / "net", *flags)
    assert ran.code == 3
    assert "hint: 1 task given up; list with: trawlnet repos failures -w" in ran.err
    rows = trawlnet("repos", "failures", "-w", tmp_path / "net", "--json").rows
    assert [row["reason"] for row in rows] == ["connection_error"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_one_signal_finishes_what_is_in_flight_and_saves(
    network: Any, slow: Started, tmp_path: Path, number: signal.Signals
) -> None:
    slow.tell(number)
    ran = slow.ended()
    assert ran.code == 130
    told = re.search(r"Interrupted: finishing \d+ tasks?\. Press Ctrl-C again to stop", ran.err)
    assert told is not None, ran.err
    assert "interrupted, saved, after" in ran.err and "Traceback" not in ran.err
    assert "tasks left; continue: trawlnet repos crawl" in ran.err
    row = status(tmp_path / "net")
    assert row["running"] is None and row["leased"] == 0 and row["open"] > 0
    finish(network, tmp_path / "net")


def test_two_signals_stop_at_once_and_lose_nothing(tmp_path: Path) -> None:
    flags = ("--allow-private-hosts", "--relay")
    # A server that accepts and never answers: what is in flight would take minutes to finish.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE)
        relay = f"http://127.0.0.1:{silent.getsockname()[1]}"
        arguments = ("repos", "crawl", "-w", tmp_path / "net", *flags, relay)
        with started(*arguments, folder=tmp_path / "io") as crawl:
            held, _ = silent.accept()
            crawl.tell(signal.SIGINT)
            crawl.says(
                "Interrupted: finishing 1 task. Press Ctrl-C again to stop immediately; "
                "nothing is lost.\n"
            )
            crawl.tell(signal.SIGINT)
            ran = crawl.ended()
            held.close()
    assert ran.code == 130 and "Stopping: unfinished tasks are repeated" in ran.err
    assert "Traceback" not in ran.err and "interrupted, saved" in ran.err
    row = status(tmp_path / "net")
    assert (row["open"], row["leased"], row["attempts"]) == (1, 0, {})


def test_sigkill_loses_nothing(network: Any, slow: Started, tmp_path: Path) -> None:
    slow.tell(signal.SIGKILL)
    assert slow.ended().code == -signal.SIGKILL
    assert status(tmp_path / "net")["running"] is None  # The pid in the lock is a dead one.
    finish(network, tmp_path / "net")


def test_while_a_crawl_runs_others_may_look_but_not_touch(slow: Started, tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    wait_until(lambda: status(workspace)["open"] > 0, "fresh figures")
    row = status(workspace)
    assert row["running"] == slow.pid and isinstance(row["rate"], float)
    slow.tell(signal.SIGSTOP)  # It must not end before all of them have tried.
    assert trawlnet("repos", "failures", "-w", workspace).code == 0
    for verb in ("retry", "reset"):
        ran = trawlnet("repos", verb, "-w", "net", cwd=tmp_path)
        assert ran.code == 11
        assert ran.err == (
            f"error: workspace ./net is in use by pid {slow.pid}\n"
            "hint: wait, or stop that process\n"
        )
    ran = trawlnet(
        "repos", "crawl", "-w", workspace, "--json", "--allow-private-hosts", "--relay", "http://x"
    )
    assert ran.code == 11 and str(slow.pid) in ran.error["error"]


def test_sigusr1_and_sighup_are_answered_on_stderr(slow: Started, tmp_path: Path) -> None:
    slow.tell(signal.SIGUSR1)
    slow.until(lambda: slow.err.count("repos running") >= 2, "a status line")
    file = tmp_path / "net" / "trawlnet.yaml"
    file.write_text("repos:\n  workers: 7\n  contact: me@example.org\n")
    slow.tell(signal.SIGHUP)
    slow.says("config reloaded: workers 50 -> 7; in effect after a restart: contact")
    wait_until(lambda: status(tmp_path / "net")["workers"] == 7, "seven workers")
    file.write_text("repos:\n  wokers: 7\n")
    slow.tell(signal.SIGHUP)
    slow.says("config not reloaded, the old one stays in force: ")
    assert "unknown key repos.wokers" in slow.err and slow.process.poll() is None


def test_pause_and_stop_files(network: Any, slow: Started, tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    (workspace / "pause.repos").touch()
    slow.says("pause.repos exists: paused; remove it to continue")
    (workspace / "pause.repos").unlink()
    slow.says("the pause file was removed: continuing")
    (workspace / "stop").touch()
    ran = slow.ended()
    assert ran.code == 130 and f"{workspace}/stop exists: finishing" in ran.err
    still = trawlnet(*network.crawl(workspace))
    assert still.code == 130 and f"hint: remove {workspace}/stop before" in still.err
    (workspace / "stop").unlink()
    finish(network, workspace)


def test_a_crawl_outlives_its_terminal(network: Any, tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    master, slave = pty.openpty()
    arguments = map(str, network.crawl(workspace, rps=20))
    crawl = subprocess.Popen(
        [sys.executable, "-m", "trawlnet", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment(),
        start_new_session=True,
    )
    os.close(slave)
    try:
        shown = b""
        while b" workers" not in shown:  # The live block is there.
            shown += os.read(master, 4096)
        os.close(master)
        crawl.send_signal(signal.SIGHUP)  # As the system does when a terminal is closed.
        assert crawl.wait(PATIENCE) == 0
    finally:
        crawl.kill()
    assert set(archived(workspace)) == network.repositories


def test_metrics_are_served_and_a_taken_port_is_said(network: Any, tmp_path: Path) -> None:
    taken = network.relay.removeprefix("http://")
    for address, code, words in (
        (taken, 1, f"cannot serve metrics on {taken}: address already in use"),
        ("nonsense", 2, "metrics address 'nonsense' is not HOST:PORT"),
    ):
        ran = trawlnet(*network.crawl(tmp_path / "other", "--metrics-address", address))
        assert ran.code == code and f"error: {words}\nhint: " in ran.err
    ran = trawlnet(*network.crawl(tmp_path / "other", "--metrics-address", "127.0.0.1:0"))
    assert ran.code == 0 and "metrics on http://127.0.0.1:" in ran.err


def test_a_process_of_somebody_else_is_not_disturbed_by_a_stale_pid(tmp_path: Path) -> None:
    """After SIGKILL the lock file names a pid that may belong to anybody by now."""
    state = tmp_path / "net" / "state" / "repos"
    state.mkdir(parents=True)
    (state / "lock").write_text(f"{os.getpid()}\n")
    assert status(tmp_path / "net")["running"] is None
