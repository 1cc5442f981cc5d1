"""Two clients of Jetstream from npm, as they are, fold what `repos serve` sends to the truth, while
they, the server and the follower are killed."""

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
from tests.support.repos.followed import (
    Content,
    LiveWorld,
    differences,
    follow_flags,
    live_world,
)
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
        self.follow: tuple[object, ...] = ()

    def start(self, name: str) -> None:
        serve = ("repos", "serve", "-w", self.workspace, "--port", self.port)
        commands: dict[str, tuple[object, ...]] = {"server": serve, "follower": self.follow}
        if name in commands:
            self.running[name] = Started(commands[name], self.folder / name, {}).process
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
    workspace = tmp_path / "net"
    workspace.mkdir()
    with LivingWorld(workspace) as living, parties(tmp_path, packages, workspace) as all_of_them:
        kill_some(all_of_them, ("server", *NAMES))
        truth = living.stop()
        agree(all_of_them, truth)
    assert len(truth) > 10


def test_so_have_they_behind_a_real_follower(tmp_path: Path, packages: Path) -> None:
    """A simulated network with accounts that write, move, pause and leave; its truth is judged."""
    workspace = tmp_path / "net"
    with (
        live_world(17, tmp_path, accounts=60, hosts=3) as living,
        parties(tmp_path, packages, workspace) as all_of_them,
    ):
        all_of_them.follow = ("repos", "crawl", "--follow", "-w", workspace)
        all_of_them.follow += follow_flags(living.world)
        all_of_them.start("follower")
        wait_until(lambda: (workspace / "spool" / "repo_events").exists(), "the first events")
        with acting(living):
            kill_some(all_of_them, ("server", "follower", *NAMES))
        truth = living.truth()
        agree(all_of_them, truth)
    assert len(truth) > 10


@contextmanager
def acting(living: LiveWorld) -> Iterator[None]:
    """Not so often that everybody has left in the end."""
    is_over = threading.Event()

    def act() -> None:
        while not is_over.wait(0.1):
            living.acts(1)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(PATIENCE)


def kill_some(all_of_them: Parties, names: tuple[str, ...]) -> None:
    dice = random.Random(1)
    for name in names:
        if name not in all_of_them.running:
            all_of_them.start(name)
    for kill in range(KILLS):
        if kill % 2:  # Else as it comes: some are killed before they have done anything.
            before = cursors(all_of_them)
            wait_until(lambda before=before: cursors(all_of_them) != before, "some progress")
        time.sleep(dice.uniform(0.0, 0.3))
        name = dice.choice(names)
        all_of_them.kill(name)
        all_of_them.start(name)


def cursors(found: Parties) -> list[object]:
    return [found.saved(name)["cursor"] for name in NAMES]


def agree(found: Parties, truth: Content) -> None:
    for name in NAMES:
        try:
            wait_until(lambda name=name: _state(found, name) == truth, f"{name}'s truth")
        except AssertionError as error:
            wrong = differences(_state(found, name), truth)
            raise AssertionError(f"{name}: " + "\n".join(wrong)) from error
        assert found.saved(name)["invalid"] == 0, "an event of another shape"


def _state(found: Parties, name: str) -> Content:
    state = found.saved(name).get("state", {})
    assert isinstance(state, dict)
    return with_records(state)
