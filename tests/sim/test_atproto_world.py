"""The simulated network over real sockets: what it serves is real, and what it says is true."""

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import aiohttp
import libipld
import pytest

from trawlnet.formats import dagcbor
from trawlnet.formats.car import read_frames, read_header
from trawlnet.formats.cid import cid_of, parse_cid
from trawlnet.formats.dagjson import from_json
from trawlnet.formats.diddoc import pds_endpoint, signing_key
from trawlnet.formats.keys import Curve
from trawlnet.formats.malformed import Malformed
from trawlnet.formats.plc import check_log, fold_log, parse_log_line
from trawlnet.formats.repo import verify_repo
from trawlnet.sim.atproto import serve_atproto
from trawlnet.sim.atproto.lies import Lie
from trawlnet.sim.atproto.records import write_records
from trawlnet.sim.habits import Habit, Temper

XRPC = "/xrpc/com.atproto."


class Visitor:
    """A client of one world, with the truth at hand."""

    def __init__(self, world, session):
        self.world = world
        self.session = session
        self.truth = json.loads(world.manifest.read_text())
        self.dids = self.truth["dids"]

    async def get(self, url, **params):
        async with self.session.get(url, params=params, allow_redirects=False) as response:
            return response.status, response.headers, await response.read()

    async def json(self, url, **params):
        status, _, body = await self.get(url, **params)
        return status, json.loads(body)

    async def call(self, pds, method, **params):
        return await self.json(f"{pds}{XRPC}{method}", **params)

    async def car(self, did, pds=None, **params):
        url = f"{pds or self.dids[did]['pds']}{XRPC}sync.getRepo"
        status, headers, body = await self.get(url, did=did, **params)
        assert status == 200, body
        assert headers["Content-Type"] == "application/vnd.ipld.car"
        return body

    async def document(self, did):
        if did.startswith("did:web:"):
            host = did.removeprefix("did:web:").replace("%3A", ":")
            return (await self.json(f"http://{host}/.well-known/did.json"))[1]
        return (await self.json(f"{self.world.plc}/{did}"))[1]

    def some(self, **wanted):
        return [
            did
            for did, row in self.dids.items()
            if all(row.get(name) == value for name, value in wanted.items())
        ]


def visit(test, seed=11, **options):
    """Run an async test against a world of its own."""

    async def run(folder):
        async with open_world(folder, seed, **options) as visitor:
            return await test(visitor)

    return lambda folder: asyncio.run(run(folder))


@asynccontextmanager
async def open_world(folder, seed=11, **options):
    world = await serve_atproto(seed, manifest=Path(folder) / f"manifest-{seed}.json", **options)
    try:
        async with aiohttp.ClientSession() as session:
            yield Visitor(world, session)
    finally:
        await world.close()


def test_every_active_repository_is_whole_and_signed_by_the_key_in_its_document(tmp_path):
    async def test(visitor):
        curves, commit_places, told_twice = Counter(), Counter(), 0
        active = visitor.some(status="active")
        assert len(active) > 150
        for did in active:
            document = await visitor.document(did)
            key = signing_key(document)
            curves[key.curve] += 1
            assert pds_endpoint(document).rstrip("/") == visitor.dids[did]["pds"]
            car = await visitor.car(did)
            repo = verify_repo(car, did, key)
            records = list(repo.records())
            counts = Counter(record.collection for record in records)
            assert counts == visitor.dids[did]["records"]
            for record in records:
                assert dagcbor.encode(dagcbor.decode(record.data)) == record.data
            _, blocks = libipld.decode_car(car)
            assert {cid.raw for cid in repo.blocks} == set(blocks)
            header = read_header(car)
            frames = [frame.cid for frame in read_frames(car, header.end)]
            commit_places[frames.index(header.roots[0])] += 1
            told_twice += len(frames) > len(set(frames))
        assert set(curves) == {Curve.P256, Curve.K256}
        assert commit_places[0] == 0 and len(commit_places) > 5
        assert told_twice > 10

    visit(test, habits=())(tmp_path)


def test_records_of_every_odd_kind_are_there(tmp_path):
    async def test(visitor):
        odd = [
            did for did in visitor.some(status="active") if "a.b.c" in visitor.dids[did]["records"]
        ]
        did = odd[0]
        repo = verify_repo(await visitor.car(did), did, signing_key(await visitor.document(did)))
        records = {f"{r.collection}/{r.rkey}": dagcbor.decode(r.data) for r in repo.records()}
        assert "\0" in records["com.example.odd.text/nul"]["text"]
        assert "" in records["com.example.odd.keys/empty"]
        assert records["com.example.odd.number/wide"]["max"] == 2**63 - 1
        assert any(len(path.partition("/")[2]) == 512 for path in records)
        assert records["com.example.odd.shape/bytes"]["all"] == bytes(range(256))

    visit(test, habits=())(tmp_path)


def test_listings_page_to_an_empty_page_and_agree_with_the_manifest(tmp_path):
    async def test(visitor):
        seen = {}
        for pds in visitor.world.pds:
            cursor, pages = {}, 0
            while True:
                status, page = await visitor.call(pds, "sync.listRepos", limit="7", **cursor)
                assert status == 200
                pages += 1
                if "cursor" not in page:
                    assert page["repos"] == []
                    break
                assert 0 < len(page["repos"]) <= 7
                cursor = {"cursor": page["cursor"]}
                for row in page["repos"]:
                    if visitor.dids[row["did"]]["pds"] == pds:
                        seen[row["did"]] = row
                    else:
                        assert visitor.dids[row["did"]]["former_pds"] == pds
                        assert (row["active"], row["status"]) == (False, "deactivated")
            assert pages > 1
        gone = ("deleted", "tombstoned", "junk")
        expected = {did: row for did, row in visitor.dids.items() if row["status"] not in gone}
        assert set(seen) == set(expected)
        for did, row in seen.items():
            assert row["active"] == (expected[did]["status"] == "active")
            assert row.get("status", "active") == expected[did]["status"]
        did = visitor.some(status="active")[5]
        commit = await visitor.call(visitor.dids[did]["pds"], "sync.getLatestCommit", did=did)
        assert commit == (200, {"cid": seen[did]["head"], "rev": seen[did]["rev"]})
        assert read_header(await visitor.car(did)).roots == [parse_cid(seen[did]["head"])]

    visit(test, habits=())(tmp_path)


REFUSALS = {
    "deactivated": "RepoDeactivated",
    "takendown": "RepoTakendown",
    "suspended": "RepoSuspended",
    "deleted": "RepoNotFound",
}


@pytest.mark.parametrize("status", REFUSALS)
def test_each_status_is_refused_by_its_name(tmp_path, status):
    async def test(visitor):
        refused = visitor.some(status=status)
        assert refused
        for did in refused:
            pds = visitor.dids[did]["pds"]
            name = REFUSALS[status]
            nameless = visitor.truth["hosts"][pds]["nameless_errors"]
            if status == "deleted" and nameless:
                name = "InvalidRequest"
            for method in ("sync.getRepo", "sync.getLatestCommit", "sync.listBlobs"):
                code, body = await visitor.call(pds, method, did=did)
                assert (code, body["error"]) == (400, name)
                if status == "deleted":
                    assert body["message"] == f"Could not find repo for DID: {did}"
            code, body = await visitor.call(pds, "repo.describeRepo", repo=did)
            assert (code, body["error"]) == (400, name)
            code, body = await visitor.call(
                pds, "repo.listRecords", repo=did, collection="app.bsky.feed.post"
            )
            assert (code, body["error"]) == (400, "InvalidRequest")
            assert body["message"] == f"Could not find repo: {did}"
            code, body = await visitor.call(pds, "sync.getRepoStatus", did=did)
            if status == "deleted":
                assert (code, body["error"]) == (400, name)
            else:
                assert (code, body) == (200, {"did": did, "active": False, "status": status})

    visit(test, habits=())(tmp_path)


def test_an_account_is_unknown_on_a_server_that_is_not_its_own(tmp_path):
    async def test(visitor):
        did = next(
            did for did in visitor.some(status="active") if "former_pds" not in visitor.dids[did]
        )
        elsewhere = next(
            pds
            for pds in visitor.world.pds
            if pds != visitor.dids[did]["pds"]
            and not visitor.truth["hosts"][pds]["nameless_errors"]
        )
        code, body = await visitor.call(elsewhere, "sync.getRepo", did=did)
        assert (code, body["error"]) == (400, "RepoNotFound")
        moved = next(
            did for did, row in visitor.dids.items() if "former_pds" in row and row["archivable"]
        )
        code, body = await visitor.call(
            visitor.dids[moved]["former_pds"], "sync.getRepo", did=moved
        )
        assert (code, body["error"]) == (400, "RepoDeactivated")

    visit(test, habits=())(tmp_path)


def test_bad_requests_are_refused_as_the_reference_does(tmp_path):
    async def test(visitor):
        pds = visitor.world.pds[0]
        did = visitor.some(status="active", pds=pds)[0]
        bad = [
            ("sync.getRepo", {}),
            ("sync.getRepo", {"did": "nobody"}),
            ("sync.getRepo", {"did": did, "since": "yesterday"}),
            ("sync.listRepos", {"limit": "1001"}),
            ("sync.listRepos", {"limit": "0"}),
            ("sync.listRepos", {"limit": "9" * 5000}),
            ("sync.listRepos", {"cursor": "nonsense"}),
            ("sync.listRepos", {"cursor": "9" * 5000 + "::x"}),
            ("repo.listRecords", {"repo": did, "collection": "app.bsky.feed.post", "limit": "101"}),
            ("repo.listRecords", {"repo": did, "collection": "not an nsid"}),
            ("repo.listRecords", {"repo": did}),
        ]
        for method, params in bad:
            code, body = await visitor.call(pds, method, **params)
            assert (code, body["error"]) == (400, "InvalidRequest"), method
        code, body = await visitor.call(pds, "sync.listHosts")
        assert (code, body["error"]) == (401, "AuthMissing")
        assert (await visitor.get(pds + "/elsewhere"))[0] == 404
        for bad_page in (
            {"count": "0"},
            {"count": "1001"},
            {"count": "9" * 5000},
            {"after": "soon"},
        ):
            assert (await visitor.get(visitor.world.plc + "/export", **bad_page))[0] == 400

    visit(test, habits=())(tmp_path)


def test_rate_limit_headers_are_on_limited_answers_only(tmp_path):
    async def test(visitor):
        pds = visitor.world.pds[0]
        did = visitor.some(status="active", pds=pds)[0]
        _, headers, _ = await visitor.get(f"{pds}{XRPC}sync.getRepo", did=did)
        assert headers["RateLimit-Policy"] == "6000;w=300"
        _, headers, _ = await visitor.get(f"{pds}{XRPC}sync.getRepoStatus", did=did)
        assert headers["RateLimit-Limit"] == "3000"
        assert int(headers["RateLimit-Reset"]) % 300 == 0
        _, headers, _ = await visitor.get(f"{pds}{XRPC}sync.listRepos", limit="0")
        assert "RateLimit-Limit" not in headers
        _, headers, body = await visitor.get(f"{pds}/xrpc/_health")
        assert "RateLimit-Limit" not in headers and b"version" in body

    visit(test, habits=())(tmp_path)


class StillClock:
    """A clock on which no window ever ends."""

    def now(self):
        return 1_700_000_100.0

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)


def test_limits_are_kept_when_they_are_switched_on(tmp_path):
    async def test(visitor):
        busy, idle = (f"{pds}{XRPC}server.describeServer" for pds in visitor.world.pds)
        answers = [await visitor.get(busy) for _ in range(3005)]
        assert [code for code, _, _ in answers] == [200] * 3000 + [429] * 5
        _, headers, body = answers[-1]
        assert json.loads(body)["error"] == "RateLimitExceeded"
        assert headers["RateLimit-Remaining"] == "0"
        assert int(headers["RateLimit-Reset"]) == 1_700_000_100 + int(headers["Retry-After"])
        assert (await visitor.get(idle))[0] == 200
        did = visitor.some(status="active", pds=visitor.world.pds[0])[0]
        await visitor.car(did)

    visit(test, habits=(), accounts=20, hosts=2, rate_limits=True, clock=StillClock())(tmp_path)


def test_since_gives_only_what_is_newer(tmp_path):
    async def test(visitor):
        did = max(
            visitor.some(archivable=True),
            key=lambda did: sum(visitor.dids[did]["records"].values()),
        )
        full = await visitor.car(did)
        header = read_header(full)
        rev = dagcbor.decode(block_of(full, header.roots[0]))["rev"]
        nothing = await visitor.car(did, since=rev)
        assert len(nothing) == 59 and read_header(nothing).roots == header.roots
        everything = await visitor.car(did, since="2222222222222")
        assert everything == full
        account = visitor.world.population.find(did)
        writings = write_records(
            visitor.world.plan.seed, account, did, visitor.world.population.dids
        )
        part = await visitor.car(did, since=writings.former_rev)
        cids = {frame.cid for frame in read_frames(part, read_header(part).end)}
        assert header.roots[0] in cids
        new = {cid_of(dagcbor.encode(writings.records[path])) for path in writings.recent}
        assert new <= cids and 59 < len(part) < len(full) / 2

    visit(test, habits=())(tmp_path)


def block_of(car, wanted):
    for frame in read_frames(car, read_header(car).end):
        if frame.cid == wanted:
            return car[frame.start : frame.end]
    raise AssertionError("no such block")


def test_records_are_listed_newest_first_and_equal_those_in_the_repository(tmp_path):
    async def test(visitor):
        did = max(visitor.some(archivable=True), key=lambda did: len(visitor.dids[did]["records"]))
        pds = visitor.dids[did]["pds"]
        repo = verify_repo(await visitor.car(did), did, signing_key(await visitor.document(did)))
        expected = {f"at://{did}/{r.collection}/{r.rkey}": r for r in repo.records()}
        listed = {}
        code, described = await visitor.call(pds, "repo.describeRepo", repo=did)
        assert code == 200 and described["didDoc"] == await visitor.document(did)
        for collection in described["collections"]:
            cursor, rkeys = {}, []
            while True:
                code, page = await visitor.call(
                    pds, "repo.listRecords", repo=did, collection=collection, limit="5", **cursor
                )
                assert code == 200
                if not page["records"]:
                    assert "cursor" not in page
                    break
                cursor = {"cursor": page["cursor"]}
                for row in page["records"]:
                    listed[row["uri"]] = row
                    rkeys.append(row["uri"].rpartition("/")[2])
            assert rkeys == sorted(rkeys, reverse=True)
        assert set(listed) == set(expected)
        for uri, row in listed.items():
            assert row["cid"] == str(expected[uri].cid)
            assert dagcbor.encode(from_json(row["value"])) == expected[uri].data
        uri, row = next(iter(listed.items()))
        _, _, _, collection, rkey = uri.split("/")
        one = await visitor.call(pds, "repo.getRecord", repo=did, collection=collection, rkey=rkey)
        assert one == (200, row)
        code, body = await visitor.call(
            pds, "repo.getRecord", repo=did, collection=collection, rkey="nothing"
        )
        assert (code, body["error"]) == (400, "RecordNotFound")

    visit(test, habits=())(tmp_path)


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


CAUGHT_BY = {
    Lie.OTHER_REPO: "a repository of",
    Lie.WRONG_SIGNATURE: "signature",
    Lie.HIGH_S: "signature",
    Lie.WRONG_HASH: "is not what its CID names",
    Lie.MISSING_BLOCK: "is missing",
}


def test_every_lie_is_told_and_caught_by_the_check_made_for_it(tmp_path):
    async def test(visitor):
        caught = Counter()
        for did, row in visitor.dids.items():
            if "lie" not in row:
                continue
            car = await visitor.car(did)
            with pytest.raises(Malformed, match=CAUGHT_BY[row["lie"]]):
                list(verify_repo(car, did, signing_key(await visitor.document(did))).records())
            caught[row["lie"]] += 1
            assert not row["archivable"]
        assert set(caught) == set(Lie)
        liar = next(url for url, row in visitor.truth["hosts"].items() if row["habit"] == "lying")
        _, page = await visitor.call(liar, "sync.listRepos")
        assert any(
            liar
            not in (visitor.dids[row["did"]]["pds"], visitor.dids[row["did"]].get("former_pds"))
            for row in page["repos"]
        )

    visit(test, habits={Habit.LYING: 2})(tmp_path)


def test_an_endless_listing_never_ends(tmp_path):
    async def test(visitor):
        host = next(url for url, row in visitor.truth["hosts"].items() if row["habit"] != "good")
        cursor, seen = {}, Counter()
        for _ in range(40):
            _, page = await visitor.call(host, "sync.listRepos", limit="10", **cursor)
            cursor = {"cursor": page["cursor"]}
            seen.update(row["did"] for row in page["repos"])
        assert max(seen.values()) > 1

    visit(test, habits={Habit.ENDLESS_CURSOR: 1})(tmp_path)


def test_habits_show_on_their_host_only(tmp_path):
    habits = {Habit.THROTTLE_RETRY_AFTER: 1, Habit.SERVER_ERROR: 1, Habit.REDIRECT_PRIVATE: 1}

    async def test(visitor):
        codes = {}
        for url, row in visitor.truth["hosts"].items():
            answers = [await visitor.get(url + "/xrpc/_health") for _ in range(3)]
            codes.setdefault(row["habit"], []).append([code for code, _, _ in answers])
        assert codes["server_error"] == [[500, 503, 502]]
        assert codes["redirect_private"] == [[302, 302, 302]]
        assert codes["throttle_retry_after"] == [[200, 200, 429]]
        assert all(each == [200, 200, 200] for each in codes["good"])

    visit(test, habits=habits, temper=Temper(throttle_every=3))(tmp_path)


def test_the_default_world_has_a_share_of_habits(tmp_path):
    async def test(visitor):
        habits = Counter(row["habit"] for row in visitor.truth["hosts"].values())
        assert habits == {"good": 6, "flapping": 1, "dead": 1}
        assert set(visitor.world.ready_line()) == {"plc", "relay", "pds", "manifest"}
        statuses = {row["status"] for row in visitor.dids.values()}
        assert statuses >= {
            "active",
            "deactivated",
            "takendown",
            "suspended",
            "deleted",
            "tombstoned",
        }

    visit(test)(tmp_path)


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


LARGE = """
import asyncio, json, resource, sys
from pathlib import Path
from trawlnet.sim.atproto import serve_atproto

async def main():
    path = Path(sys.argv[1])
    world = await serve_atproto(31, manifest=path, accounts=100_000, hosts=300, habits=())
    print(json.dumps({"mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                      **world.ready_line()}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    await world.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_hundred_thousand_accounts_are_served_in_bounded_memory(tmp_path):
    path = tmp_path / "manifest.json"
    process = subprocess.Popen(
        [sys.executable, "-c", LARGE, str(path)], stdin=-1, stdout=-1, text=True
    )
    try:
        ready = json.loads(process.stdout.readline())
        assert len(ready["pds"]) == 300
        assert ready["mb"] < 200
        dids = json.loads(path.read_text())["dids"]
        assert len(dids) >= 100_000

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
