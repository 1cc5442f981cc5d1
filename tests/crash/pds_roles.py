"""A scanner for the nursery, which a test kills: it scans until every PDS is complete."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from tests.support.pds.scan import LEASE, bench_for, claim
from trawlnet.crawlers.pds.scanning.scan import scan_pds


async def scan(folder: Path) -> None:
    told = json.loads((folder / "world.json").read_text())
    async with bench_for(SimpleNamespace(plc=told["plc"]), folder / "registry.db") as made:
        for url in told["pdses"]:
            await claim(made.db, url)
            is_complete = False
            while not is_complete:
                deadline = made.parts.clock.now() + 60.0
                result = await scan_pds(made.parts, url, lease=LEASE, deadline=deadline)
                is_complete = result.complete


ROLES = {"scan": scan}
