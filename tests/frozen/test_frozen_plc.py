"""A mirror of the directory that earlier code had half made: continued from its cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.frozen.commands import plc_words
from tests.frozen.elsewhere import run_elsewhere
from tests.frozen.ice import copies, notes, thaw
from tests.frozen.story import done
from tests.frozen.worlds import PLC_PORT, plc_directory
from tests.support.atproto.odd_directory import OddDirectory, serving
from tests.support.program import Ran, trawlnet

OPERATIONS = "SELECT did, cid, nullified, seq FROM plc_operations FINAL ORDER BY did, cid"
STATES = "SELECT did, cid FROM plc_did_state FINAL ORDER BY did"


@pytest.mark.parametrize("name", copies("plc-killed"))
def test_a_killed_mirror_goes_on_behind_its_cursor(
    name: str, other_ports: Mapping[int, int], tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    then = notes(folder)
    position = int(then["cursor"]["position"])

    async def run() -> tuple[OddDirectory, Ran]:
        directory = await plc_directory(tmp_path)
        async with serving(directory, PLC_PORT) as url:
            assert url == then["cursor"]["source"]
            words = (*plc_words(url, folder), "--json")
            return directory, await asyncio.to_thread(run_elsewhere, other_ports, *words)

    directory, ran = asyncio.run(run())
    (summary,) = done(ran).rows
    lines = directory.lines
    assert min(map(int, filter(None, directory.requests))) == position, "none before it"
    assert summary["run"]["operations"] == sum(line["seq"] > position for line in lines)
    rows = done(trawlnet("repos", "query", "-w", folder, OPERATIONS, "--json")).rows
    stored = [(row["did"], row["cid"], row["nullified"], row["seq"]) for row in rows]
    assert stored == sorted(
        (line["did"], line["cid"], int(line["nullified"]), line["seq"]) for line in lines
    )
    states = done(trawlnet("repos", "query", "-w", folder, STATES, "--json")).rows
    newest = {line["did"]: line["cid"] for line in lines if not line["nullified"]}
    assert {row["did"]: row["cid"] for row in states} == newest
