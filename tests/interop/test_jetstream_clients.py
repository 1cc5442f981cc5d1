"""Two clients of Jetstream from npm, as they are, fold what `repos serve` sends to the truth, while
they and the server are killed."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.program import PATIENCE, Started, wait_until
from tests.support.repos.told_world import State, ToldWorld, with_records
from tests.support.servers import free_port, npm_packages, require

CLIENTS = Path(__file__).with_name("jetstream_clients")
NAMES = ("skyware", "atcute")
KILLS = 12
BEFORE = 120  # Acts before anybody connects: only the archive tells of them.
PAUSE = 0.02  # Seconds between two acts.


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return npm_packages(CLIENTS, tmp_path_factory.mktemp("npm"))


class LivingWorld:
    """Acts in a thread of its own until it is stopped."""

    def __init__(self, workspace: Path) -> None:
        self.world = ToldWorld(workspace, 7, pauses=(0.0,))
        self.acts = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))

    async def _live(self) -> None:
        await self.world.open()
        while not self._stop.is_set():
            self.world.now = max(self.world.now, time.time())
            await self.world.act()
            self.acts += 1
            if self.acts > BEFORE:
                await asyncio.sleep(PAUSE)
        await self.world.close()

    def __enter__(self) -> LivingWorld:
        self._thread.start()
        wait_until(lambda: self.acts > BEFORE or not self._thread.is_alive(), "some life")
        return self

    def stop(self) -> State:
        self._stop.set()
        self._thread.join(PATIENCE)
        return with_records(self.world.truth)

    def __exit__(self, *_: object) -> None:
        self.stop()


class Parties:
    """The server and its clients, each killed and started again at will."""

    def __init__(self, folder: Path, packages: Path, workspace: Path) -> None:
        self.folder, self.packages, self.workspace = folder, packages, workspace
        self.port = free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        if name == "server":
            words = ("repos", "serve", "-w", self.workspace, "--port", self.port)
            self.running[name] = Started(words, self.folder / "server", {}).process
            return
        url = f"ws://127.0.0.1:{self.port}/subscribe"
        program = [require("node"), str(self.packages / f"{name}.mjs"), url, str(self.file(name))]
        self.running[name] = subprocess.Popen(program, stdin=subprocess.DEVNULL)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        assert process.poll() is None, f"{name} had ended by itself"
        process.kill()
        process.wait(PATIENCE)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def saved(self, name: str) -> dict[str, object]:
        file = self.file(name)
        return dict(json.loads(file.read_text())) if file.exists() else {"cursor": 0}


@contextmanager
def parties(folder: Path, packages: Path, workspace: Path) -> Iterator[Parties]:
    found = Parties(folder, packages, workspace)
    try:
        yield found
    finally:
        for process in found.running.values():
            process.kill()
            process.wait()


def test_two_clients_have_the_truth_however_often_anybody_is_killed(
    tmp_path: Path, packages: Path
) -> None:
    workspace, dice = tmp_path / "net", random.Random(1)
    workspace.mkdir()
    with LivingWorld(workspace) as living, parties(tmp_path, packages, workspace) as all_of_them:
        for name in ("server", *NAMES):
            all_of_them.start(name)
        for kill in range(KILLS):
            name = dice.choice(("server", *NAMES))
            if kill % 2:  # Else as it comes: some are killed before they have done anything.
                before = [all_of_them.saved(one)["cursor"] for one in NAMES]
                wait_until(
                    lambda before=before: (
                        [all_of_them.saved(one)["cursor"] for one in NAMES] != before
                    ),
                    "a client that gets on",
                )
            time.sleep(dice.uniform(0.0, 0.3))
            all_of_them.kill(name)
            all_of_them.start(name)
        truth = living.stop()
        for name in NAMES:
            wait_until(lambda name=name: _state(all_of_them, name) == truth, f"{name}'s truth")
            assert all_of_them.saved(name)["invalid"] == 0, "an event of another shape"
    assert len(truth) > 10


def _state(found: Parties, name: str) -> object:
    state = found.saved(name).get("state", {})
    assert isinstance(state, dict)
    return with_records(state)
