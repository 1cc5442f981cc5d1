"""Three times Ctrl-C: finish, stop with everything saved, die; the same for every verb."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet.run import Tasks, fleet_config, job_of
from tests.support.program import PATIENCE, environment, started, wait_until
from tests.support.servers import redis_server
from trawlnet.cli.common.workspace import Workspace
from trawlnet.cli.fleet.command import crawl_with_shards
from trawlnet.cli.repos.fleet import shards_of
from trawlnet.sim.atproto.world import serve_atproto
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word

FIRST = "Press Ctrl-C again to stop immediately; nothing is lost."
SECOND = "Stopping: unfinished tasks are repeated next time."

# A verb that holds on to what it has: nothing but the third signal ends it.
STUBBORN = """
import asyncio, sys, time
from trawlnet.cli.crawl.signals import interruptible

async def work():
    with interruptible(lambda: "finishing 3 tasks"):
        print("ready", flush=True)
        if sys.argv[1] == "busy":
            time.sleep(600)  # The loop hears of nothing.
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                print("cancelled", flush=True)

async def ended():
    with interruptible(lambda: "finishing"):
        pass
    print("ready", flush=True)
    time.sleep(600)  # As a thread that does not end would have it.

asyncio.run(ended() if sys.argv[1] == "ended" else work())
"""


@pytest.mark.parametrize("state", ["idle", "busy", "ended"])
def test_the_third_signal_kills_whatever_the_process_is_at(state: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN, state],
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "err").open("wb"),
        env=environment(),
        text=True,
    )
    try:
        assert process.stdout and process.stdout.readline() == "ready\n"
        for count in (1, 2):
            process.send_signal(signal.SIGINT)
            # A signal that comes before the last was looked at counts as one with it.
            wait_until(lambda count=count: _seen(process.pid) >= count, "the signal is heard")
            if state == "idle" and count == 2:
                assert process.stdout.readline() == "cancelled\n"
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == -signal.SIGINT
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    told = (tmp_path / "err").read_text()
    if state == "idle":
        assert told.startswith(f"Interrupted: finishing 3 tasks. {FIRST}\n{SECOND}")
    else:
        assert told == ""


def _seen(pid: int) -> int:
    """How many signals it has counted: after the second one it no longer catches them, and while
    one is pending nobody has."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = {
        name: int(value, 16)
        for name, _, value in (row.partition(":\t") for row in rows)
        if name in ("SigPnd", "ShdPnd", "SigCgt")
    }
    bit = 1 << (signal.SIGINT - 1)
    if (masks["SigPnd"] | masks["ShdPnd"]) & bit:
        return 0
    return 1 if masks["SigCgt"] & bit else 2


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts and never answers: what is under way would take minutes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


@pytest.mark.parametrize(
    "verb",
    [
        ("repos", "plc", "--plc-url", "{url}"),
        ("pds", "discover", "--relay", "{url}"),
        ("web", "crawl", "--user-agent", "Bot/1.0 (+https://example.org/bot)", "{url}"),
    ],
    ids=lambda words: f"{words[0]}-{words[1]}",
)
def test_verbs_say_what_they_finish_and_the_second_signal_ends_them(
    verb: tuple[str, ...], silent: socket.socket, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    words = [word.format(url=url) for word in verb]
    words += ["-w", str(tmp_path / "net"), "--allow-private-hosts"]
    with started(*words, folder=tmp_path / "io") as program:
        held, _ = silent.accept()
        program.tell(signal.SIGINT)
        wait_until(lambda: FIRST in program.err, f"the first word of {words}")
        if program.process.poll() is None:
            program.tell(signal.SIGTERM)
        ran = program.ended()
        held.close()
    assert ran.code == 130 and "Traceback" not in ran.err, ran.err


@pytest.fixture
def restored() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_a_fleet_is_drained_by_the_first_signal_and_stopped_by_the_second(
    tmp_path: Path, restored: None, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main(url: str) -> None:
        world = await serve_atproto(3, accounts=60, hosts=4, habits=(), latency=0.2)
        keys = await FleetKeys.open(url)

        async def until(word: Word) -> None:
            while (await keys.plan()).word is not word:
                await asyncio.sleep(0.05)

        try:
            config = fleet_config(world.ready_line(), url, str(tmp_path / "a"), workers=1)
            runtime, place = Tasks(job_of(config, tmp_path)), Workspace(tmp_path, "repos")
            crawling = asyncio.create_task(
                crawl_with_shards(shards_of(config, place, {}), runtime, as_json=False)
            )
            await until(Word.RUN)
            while len(await keys.statuses()) < config.shards:
                await asyncio.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
            await until(Word.DRAIN)
            os.kill(os.getpid(), signal.SIGTERM)
            await until(Word.STOP)
            assert await crawling == 130
        finally:
            await keys.close()
            await world.close()

    with redis_server() as server:
        asyncio.run(asyncio.wait_for(main(server.url), PATIENCE))
    told = capsys.readouterr().err
    assert (
        f"Interrupted: the fleet finishes its tasks in flight. {FIRST}" in told and SECOND in told
    )
