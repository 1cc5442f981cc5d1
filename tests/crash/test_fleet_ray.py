"""A fleet on a Ray cluster of several nodes: shards and whole nodes die, secrets stay secret."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleet_run import crawl_with, dids_in_manifest, fleet_config, job_of, world_process
from program import environment
from repos_run import Truth
from servers import redis_server
from trawlnet.fleet.ray import RayRuntime
from trawlnet.fleet.supervise import Seen
from trawlnet.store.redis_fleet import Word

ray = pytest.importorskip("ray")
PATIENCE = 150.0
SECRET = "a-key-that-must-not-be-found-anywhere"


@contextmanager
def ray_cluster(nodes: int) -> Iterator[Any]:
    """A head and so many nodes, each of processes of its own; connected to."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False},
    )
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def raylet_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Killer:
    """Kills a shard, then a node with a shard on it, when each has done something."""

    def __init__(self, head_raylet: int) -> None:
        self._head = head_raylet
        self._left = ["node", "shard"]
        self._next = 30
        self.killed: list[str] = []

    def look_at(self, seen: Seen) -> None:
        if not self._left or sum(seen.counts.settled.values()) < self._next:
            return
        elsewhere = [pid for pid in _pids(seen) if raylet_of(pid) != self._head]
        if elsewhere:
            what = self._left.pop()
            os.kill(elsewhere[0] if what == "shard" else raylet_of(elsewhere[0]), signal.SIGKILL)
            self.killed.append(what)
            self._next = sum(seen.counts.settled.values()) + 30


def _pids(seen: Seen) -> list[int]:
    pids = [int(row["pid"]) for row in seen.shards.values()]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_shards_outlive_their_processes_and_nodes(tmp_path: Path) -> None:
    async def main(url: str, told: dict[str, Any], cluster: Any) -> None:
        config = fleet_config(told, url, str(tmp_path / "archive"), workers=4, attempts=8)
        secrets = {"secret_access_key": SECRET}
        runtime = RayRuntime(ray, job_of(config, tmp_path, secrets))
        killer = Killer(cluster.head_node.all_processes["raylet"][0].process.pid)
        crawling = crawl_with(config, runtime, show=killer.look_at, shards=3)
        assert await asyncio.wait_for(crawling, PATIENCE) is Word.DONE
        assert killer.killed == ["shard", "node"]
        found = dids_in_manifest(tmp_path / "archive")
        everyone = Truth.read(Path(told["manifest"])).archivable(on_relay=True)
        assert found.keys() == everyone.keys()
        assert set(found.values()) == {1}

    log = tmp_path / "requests.jsonl"
    with (
        redis_server() as server,
        world_process(13, 400, 12, log, latency=0.05) as told,
        ray_cluster(2) as cluster,
    ):
        asyncio.run(main(server.url, told, cluster))
        session = Path(cluster.head_node.get_session_dir_path())
        assert any(path.stat().st_size for path in (session / "logs").rglob("*"))
        assert [path for path in session.rglob("*") if holds(path, SECRET)] == []


def holds(path: Path, word: str) -> bool:
    return path.is_file() and word.encode() in path.read_bytes()


def test_without_ray_nothing_imports_it_and_its_absence_is_said(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["ray"] = None
from trawlnet.cli.main import run
assert run(["fleet", "--help"]) == 0
flags = ["--fleet", "local", "--store", "redis://127.0.0.1:1/0", "--archive", "x"]
flags += ["--relay", "https://relay.example", "--contact", "a@b.example"]
sys.exit(run(["repos", "crawl", *flags]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
    )
    assert ran.returncode == 2 and "pip install 'trawlnet[fleet]'" in ran.stderr
