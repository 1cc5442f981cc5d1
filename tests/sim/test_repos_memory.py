"""Many large repositories at once, with hardly any memory for them: all arrive, none waits."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.support.net.hostile_server import Exchange, hostile
from tests.support.repos.run import FAST, Crawled, archived, run_config
from trawlnet.archive.lookup import look_up, records
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import Curve
from trawlnet.crawlers.repos.build import ARCHIVE
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.engine.control import Ending
from trawlnet.engine.outcome import Reason
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.repository.repo import build_repo_of_blocks

PATIENCE = 150.0  # Seconds; only a test that fails waits that long.
CROWD = 16
KEY = PrivateKey(Curve.P256, 7)
TEXTS = {
    f"app.bsky.feed.post/3lscuqc52o{number:03d}": encode({"text": f"{number} " * 50_000})
    for number in range(12)
}
CARS = {
    did: build_repo_of_blocks(did, TEXTS, KEY, "3lscuqc52or2x").car()
    for did in (f"did:plc:{letter * 24}" for letter in "abcdefghijklmnop"[:CROWD])
}


class HalfAndHalf:
    """Sends the second half of any body when it has sent the first half of all: so that every
    worker has one that it can neither finish nor give up."""

    def __init__(self) -> None:
        self.halves = 0
        self.all_wait = asyncio.Event()
        self.url = ""

    async def __call__(self, exchange: Exchange) -> None:
        if "getRepo" not in exchange.path:
            await self.document(exchange, exchange.path.removeprefix("/"))
            return
        car = CARS[exchange.path.rpartition("=")[2]]
        half = len(car) // 2
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(car))
        await exchange.send(car[:half])
        self.halves += 1
        if self.halves == CROWD:
            self.all_wait.set()
        await self.all_wait.wait()
        await exchange.send(car[half:])
        exchange.keep = True

    async def document(self, exchange: Exchange, did: str) -> None:
        key = {"id": f"{did}#atproto", "type": "Multikey", "controller": did}
        key["publicKeyMultibase"] = KEY.public.multibase
        service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer"}
        service["serviceEndpoint"] = self.url
        document = {"id": did, "verificationMethod": [key], "service": [service]}
        await exchange.answer(body=json.dumps(document).encode())


async def crawled(workspace: Path, memory_limit: str) -> Crawled:
    script = HalfAndHalf()
    async with hostile(script) as server:
        script.url = server.url("").rstrip("/")
        dids = workspace / "dids.txt"
        dids.write_text("\n".join(CARS))
        more = {"dids": str(dids), "plc_url": script.url, "memory_limit": memory_limit}
        crowd = {"workers": CROWD, "pds_concurrency": CROWD, "request_timeout": 60}
        config = ReposConfig(**(FAST | more | crowd))
        return await asyncio.wait_for(run_config(config, workspace), PATIENCE)


def figures(text: str, name: str) -> dict[str, float]:
    families = {one.name: one for one in text_string_to_metric_families(text)}
    return {"".join(one.labels.values()): one.value for one in families[name].samples}


def content(workspace: Path, did: str) -> list[Any]:
    """A repository's records as they are in the archive."""
    found = look_up(workspace / ARCHIVE, did)
    assert found.segment is not None and found.block is not None
    return list(records(found.segment, found.block, lambda name: True))


def test_a_crowd_of_large_bodies_ends_with_hardly_any_memory(tmp_path: Path) -> None:
    roomy, tight = tmp_path / "roomy", tmp_path / "tight"
    for folder in (roomy, tight):
        folder.mkdir()
    free = asyncio.run(crawled(roomy, "1GB"))
    cramped = asyncio.run(crawled(tight, "1MB"))
    for run in (free, cramped):
        assert run.ending is Ending.DONE and not run.failures
        assert run.tally[Reason.OK] == 2 * CROWD  # A document and a repository each.
        assert figures(run.text, "crawler_memory_bytes") == {"body": 0, "work": 0}
    assert archived(roomy) == archived(tight)
    assert len(archived(tight)) == CROWD
    did = next(iter(CARS))
    assert len(content(tight, did)) == len(TEXTS)
    assert content(roomy, did) == content(tight, did)
    assert figures(free.text, "crawler_repos_spilled") == {"": 0}
    assert figures(cramped.text, "crawler_repos_spilled") == {"": CROWD}
    assert figures(cramped.text, "crawler_spilled_bytes") == {"": sum(map(len, CARS.values()))}
    assert cramped.metrics.yields["spilled"] == CROWD
    assert not (tight / "tmp").exists()
