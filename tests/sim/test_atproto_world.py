"""The simulated network over real sockets: its repositories are real, its answers true."""

from collections import Counter

import libipld
import pytest

from tests.support.atproto.visitor import visit
from tests.support.repository import cbor_decoder
from tests.support.repository.reading import from_json, read_header, verify_repo
from trawlnet.atproto import dagcbor
from trawlnet.atproto.cid import cid_of, parse_cid
from trawlnet.atproto.identity.did_document import pds_endpoint, signing_key
from trawlnet.atproto.identity.keys import Curve
from trawlnet.sim.atproto.records import write_records
from trawlnet.sim.repository.car import read_frames


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
                assert dagcbor.encode(cbor_decoder.decode(record.data)) == record.data
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
        records = {f"{r.collection}/{r.rkey}": cbor_decoder.decode(r.data) for r in repo.records()}
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


def test_since_gives_only_what_is_newer(tmp_path):
    async def test(visitor):
        did = max(
            visitor.some(archivable=True),
            key=lambda did: sum(visitor.dids[did]["records"].values()),
        )
        full = await visitor.car(did)
        header = read_header(full)
        rev = cbor_decoder.decode(block_of(full, header.roots[0]))["rev"]
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
