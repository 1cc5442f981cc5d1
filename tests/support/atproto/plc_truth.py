"""What a mirror of the PLC directory must hold, worked out from the directory itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import aiohttp

from trawlnet.sim.atproto import AtprotoWorld
from trawlnet.tables.clickhouse.ports import Query, Tables

OPERATIONS = Query(
    "operations", "SELECT did, cid, nullified, seq FROM plc_operations FINAL ORDER BY did, cid"
)
STATES = Query(
    "states",
    "SELECT did, cid, pds, pds_refused, signing_key, handle, tombstoned FROM plc_did_state FINAL",
)


async def lines_of(world: AtprotoWorld) -> list[dict[str, Any]]:
    """The whole log of a simulated directory, with what both forms tell."""
    async with aiohttp.ClientSession() as session:
        by_cid: dict[str, dict[str, Any]] = {}
        after = 0
        while True:
            async with session.get(f"{world.plc}/export?count=1000&after={after}") as response:
                page = [json.loads(line) for line in (await response.text()).splitlines()]
            if not page:
                break
            by_cid |= {line["cid"]: line for line in page}
            after = page[-1]["seq"]
        for did in {line["did"] for line in by_cid.values()}:
            async with session.get(f"{world.plc}/{did}/log/audit") as response:
                for line in await response.json():
                    by_cid[line["cid"]]["nullified"] = line["nullified"]
    return list(by_cid.values())


async def check_whole(
    tables: Tables,
    log: tuple[list[dict[str, Any]], Mapping[str, Any]],
    *,
    numbers: bool = True,
) -> None:
    lines, dids = log
    expected = sorted(
        [line["did"], line["cid"], int(line["nullified"]), line["seq"] if numbers else 0]
        for line in lines
    )
    assert await tables.rows(OPERATIONS) == expected
    newest = {line["did"]: line for line in lines if not line["nullified"]}
    states = {row[0]: row[1:] for row in await tables.rows(STATES)}
    assert set(states) == set(newest) == {did for did, row in dids.items() if row["in_plc"]}
    for did, (cid, pds, refused, key, handle, tombstoned) in states.items():
        assert cid == newest[did]["cid"]
        truth = dids[did]
        assert bool(tombstoned) == (truth["status"] == "tombstoned")
        if tombstoned:
            assert (pds, refused, key, handle) == ("", "", "", "")
        elif truth["status"] == "junk":
            assert pds == "" and refused
        else:
            assert (pds, refused) == (truth["pds"], "")
            assert key.startswith("did:key:z") and "." in handle
