"""`repos serve` as its users run it."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from pathlib import Path

from websockets.sync.client import connect

from tests.support.program import at_once, started
from tests.support.repos.told_world import Folding, ToldWorld

PATIENCE = 120.0


def test_it_serves_a_workspace_until_it_is_told_to_stop(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    workspace.mkdir()

    async def live() -> ToldWorld:
        world = await ToldWorld(workspace, 3).open()
        for _ in range(30):
            await world.act()
        await world.close()
        return world

    world, folding = asyncio.run(live()), Folding()
    words = ("repos", "serve", "-w", workspace, "--port", 0, "--json")
    with started(*words, folder=tmp_path / "run") as program:
        program.until(lambda: program.out.endswith("\n"), "the ready line")
        url = json.loads(program.out)["url"]
        with connect(f"{url}?cursor=1", open_timeout=PATIENCE) as client:
            while not folding.matches(world.truth):
                folding.take(str(client.recv(timeout=PATIENCE)))
        health = url.replace("ws://", "http://").replace("/subscribe", "/xrpc/_health")
        with urllib.request.urlopen(health, timeout=PATIENCE) as answer:
            assert answer.status == 200
        program.tell(signal.SIGTERM)
        assert program.ended().code == 0


def test_a_workspace_that_is_not_there_is_named(tmp_path: Path) -> None:
    ran = at_once("repos", "serve", "-w", tmp_path / "none", "--port", 0, "--json")
    assert ran.code == 10
    assert "no workspace" in ran.error["error"]
