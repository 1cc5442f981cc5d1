"""How these PDSes answer: as their data is, or as their lie wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from tests.support.pds.sim_model import Invented, PdsLie, SimPds, SimRepo, did_of
from trawlnet.atproto.cid import cid_of
from trawlnet.sim.atproto.xrpc import BadParameter, XrpcRefusal, json_response, limit_parameter

VICTIM = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
HALF = "<half a character>"  # In a record it is sent as an escape that UTF-8 has no bytes for.
_TOO_DEEP = b'{"repos":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
_LONGEST_HANG = 120.0  # Seconds.
_LISTING = ("com.atproto.sync.listRepos", "com.atproto.sync.listHosts")


async def answer_pds(pds: SimPds, request: web.BaseRequest) -> web.Response:
    method = request.path.removeprefix("/xrpc/")
    pds.asked[method.rpartition(".")[2]] += 1
    if pds.hangs_on and request.query.get("repo") == pds.hangs_on:
        await asyncio.sleep(_LONGEST_HANG)
    if pds.loses and request.query.get("repo") == pds.loses:
        return web.Response(status=404, text="Not Found")
    serve = _METHODS.get(method)
    if pds.lie is PdsLie.BROKEN_JSON:
        return web.Response(body=_TOO_DEEP, content_type="application/json")
    try:
        if serve is None or (method == _BY_COLLECTION and not pds.lists_by_collection):
            # What the reference says to strangers about methods that it would pass on.
            raise XrpcRefusal("AuthMissing", "Authentication Required", 401)
        if pds.lie in (PdsLie.RELAY, PdsLie.LISTING_ONLY) and method not in _LISTING:
            raise XrpcRefusal("MethodNotImplemented", "Method Not Implemented", 501)
        if pds.lie is PdsLie.NO_DESCRIPTIONS and method.endswith("describeRepo"):
            raise XrpcRefusal("MethodNotImplemented", "Method Not Implemented", 501)
        response = json_response(serve(pds, request.query))
        assert isinstance(response.body, bytes)
        response.body = response.body.replace(HALF.encode(), rb"\ud800")
    except XrpcRefusal as refusal:
        response = refusal.response()
    if pds.lie is PdsLie.RELAY:
        response.headers["Server"] = "indigo-atproto-relay/1.2"
    return response


def _list_repos(pds: SimPds, query: Mapping[str, str]) -> dict[str, Any]:
    limit = min(limit_parameter(query, 500, 1000), pds.largest_page)
    repos = list(pds.repos.values())
    start = _start(query)
    if pds.lie is PdsLie.ENDLESS_REPOS and start >= len(repos):
        start = 0
    if pds.lie is PdsLie.INVENTED_REPOS and start >= len(repos):
        repos += [_invented(pds, number) for number in range(len(repos), start + limit)]
    rows = [_listed(repo) for repo in repos[start : start + limit]]
    return _with_cursor(pds, {"repos": rows}, start + len(rows), len(repos))


def _repos_by_collection(pds: SimPds, query: Mapping[str, str]) -> dict[str, Any]:
    limit = limit_parameter(query, 500, 2000)
    collection = query.get("collection", "")
    repos = [repo for repo in pds.repos.values() if collection in repo.records]
    start = _start(query)
    rows = [{"did": repo.did} for repo in repos[start : start + limit]]
    if pds.lie is PdsLie.INVENTED_LEADS:
        rows = [{"did": _invented(pds, start + number).did} for number in range(limit)]
    page: dict[str, Any] = {"repos": rows}
    if pds.lie in (PdsLie.REPEATED_LEADS, PdsLie.INVENTED_LEADS):
        page["repos"] = rows or [{"did": repo.did} for repo in repos]
        page["cursor"] = str(start + limit)
    elif start + len(rows) < len(repos):
        page["cursor"] = str(start + len(rows))
    return page


def _describe_repo(pds: SimPds, query: Mapping[str, str]) -> dict[str, Any]:
    repo = _repo(pds, query.get("repo"))
    return {
        "did": repo.did,
        "handle": "someone.test",
        "didDoc": {},
        "collections": sorted(repo.records),
        "handleIsCorrect": True,
    }


def _list_records(pds: SimPds, query: Mapping[str, str]) -> dict[str, Any]:
    repo, collection = _repo(pds, query.get("repo")), query.get("collection", "")
    limit = min(limit_parameter(query, 50, 100), pds.most_records)
    records = repo.records.get(collection, {})
    cursor = query.get("cursor", "")
    rkeys = sorted(records, reverse=True)
    if pds.lie is PdsLie.ENDLESS_RECORDS:
        turn = pds.asked["listRecords"]
        return {"records": _rows(repo, collection, rkeys[:limit]), "cursor": f"more{turn}"}
    rkeys = [rkey for rkey in rkeys if not cursor or rkey < cursor][:limit]
    page: dict[str, Any] = {"records": _rows(repo, collection, rkeys)}
    if pds.lie is PdsLie.FORGED_URIS:
        for row in page["records"]:
            row["uri"] = row["uri"].replace(repo.did, VICTIM)
    if rkeys and (pds.ends_with_cursor or rkeys[-1] != min(records)):
        page["cursor"] = rkeys[-1]
    return page


def _rows(repo: SimRepo, collection: str, rkeys: Sequence[str]) -> list[dict[str, Any]]:
    records = repo.records.get(collection, {})
    return [
        {"uri": f"at://{repo.did}/{collection}/{rkey}", "value": records[rkey]}
        | ({} if rkey in repo.spoilt else {"cid": str(cid_of(orjson.dumps(records[rkey])))})
        for rkey in rkeys
    ]


def _latest_commit(pds: SimPds, query: Mapping[str, str]) -> dict[str, Any]:
    repo = _repo(pds, query.get("did"))
    return {"cid": str(cid_of(repo.rev.encode())), "rev": repo.rev}


def _describe_server(pds: SimPds, query: Mapping[str, str]) -> dict[str, Any]:
    return {"did": f"did:web:{pds.address}", "availableUserDomains": [".test"]}


def _listed(repo: SimRepo) -> dict[str, Any]:
    row: dict[str, Any] = {
        "did": repo.did,
        "head": str(cid_of(repo.rev.encode())),
        "rev": repo.rev,
        "active": not repo.status,
    }
    return row | {"status": repo.status} if repo.status else row


def _repo(pds: SimPds, did: str | None) -> SimRepo:
    if did is None:
        raise BadParameter("whose?")
    repo = pds.repos.get(did)
    if repo is None and pds.lie is PdsLie.INVENTED_REPOS:
        return SimRepo(did)
    if repo is None:
        raise XrpcRefusal("RepoNotFound", f"Could not find repo for DID: {did}")
    if repo.status:
        raise XrpcRefusal(f"Repo{repo.status.capitalize()}", f"Repo has been {repo.status}: {did}")
    return repo


def _invented(pds: SimPds, number: int) -> SimRepo:
    if pds.invents is Invented.NO_HOST:
        # Nothing listens on port 9 of loopback addresses.
        return SimRepo(f"did:web:127.9.{number // 250 % 250}.{number % 250 + 1}%3A9")
    status = "deactivated" if pds.invents is Invented.IDLE else ""
    return SimRepo(did_of(f"invented/{pds.address}/{number}"), status=status)


def _start(query: Mapping[str, str]) -> int:
    cursor = query.get("cursor") or "0"
    if not cursor.isdecimal() or len(cursor) > 12:
        raise XrpcRefusal("InvalidRequest", "Malformed cursor")
    return int(cursor)


def _with_cursor(pds: SimPds, page: dict[str, Any], at: int, end: int) -> dict[str, Any]:
    is_endless = pds.lie in (PdsLie.ENDLESS_REPOS, PdsLie.INVENTED_REPOS)
    if page["repos"] and (at < end or pds.ends_with_cursor or is_endless):
        page["cursor"] = str(at)
    return page


_BY_COLLECTION = "com.atproto.sync.listReposByCollection"
_METHODS: dict[str, Callable[[SimPds, Mapping[str, str]], dict[str, Any]]] = {
    "com.atproto.sync.listRepos": _list_repos,
    _BY_COLLECTION: _repos_by_collection,
    "com.atproto.sync.getLatestCommit": _latest_commit,
    "com.atproto.repo.describeRepo": _describe_repo,
    "com.atproto.repo.listRecords": _list_records,
    "com.atproto.server.describeServer": _describe_server,
}
