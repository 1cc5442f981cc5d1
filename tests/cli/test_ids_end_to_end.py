"""From an API to tables as users go there: crawl, be killed, go on, store, look."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import at_once, environment, started, trawlnet
from trawlnet.crawlers.ids.pgcr.processor import process
from trawlnet.sim.ids import Traffic, read_manifest
from trawlnet.sim.ids.bodies import SimReport, pgcr
from trawlnet.tables.instances.instance import Instance
from trawlnet.tables.relational.database import from_db

AFTER_EMBARGO = 170.0  # The world's time; what came earlier may still be withheld.
BEHIND_GAP = 300  # Ids.
LONG_ENOUGH = 400.0  # Seconds; two minutes after a gap its edges are asked for once more.
PATIENCE = 10  # The world is five minutes old: a hole is known when it is asked for again.


@dataclass(frozen=True)
class Api:
    url: str
    manifest: dict[str, Any]
    traffic: Traffic

    @property
    def first(self) -> int:
        return self.traffic.head(AFTER_EMBARGO)

    @property
    def gap(self) -> tuple[int, int]:
        gap = self.manifest["gaps"][0]
        return gap["start"], gap["end"]

    @property
    def until(self) -> int:
        return self.gap[1] + BEHIND_GAP

    def raids(self) -> dict[int, dict[str, Any]]:
        """Every raid that there is to find, as the manifest has it."""
        there = (i for i in range(self.first, self.until) if self.traffic.is_raid(i))
        return {i: self._report(i) for i in there if self.traffic.visible_at(i) is not None}

    def _report(self, i: int) -> dict[str, Any]:
        ended = self.traffic.completed_at(i)
        assert ended is not None
        at = self.manifest["began"] + (ended - self.manifest["age"]) / self.manifest["speed"]
        body = json.loads(pgcr(SimReport(self.traffic.seed, i, at, raid=True)))
        report: dict[str, Any] = body["Response"]
        return report


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    command = [sys.executable, "-m", "trawlnet", "sim", "ids", "--seed", "3"]
    command += ["--manifest", str(tmp_path / "manifest.json")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment()
    ) as server:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        yield Api(ready["base_url"], *read_manifest(Path(ready["manifest"])))
        server.terminate()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_raid_is_stored_once_after_a_kill(api: Api, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    crawl = (
        *("ids", "crawl", "-w", folder, "--base-url", api.url, "--preset", "pgcr"),
        *("--target", api.first + 50, "--buffer", 50, "--max-rps", 300),
        *("--allow-private-hosts", "--until", api.until, "--patience", PATIENCE),
    )
    with started(*crawl, folder=tmp_path / "out") as program:
        program.until(lambda: done(folder) > 250, "progress")
        program.tell(signal.SIGKILL)
        program.ended()
    with started(*crawl, folder=tmp_path / "out") as program:
        assert program.process.wait(LONG_ENOUGH) == 4, program.err

    stored = trawlnet("ids", "store", "-w", folder, "--drain", "--json")
    assert stored.code == 0, stored.err
    assert instances(folder, api.until) == {i: facts(process(r)) for i, r in api.raids().items()}
    assert reports(folder, api.until) == sorted(api.raids().items())

    check_listings(api, folder)


def done(folder: Path) -> int:
    now = folder / "state" / "ids" / "now.json"
    return int(json.loads(now.read_bytes())["done"]) if now.exists() else 0


def facts(one: Instance) -> tuple[Any, ...]:
    ended = one.date_completed.timestamp()
    return one.hash, one.completed, one.fresh, one.flawless, one.player_count, ended


def instances(folder: Path, until: int) -> dict[int, tuple[Any, ...]]:
    """The crawl may have looked beyond the end; that is not what was asked for."""
    with sqlite3.connect(folder / "state" / "ids" / "instances.db") as db:
        rows = db.execute(
            "SELECT instance_id, hash, completed, fresh, flawless, player_count, date_completed"
            " FROM instance WHERE instance_id < ?",
            (until,),
        ).fetchall()
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: (*row[1:6], from_db(row[6])) for row in rows}


def reports(folder: Path, until: int) -> list[tuple[int, dict[str, Any]]]:
    sql = f"SELECT instance_id, raw_json FROM pgcr_raw WHERE instance_id < {until} ORDER BY 1"
    rows = trawlnet("repos", "query", "-w", folder, sql, "--json").rows
    return [(int(row["instance_id"]), json.loads(row["raw_json"])) for row in rows]


def check_listings(api: Api, folder: Path) -> None:
    gaps = at_once("ids", "gaps", "-w", folder, "--json").rows
    assert all({"start", "end", "reason"} <= row.keys() for row in gaps)
    skipped = {i for row in gaps for i in range(row["start"], row["end"]) if i < api.until}
    known = range(api.first, api.until)
    assert skipped == {i for i in known if api.traffic.visible_at(i) is None}
    assert {row["reason"] for row in gaps if row["end"] <= api.until} == {"gap", "hole"}

    missed = at_once("ids", "missed", "-w", folder, "--json").rows
    assert all({"id", "reason"} <= row.keys() for row in missed)

    (status,) = at_once("ids", "status", "-w", folder, "--json").rows
    assert status["watermark"] >= api.until
    assert {"lag_p20_s", "workers", "done", "holes", "in_gaps", "missed"} <= status.keys()
