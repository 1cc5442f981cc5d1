"""Simulated worlds as wholes: repeatable, side by side, small and large."""

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter

import aiohttp
import pytest

from tests.support.atproto.visitor import XRPC, open_world, visit
from tests.support.long import times
from tests.support.repository.reading import verify_repo
from trawlnet.atproto.identity.did_document import signing_key
from trawlnet.sim.atproto import serve_atproto
from trawlnet.sim.habits import Habit


async def fingerprint(visitor):
    parts = {}
    for did in visitor.some(archivable=True)[:25]:
        parts[did] = await visitor.car(did)
    parts["export"] = (await visitor.get(visitor.world.plc + "/export", after="0"))[2]
    return parts, visitor.truth


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    run = visit(fingerprint, seed=23, accounts=60, hosts=4, habits=())
    first, again = run(tmp_path), run(tmp_path)
    assert first == again
    other = visit(fingerprint, seed=24, accounts=60, hosts=4, habits=())(tmp_path)
    assert not set(first[0]) & set(other[0]) - {"export"}
    assert first[0]["export"] != other[0]["export"]
    one, two = (
        [(row["status"], row["records"]) for row in truth["dids"].values()]
        for truth in (first[1], other[1])
    )
    assert one != two


def test_two_worlds_of_one_seed_run_side_by_side(tmp_path):
    async def look_around(folder, everybody):
        async with open_world(tmp_path / folder, 25, accounts=30, hosts=3, habits=()) as visitor:
            did = visitor.some(archivable=True)[0]
            key = signing_key(await visitor.document(did))
            verify_repo(await visitor.car(did), did, key)
            await everybody.wait()
            return visitor.world.plc

    async def run():
        everybody = asyncio.Barrier(3)
        return await asyncio.gather(*(look_around(str(n), everybody) for n in range(3)))

    assert len(set(asyncio.run(run()))) == 3


def test_a_port_in_use_is_an_error_when_it_was_asked_for(tmp_path):
    async def test(visitor):
        with pytest.raises(OSError, match="in use"):
            await serve_atproto(26, port=visitor.world.served.port, accounts=30, hosts=3)
        return visitor.world.served.port

    port = visit(test, seed=26, accounts=30, hosts=3)(tmp_path)
    assert visit(test, seed=26, accounts=30, hosts=3, port=port)(tmp_path) == port


def test_the_smallest_world_works(tmp_path):
    async def test(visitor):
        for did in visitor.some(archivable=True):
            verify_repo(await visitor.car(did), did, signing_key(await visitor.document(did)))
        return len(visitor.dids)

    assert visit(test, accounts=1, hosts=1)(tmp_path) == 2


def test_the_log_of_requests_names_host_and_did(tmp_path):
    async def test(visitor):
        did = visitor.some(status="active")[0]
        await visitor.car(did)
        return did, visitor.dids[did]["pds"]

    log = tmp_path / "requests.jsonl"
    did, pds = visit(test, habits=(), log=log, accounts=20, hosts=2)(tmp_path)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(rows) == 1
    assert pds == f"http://{rows[0]['host']}:{rows[0]['port']}"
    assert did in rows[0]["path"].replace("%3A", ":")


@pytest.mark.parametrize(
    "bad",
    [{"scale": 0}, {"accounts": 0}, {"hosts": 0}, {"habits": {Habit.SLOW: 8}}],
)
def test_an_impossible_world_is_refused(tmp_path, bad):
    with pytest.raises(ValueError, match=r"at least|above 0|need more than"):
        visit(lambda visitor: None, **bad)(tmp_path)


ACCOUNTS = times(20_000, 100_000)
LARGE = """
import asyncio, json, re, sys
from pathlib import Path
from trawlnet.sim.atproto import serve_atproto

def peak_mb():
    # Not ru_maxrss: that remembers what the process was before it became this one.
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

async def main():
    path = Path(sys.argv[1])
    world = await serve_atproto(31, manifest=path, accounts=int(sys.argv[2]), hosts=300, habits=())
    print(json.dumps({"mb": peak_mb(), **world.ready_line()}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(peak_mb())
    await world.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_many_accounts_are_served_in_bounded_memory(tmp_path):
    path = tmp_path / "manifest.json"
    process = subprocess.Popen(
        [sys.executable, "-c", LARGE, str(path), str(ACCOUNTS)], stdin=-1, stdout=-1, text=True
    )
    try:
        ready = json.loads(process.stdout.readline())
        assert len(ready["pds"]) == 300
        assert ready["mb"] < 200
        dids = json.loads(path.read_text())["dids"]
        assert len(dids) >= ACCOUNTS

        async def sample():
            async with aiohttp.ClientSession() as session:
                active = [did for did, row in dids.items() if row["archivable"] and row["in_plc"]]
                for did in random.Random(1).sample(active, 100):
                    url = f"{dids[did]['pds']}{XRPC}sync.getRepo"
                    async with session.get(url, params={"did": did}) as response:
                        car = await response.read()
                    async with session.get(f"{ready['plc']}/{did}") as response:
                        document = await response.json(content_type=None)
                    repo = verify_repo(car, did, signing_key(document))
                    counts = Counter(record.collection for record in repo.records())
                    assert counts == dids[did]["records"]

        asyncio.run(sample())
        after, _ = process.communicate("")
        assert float(after) < 250
    finally:
        process.kill()
        process.wait()
