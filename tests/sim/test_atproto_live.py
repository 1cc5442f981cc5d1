"""A simulated network that changes: what the firehose tells adds up to what the servers serve."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager

import aiohttp
import libipld
import pytest

from tests.support.repository.reading import verify_repo
from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.sim.atproto.accounts import AccountStatus
from trawlnet.sim.atproto.live.event_log import LoggedEvent
from trawlnet.sim.atproto.live.relay_stream import HONEST, Mischief, Spoiler
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto
from trawlnet.sim.repository.car import header_end, read_frames

ACTS = 400
WAY = "/xrpc/com.atproto.sync.subscribeRepos"


@asynccontextmanager
async def living_world(tmp_path, *, acts: int = ACTS, spoiler: Spoiler = HONEST):
    world = await serve_atproto(
        11, accounts=40, hosts=3, habits=(), manifest=tmp_path / "manifest.json", spoiler=spoiler
    )
    try:
        for _ in range(acts):
            world.life.act()
        yield world
    finally:
        await world.close()


def told(world: AtprotoWorld) -> list[LoggedEvent]:
    return [event for log in world.life.logs for event in log.after(0, 10**6)]


async def heard(url: str, cursor: str, most: int) -> list[tuple[dict, dict]]:
    frames = []
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{url}?{cursor}") as socket:
        while len(frames) < most:
            message = await asyncio.wait_for(socket.receive(), 60.0)
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            frames.append(tuple(split_frame(message.data)))
    return frames


def split_frame(frame: bytes) -> Sequence[dict]:
    """Two objects in DAG-CBOR, one behind the other."""
    for at in range(1, len(frame)):
        try:
            return libipld.decode_dag_cbor(frame[:at]), libipld.decode_dag_cbor(frame[at:])
        except ValueError:
            continue
    raise AssertionError("no frame")


def test_a_network_goes_on_however_long_it_is_served(tmp_path):
    async def main():
        async with living_world(tmp_path, acts=0) as world:
            able = list(world.life._able)
            for index in able[len(able) // 2 :]:
                world.life.leave(world.population.account(index))
            for _ in range(300):
                world.life.act()
            assert world.life._able == able[: len(able) // 2]

    asyncio.run(main())


def test_commits_follow_one_another_and_end_at_the_truth(tmp_path):
    async def main():
        async with living_world(tmp_path) as world:
            records, roots = {}, {}
            for event in sorted(told(world), key=lambda event: event.payload["time"]):
                if event.kind == "#commit":
                    did, payload = event.did, event.payload
                    if did in roots:
                        assert payload["since"] == roots[did], "a link of the chain is missing"
                    roots[did] = payload["rev"]
                    state = records.setdefault(did, {})
                    for op in payload["ops"]:
                        state[op["path"]] = op["cid"]
                elif event.kind == "#sync":
                    roots[event.did] = event.payload["rev"]
            assert len(roots) > 10
            for did, state in records.items():
                truth = world.life.truth_of(world.population.index[did])
                now = {path: str(cid) for path, cid in state.items() if cid is not None}
                gone = {path for path, cid in state.items() if cid is None}
                assert now.items() <= truth.records.items() and not gone & truth.records.keys()

    asyncio.run(main())


def test_a_server_exports_what_it_told_last(tmp_path):
    async def main():
        async with living_world(tmp_path) as world, aiohttp.ClientSession() as session:
            checked = 0
            for did, truth in world.life.truth():
                account = world.population.find(did)
                url = f"{truth.pds}/xrpc/com.atproto.sync.getRepo?did={did}"
                async with session.get(url) as answer:
                    car = await answer.read()
                if account.status is not AccountStatus.ACTIVE:
                    assert answer.status == 400
                    continue
                repo = verify_repo(car, did, account.keys[0].public)
                found = {f"{one.collection}/{one.rkey}": str(one.cid) for one in repo.records()}
                assert found == truth.records and repo.commit.rev == truth.rev
                checked += 1
            assert checked > 10

    asyncio.run(main())


def test_cursors_of_a_server_and_of_a_relay(tmp_path):
    async def main():
        async with living_world(tmp_path, acts=30) as world:
            log = world.relay_stream.log
            first = log.oldest
            relay = world.relay + WAY
            assert (await heard(relay, f"cursor={first}", 1))[0][1]["seq"] == first
            pds = next(host for host in world.plan.hosts if world.life.logs[host.index].after(0))
            oldest = world.life.logs[pds.index].oldest
            exclusive = await heard(pds.url + WAY, f"cursor={oldest}", 1)
            assert exclusive[0][1]["seq"] > oldest
            refused = await heard(relay, f"cursor={log.last + 99}", 9)
            assert refused == [({"op": -1}, refused[0][1])]
            assert refused[0][1]["error"] == "FutureCursor"

    asyncio.run(main())


def test_whoever_listens_hears_what_happens_next(tmp_path):
    async def main():
        async with living_world(tmp_path, acts=0) as world:
            listening = asyncio.ensure_future(heard(world.relay + WAY, "", 5))
            while not listening.done():
                world.life.act()
                await asyncio.sleep(0.01)
            seqs = [payload["seq"] for _, payload in listening.result()]
            assert seqs == sorted(set(seqs)) and len(seqs) == 5

    asyncio.run(main())


def test_a_deleted_account_takes_its_messages_along(tmp_path):
    async def main():
        async with living_world(tmp_path) as world:
            gone = {event.did for event in told(world) if event.payload.get("status") == "deleted"}
            assert gone
            for did in gone:
                assert [event.kind for event in told(world) if event.did == did][-1:] == [
                    "#account"
                ]
                assert "#commit" not in {
                    event.kind
                    for event in world.relay_stream.log.after(0, 10**6)
                    if event.did == did
                }

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("kind", Mischief)
def test_a_relay_spoils_what_it_tells(tmp_path, kind):
    async def main():
        async with living_world(tmp_path, spoiler=Spoiler(0.3, (kind,))) as world:
            honest = [event for event in told(world) if event.kind == "#commit"]
            spoilt = [e for e in world.relay_stream.log.after(0, 10**6) if e.kind == "#commit"]
            assert [e.payload for e in spoilt] != [e.payload for e in honest] or kind in (
                Mischief.GAP,
                Mischief.STRANGER,
            )
            for event in spoilt:
                commit = event.payload["commit"]
                assert isinstance(commit, Cid) and commit == cid_of(_block(event, commit))

    asyncio.run(main())


def _block(event: LoggedEvent, cid: Cid) -> bytes:
    car = event.payload["blocks"]
    frames = {frame.cid: frame for frame in read_frames(car, header_end(car))}
    return car[frames[cid].start : frames[cid].end]
