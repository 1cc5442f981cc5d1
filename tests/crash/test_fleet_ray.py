"""A fleet on a Ray cluster of several nodes: processes and nodes die, secrets stay secret."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.clickhouse_front import ClickHouse, clickhouse_front
from tests.support.fleet.ray_nodes import pids_of, ray_cluster, raylet_of, raylets_of
from tests.support.fleet.run import crawl_with, dids_in_manifest, fleet_config, job_of
from tests.support.fleet.web import (
    captured,
    check_captured,
    least_gap,
    split_site,
    web_crawl_with,
    web_fleet_config,
    web_job,
)
from tests.support.net.wire import Moment, Wire
from tests.support.program import Ran, environment, started, trawlnet
from tests.support.repos.archive_rows import blocks_of, made_repos, rows_of, write_segment
from tests.support.repos.run import Truth
from tests.support.servers import redis_server, require_package
from trawlnet.crawlers.errors import NotReady, Unanswered
from trawlnet.crawlers.repos.replay.reading import CollectionFilter
from trawlnet.crawlers.repos.replay.replay import Replay, ReplayCounts
from trawlnet.fleet.ray import RayRuntime, RayTasks
from trawlnet.fleet.replay import FleetReplay
from trawlnet.fleet.supervise import Seen
from trawlnet.sim.atproto.world import serve_atproto
from trawlnet.sim.web import WebWorld
from trawlnet.storage.s3 import ObjectsError
from trawlnet.stores.redis.fleet.shards import Word
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Query
from trawlnet.tables.clickhouse.server import ClickHouseServer

ray = require_package("ray")
# Without FINAL: nothing may be there twice, not even for now.
ALL = Query(
    "all", "SELECT repo, collection, rkey, record_json, time_us FROM repo_records ORDER BY ALL"
)
RECORDS = b"INSERT INTO repo_records"
SEGMENT = b"INSERT INTO replayed_segments"
SEGMENTS = 4
PATIENCE = 150.0
WEB_RATE = 10.0  # Requests per second to one host.
SECRET = "a-key-that-must-not-be-found-anywhere"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_cluster(2) as running:
        yield running


class Killer:
    """Kills a shard, then a node with a shard on it, when each has done something."""

    def __init__(self, head_raylet: int) -> None:
        self._head = head_raylet
        self._left = ["node", "shard"]
        self._next = 30
        self.nodes: set[int] = set()  # Those with shards, when the first one dies.
        self.killed: list[str] = []

    def look_at(self, seen: Seen) -> None:
        if not self._left or sum(seen.counts.settled.values()) < self._next:
            return
        if not self.killed and len(_pids(seen)) < seen.plan.shards:
            return
        self.nodes = self.nodes or {raylet_of(pid) for pid in _pids(seen)}
        elsewhere = [pid for pid in _pids(seen) if raylet_of(pid) != self._head]
        if elsewhere:
            what = self._left.pop()
            os.kill(elsewhere[0] if what == "shard" else raylet_of(elsewhere[0]), signal.SIGKILL)
            self.killed.append(what)
            self._next = sum(seen.counts.settled.values()) + 1


def _pids(seen: Seen) -> list[int]:
    pids = [int(row["pid"]) for row in seen.shards.values()]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_shards_outlive_their_processes_and_nodes(tmp_path: Path, cluster: Any) -> None:
    async def main(url: str) -> None:
        # Answered by the loop that looks and kills: while it does not look, little is crawled.
        world = await serve_atproto(13, accounts=200, hosts=12, habits=(), latency=0.2)
        archive = str(tmp_path / "archive")
        config = fleet_config(world.ready_line(), url, archive, workers=4, attempts=8)
        secrets = {"secret_access_key": SECRET}
        runtime = RayRuntime(ray, job_of(config, tmp_path, secrets))
        killer = Killer(raylets_of(cluster)[0])
        crawling = crawl_with(config, runtime, show=killer.look_at, shards=3)
        assert await asyncio.wait_for(crawling, PATIENCE) is Word.DONE
        assert killer.killed == ["shard", "node"]
        assert len(killer.nodes) == 3, "there were shards on the same node"
        found = dids_in_manifest(tmp_path / "archive")
        assert found.keys() == Truth.of(world).archivable(on_relay=True).keys()
        assert set(found.values()) == {1}
        await world.close()

    with redis_server() as server:
        asyncio.run(main(server.url))
    assert files_of_ray_with(SECRET, cluster) == []


def test_a_web_crawl_outlives_the_process_of_a_shard(tmp_path: Path, cluster: Any) -> None:
    archive, killed = str(tmp_path / "archive"), list[int]()

    def kill_one(seen: Seen) -> None:
        pids = _pids(seen)
        if not killed and pids and sum(seen.counts.settled.values()) > 15:
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])

    async def main(url: str) -> WebWorld:
        async with split_site(tmp_path, hosts=5, pages=25) as world:
            limits = {"req_per_sec": WEB_RATE, "max_retries": 6}
            config = web_fleet_config(world, url, archive, limits=limits)
            runtime = RayRuntime(ray, web_job(config, tmp_path))
            crawling = web_crawl_with(config, runtime, kill_one)
            assert await asyncio.wait_for(crawling, PATIENCE) is Word.DONE
        return world

    with redis_server() as server:
        web = asyncio.run(main(server.url))
    assert killed
    log = tmp_path / "requests.jsonl"
    check_captured(web, captured(archive), log)
    assert least_gap(log) >= 1.0 / WEB_RATE


def test_the_command_ends_at_its_limit_and_others_read_its_archive(
    tmp_path: Path, cluster: Any
) -> None:
    archive, tables, most = tmp_path / "archive", tmp_path / "tables", 12
    flags = ("--fleet", cluster.address, "--archive", archive, "--max-pages", most, "--json")
    flags = (*flags, "--allow-private-hosts", "--req-per-sec", 50, "--part-seconds", 1)

    async def main(url: str) -> Ran:
        async with split_site(tmp_path, hosts=5, pages=25) as world:
            command = ("web", "crawl", "-w", tmp_path / "w", *world.seeds, "--store", url, *flags)
            return await asyncio.to_thread(trawlnet, *command)

    with redis_server() as server:
        ran = asyncio.run(main(server.url))
        summary = ran.rows[-1]
        assert ran.code == 4 and summary["ending"] == "limit", ran.err
        captures = summary["archive"]["captures"]
        at = ("-w", tmp_path / "w", "--redis-address", server.url)
        (status,) = trawlnet("web", "status", *at, "--json").rows
        assert status["crawler"] == "web" and status["open"] > 0
        (report,) = trawlnet("web", "report", *at, "--archive", archive, "--json").rows
        assert report["captures"] == captures and report["open"] == status["open"]
    (replayed,) = trawlnet("web", "replay", "--archive", archive, "-o", tables, "--json").rows
    assert replayed == {"captures": captures, "pages": most, "damaged": 0}
    assert len((tables / "pages.csv").read_text().splitlines()) == captures + 1


def files_of_ray_with(word: str, cluster: Any) -> list[Path]:
    session = Path(cluster.head_node.get_session_dir_path())
    assert any(path.stat().st_size for path in (session / "logs").rglob("*"))
    files = [path for path in session.rglob("*") if path.is_file()]
    return [path for path in files if word.encode() in path.read_bytes()]


@contextmanager
def world(tmp_path: Path) -> Iterator[tuple[list[list[Any]], ClickHouse]]:
    """An archive of a few segments, and a server; gives the rows that are in it."""
    repos = made_repos(3, 60)
    blocks = blocks_of(repos)
    for number in range(SEGMENTS):
        write_segment(tmp_path / f"a/segment_{number + 1:04}.rca", blocks[number::SEGMENTS])
    with clickhouse_front(tmp_path / "server") as server:
        yield rows_of(repos), server


async def replayed(place: Path, server: ClickHouseServer) -> ReplayCounts:
    async with opened(server) as tables:
        elsewhere = FleetReplay(RayTasks(ray), (), server, {})
        replay = Replay(tables, CollectionFilter(), asyncio.Event(), elsewhere=elsewhere)
        await replay.run(place, 3)
        return replay.done


async def rows_in(server: ClickHouseServer) -> list[list[Any]]:
    async with opened(server) as tables:
        return await tables.rows(ALL)


def at_work(cluster: Any) -> list[int]:
    return pids_of(b"ray::replay_segment", raylets_of(cluster))


def test_processes_and_a_node_die_and_every_record_is_there_once(
    tmp_path: Path, cluster: Any
) -> None:
    def kill_processes() -> bool:
        found = at_work(cluster)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return bool(found)

    def kill_node() -> bool:
        head = raylets_of(cluster)[0]
        elsewhere = [raylet_of(pid) for pid in at_work(cluster) if raylet_of(pid) != head]
        if elsewhere:
            os.kill(elsewhere[0], signal.SIGKILL)
        return bool(elsewhere)

    moments = [
        Moment(RECORDS, False, kill_processes),
        Moment(RECORDS, True, kill_node),
        Moment(SEGMENT, True, kill_processes),
    ]
    with world(tmp_path) as (expected, front):
        direct = ClickHouseServer(front.address, password=front.password)
        port = int(front.address.rpartition(":")[2])
        with closing(Wire(port, moments)) as wire:
            there = ClickHouseServer(wire.address, password=front.password)
            done = asyncio.run(replayed(tmp_path / "a", there))
        assert moments == [] and done.segments == SEGMENTS < done.tries
        assert asyncio.run(rows_in(direct)) == expected
        again = asyncio.run(replayed(tmp_path / "a", direct))
        assert (again.skipped, again.tries) == (SEGMENTS, 0)
        assert files_of_ray_with(front.password, cluster) == []


def test_the_command_is_killed_and_run_again(tmp_path: Path, cluster: Any) -> None:
    with world(tmp_path) as (expected, front):
        port = int(front.address.rpartition(":")[2])
        secret = {"TRAWLNET_REPOS_CLICKHOUSE_PASSWORD": front.password}
        command = ("repos", "replay", "-w", tmp_path / "w", "--input-dir", tmp_path / "a", "--json")
        command = (*command, "--fleet", cluster.address, "--workers", 1, "--clickhouse-address")
        victims: list[int] = []

        def kill_command() -> bool:
            for pid in victims if at_work(cluster) else ():
                os.kill(pid, signal.SIGKILL)
            return bool(at_work(cluster))

        moments = [Moment(RECORDS, True, kill_command)]
        with closing(Wire(port, moments)) as wire:
            with started(*command, wire.address, folder=tmp_path / "io", **secret) as first:
                victims.append(first.pid)
                assert first.ended().code == -signal.SIGKILL
            (row,) = trawlnet(*command, wire.address, **secret).rows
        assert row["exit_code"] == 0 and row["segments"] + row["skipped"] == SEGMENTS
        direct = ClickHouseServer(front.address, password=front.password)
        assert asyncio.run(rows_in(direct)) == expected


def test_a_dead_process_leaves_standard_output_to_rows(tmp_path: Path, cluster: Any) -> None:
    code = f"""
import asyncio, logging, os, threading
from trawlnet.fleet.ray import ProcessDied, ray_tasks

told = threading.Event()

class Listening(logging.StreamHandler):
    def emit(self, record):
        super().emit(record)
        if "died or was killed" in record.getMessage():
            told.set()

async def main(tasks):
    try:
        await tasks.run(lambda code: os._exit(code), 1)
    except ProcessDied:
        print("died", flush=True)

logging.basicConfig(handlers=[Listening()])
with ray_tasks("{cluster.address}") as tasks:
    asyncio.run(main(tasks))
    assert told.wait({PATIENCE}), "Ray did not say so"
"""
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment()
    )
    assert told.stdout == "died\n", told.stderr
    assert "died or was killed" in told.stderr


def test_a_fleet_needs_a_server_for_its_tables(tmp_path: Path) -> None:
    ran = trawlnet("repos", "replay", "-w", tmp_path, "--input-dir", tmp_path, "--fleet", "local")
    assert ran.code == 2 and "--clickhouse-address" in ran.err


@pytest.mark.parametrize("kind", [ObjectsError, NotReady, Unanswered])
def test_trouble_travels_from_another_process_with_its_hint(kind: type[Exception]) -> None:
    told = pickle.loads(pickle.dumps(kind("it broke", "mend it")))
    assert (told.message, told.hint) == ("it broke", "mend it")


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
