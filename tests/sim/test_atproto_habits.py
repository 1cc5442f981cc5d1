"""Simulated servers that lie, loop, refuse and limit, each where the manifest says so."""

import asyncio
import json
from collections import Counter

import pytest

from tests.support.atproto.visitor import XRPC, visit
from tests.support.repository.reading import verify_repo
from trawlnet.atproto.identity.did_document import signing_key
from trawlnet.malformed import Malformed
from trawlnet.sim.atproto.lies import RepoLie
from trawlnet.sim.habits import Habit, Temper

CAUGHT_BY = {
    RepoLie.OTHER_REPO: "a repository of",
    RepoLie.WRONG_SIGNATURE: "signature",
    RepoLie.HIGH_S: "signature",
    RepoLie.WRONG_HASH: "is not what its CID names",
    RepoLie.MISSING_BLOCK: "is missing",
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
        assert set(caught) == set(RepoLie)
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
        assert set(visitor.world.ready_line()) == {"plc", "relay", "pds", "firehose", "manifest"}
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
