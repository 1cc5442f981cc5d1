"""The simulated directory and relay: two forms of one story, and who is in neither."""

import json
from collections import Counter
from datetime import datetime, timedelta

import aiohttp
import pytest

from tests.support.atproto.visitor import visit
from tests.support.repository.reading import verify_repo
from trawlnet.atproto.identity.did_document import signing_key
from trawlnet.atproto.identity.plc import parse_log_line
from trawlnet.atproto.identity.plc_log import check_log, fold_log
from trawlnet.sim.habits import Habit


async def export(visitor, after, count, overlap_ms=0):
    """Every line of the directory, by sequence number or by time."""
    rows = {}
    while True:
        code, headers, body = await visitor.get(
            visitor.world.plc + "/export", after=after, count=str(count)
        )
        assert code == 200 and headers["Content-Type"] == "application/jsonlines"
        assert not body.endswith(b"\n")
        page = [json.loads(line) for line in body.split(b"\n") if line]
        fresh = [row for row in page if row["cid"] not in rows]
        for row in page:
            rows[row["cid"]] = row
        if not fresh:
            return rows
        last = page[-1]
        after = str(last["seq"]) if "seq" in last else _earlier(last["createdAt"], overlap_ms)


def _earlier(text, ms):
    return (datetime.fromisoformat(text) - timedelta(milliseconds=ms)).isoformat()


def test_both_forms_of_the_export_tell_the_same_story(tmp_path):
    async def test(visitor):
        by_seq = await export(visitor, "0", 17)
        by_time = await export(visitor, "1970-01-01T00:00:00Z", 17, overlap_ms=1)
        assert set(by_seq) == set(by_time)
        assert [row["seq"] for row in by_seq.values()] == list(range(1, len(by_seq) + 1))
        assert all("nullified" not in row for row in by_seq.values())
        careless = await export(visitor, "1970-01-01T00:00:00Z", 17)
        assert len(careless) < len(by_time)
        kinds = Counter(row["operation"]["type"] for row in by_seq.values())
        assert set(kinds) == {"plc_operation", "plc_tombstone", "create"}
        logs = {}
        for row in by_seq.values():
            assert row["type"] == "sequenced_op"
            logs.setdefault(row["did"], []).append(parse_log_line(row))
        assert set(logs) == set(visitor.some(in_plc=True))
        nullified = set()
        for did, log in logs.items():
            folded = check_log(did, log)
            assert folded == fold_log(did, log)
            nullified |= folded.nullified
            truth = visitor.dids[did]
            assert folded.state.tombstoned == (truth["status"] == "tombstoned")
            if not folded.state.tombstoned and truth["status"] != "junk":
                assert folded.state.pds.rstrip("/") == truth["pds"]
        assert nullified == {cid for cid, row in by_time.items() if row["nullified"]}
        assert nullified

    visit(test, habits=())(tmp_path)


def test_the_directory_answers_for_one_did(tmp_path):
    async def test(visitor):
        plc = visitor.world.plc
        gone = visitor.some(status="tombstoned")[0]
        for view in ("", "/data"):
            code, body = await visitor.json(f"{plc}/{gone}{view}")
            assert (code, body["message"]) == (404, f"DID not available: {gone}")
        code, log = await visitor.json(f"{plc}/{gone}/log/audit")
        assert code == 200 and log[-1]["operation"]["type"] == "plc_tombstone"
        code, body = await visitor.json(f"{plc}/did:plc:nobody")
        assert (code, body["message"]) == (404, "DID not registered: did:plc:nobody")
        did = visitor.some(status="active")[0]
        code, data = await visitor.json(f"{plc}/{did}/data")
        assert data["services"]["atproto_pds"]["endpoint"].rstrip("/") == visitor.dids[did]["pds"]
        for did in visitor.some(in_plc=True):
            log = [parse_log_line(row) for row in (await visitor.json(f"{plc}/{did}/log/audit"))[1]]
            assert check_log(did, log).nullified == {row.cid for row in log if row.nullified}

    visit(test, habits=())(tmp_path)


def test_some_accounts_are_known_to_no_directory(tmp_path):
    async def test(visitor):
        unlisted = visitor.some(in_plc=False)
        assert unlisted and all(did.startswith("did:web:") for did in unlisted)
        for did in unlisted:
            document = await visitor.document(did)
            assert document["id"] == did
            verify_repo(await visitor.car(did), did, signing_key(document))
            assert (await visitor.json(f"{visitor.world.plc}/{did}"))[0] == 404

    visit(test, habits=())(tmp_path)


def test_the_relay_pages_through_hosts_and_repositories(tmp_path):
    async def test(visitor):
        hosts, cursor = [], {}
        while cursor is not None:
            code, page = await visitor.call(
                visitor.world.relay, "sync.listHosts", limit="3", **cursor
            )
            assert code == 200
            hosts += page["hosts"]
            cursor = {"cursor": page["cursor"]} if "cursor" in page else None
        known = {url for url, row in visitor.truth["hosts"].items() if row["on_relay"]}
        assert {f"http://{row['hostname']}" for row in hosts} == known
        assert known < set(visitor.world.pds)
        offline = {f"http://{row['hostname']}" for row in hosts if row["status"] == "offline"}
        dead = {url for url, row in visitor.truth["hosts"].items() if row["habit"] == "dead"}
        assert offline == dead & known
        repos, cursor = {}, {}
        while cursor is not None:
            _, page = await visitor.call(
                visitor.world.relay, "sync.listRepos", limit="50", **cursor
            )
            repos |= {row["did"]: row for row in page["repos"]}
            cursor = {"cursor": page["cursor"]} if "cursor" in page else None
        assert {visitor.dids[did]["pds"] for did in repos} == known - dead

    visit(test, habits={Habit.DEAD: 2})(tmp_path)


def test_dead_hosts_refuse_connections_and_the_directory_still_names_them(tmp_path):
    async def test(visitor):
        dead = [url for url, row in visitor.truth["hosts"].items() if row["habit"] == "dead"]
        assert len(dead) == 2
        stranded = [did for did, row in visitor.dids.items() if row["pds"] in dead]
        assert stranded and not any(visitor.dids[did]["archivable"] for did in stranded)
        for url in dead:
            with pytest.raises(aiohttp.ClientConnectorError):
                await visitor.get(url + "/xrpc/_health")

    visit(test, habits={Habit.DEAD: 2})(tmp_path)
