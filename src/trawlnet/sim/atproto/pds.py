"""One PDS of a simulated world, answering as the reference server does."""

from __future__ import annotations

import asyncio
import zlib
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.syntax import is_nsid, is_tid
from trawlnet.sim.atproto.accounts import Account, AccountStatus, created_ms
from trawlnet.sim.atproto.directory import did_document
from trawlnet.sim.atproto.lies import lying_car
from trawlnet.sim.atproto.live import subscription
from trawlnet.sim.atproto.live.event_log import FirehoseLog
from trawlnet.sim.atproto.plan import SimHost
from trawlnet.sim.atproto.population import Population
from trawlnet.sim.atproto.tenancy import Pdses, find, find_open, find_readable, state_on
from trawlnet.sim.atproto.xrpc import (
    BadParameter,
    XrpcRefusal,
    did_parameter,
    json_response,
    limit_parameter,
)
from trawlnet.sim.habits import Habit
from trawlnet.sim.repository.dagjson import to_json

_COMPRESS_FROM = 4096  # Bytes; below that, it costs more than it saves.
_BUILDS_AT_A_TIME = 16  # A listing lets other requests in after so many repositories.


async def answer_pds(
    pdses: Pdses, host: SimHost, request: web.BaseRequest, now: float
) -> web.StreamResponse:
    path = request.path
    if path == "/xrpc/_health":
        return json_response({"version": "0.5.35"})
    if path == "/.well-known/did.json" and host.has_web_account:
        account = pdses.population.find(host.web_did)
        if account is not None:
            return json_response(did_document(pdses.population, account))
    if not path.startswith("/xrpc/"):
        return web.Response(status=404, text="Not Found")
    method = path.removeprefix("/xrpc/")
    if method == subscription.METHOD:
        return await _subscribe(pdses.logs[host.index], request)
    serve = _METHODS.get(method)
    is_passed_on = method == _BY_COLLECTION and not host.lists_by_collection
    try:
        if serve is None or is_passed_on:
            raise XrpcRefusal("AuthMissing", "Authentication Required", 401)
        headers = pdses.limits.spend(host.index, method, now)
        response = await serve(pdses, host, request)
    except BadParameter as refusal:
        return refusal.response()
    except XrpcRefusal as refusal:
        response = refusal.response()
        if refusal.status != 400:
            return response
    response.headers.update(headers)
    return response


async def _subscribe(log: FirehoseLog, request: web.BaseRequest) -> web.StreamResponse:
    try:
        return await subscription.answer_subscription(log, request, is_inclusive=False)
    except XrpcRefusal as refusal:
        return refusal.response()


async def _get_repo(pdses: Pdses, host: SimHost, request: web.BaseRequest) -> web.Response:
    did = did_parameter(request.query)
    since = request.query.get("since")
    if since is not None and not is_tid(since):
        raise BadParameter("since must be a valid tid")
    account = find_open(pdses, host, did)
    if host.habit is Habit.LYING:
        car = lying_car(pdses.shelf, pdses.population, account)
    elif since is not None:
        car = pdses.shelf.car_since(account, since)
    else:
        car = pdses.shelf.car(account)
    headers = {"Content-Type": "application/vnd.ipld.car"}
    if len(car) >= _COMPRESS_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
        car = zlib.compress(car, 1, wbits=31)
    response = web.Response(body=car, headers=headers)
    # The reference streams repositories: no length is announced.
    response.enable_chunked_encoding()
    return response


async def _list_repos(pdses: Pdses, host: SimHost, request: web.BaseRequest) -> web.Response:
    limit = limit_parameter(request.query, 500, 1000)
    members = pdses.population.members[host.index]
    start = _listing_start(pdses.population, members, request.query.get("cursor"))
    if host.habit is Habit.ENDLESS_CURSOR and start >= len(members):
        start = 0
    rows = []
    for number, index in enumerate(members[start : start + limit]):
        account = pdses.population.account(index)
        if not pdses.shelf.knows_head(account) and number % _BUILDS_AT_A_TIME == 0:
            await asyncio.sleep(0)
        rows.append(_listing_row(pdses, host, account))
    page: dict[str, Any] = {"repos": rows}
    if host.habit is Habit.LYING and start == 0:
        page["repos"] = [*rows, *_stolen_rows(pdses, host)]
    if rows:
        last = pdses.population.account(members[start + len(rows) - 1])
        page["cursor"] = f"{last.created_ms}::{pdses.population.dids[last.index]}"
    return json_response(page)


async def _repos_by_collection(
    pdses: Pdses, host: SimHost, request: web.BaseRequest
) -> web.Response:
    collection = _collection(request.query)
    limit = limit_parameter(request.query, 500, 2000)
    members = pdses.population.members[host.index]
    start = _listing_start(pdses.population, members, request.query.get("cursor"))
    page: dict[str, Any] = {"repos": []}
    for index in members[start:]:
        account = pdses.population.account(index)
        if state_on(host, account) is AccountStatus.ACTIVE and collection in pdses.shelf.counts(
            account
        ):
            did = pdses.population.dids[index]
            if len(page["repos"]) == limit:
                break
            page["repos"].append({"did": did})
            page["cursor"] = f"{account.created_ms}::{did}"
    else:
        page.pop("cursor", None)
    return json_response(page)


def _listing_start(population: Population, members: Sequence[int], cursor: str | None) -> int:
    if not cursor:
        return 0
    created, colons, did = cursor.partition("::")
    if not colons or not created.isdecimal() or len(created) > 15 or not did:
        raise XrpcRefusal("InvalidRequest", "Malformed cursor")

    def place(index: int) -> tuple[int, str]:
        return created_ms(index), population.dids[index]

    return bisect_right(members, (int(created), did), key=place)


def _listing_row(pdses: Pdses, host: SimHost, account: Account) -> dict[str, Any]:
    state = state_on(host, account)
    row: dict[str, Any] = {
        "did": pdses.population.dids[account.index],
        "head": str(pdses.shelf.head(account)),
        "rev": pdses.shelf.rev(account),
        "active": state is AccountStatus.ACTIVE,
    }
    if state is not AccountStatus.ACTIVE:
        row["status"] = state.value
    return row


def _stolen_rows(pdses: Pdses, host: SimHost) -> list[dict[str, Any]]:
    """A listing of somebody who lives elsewhere, as if they lived here."""
    plan = pdses.population.plan
    for index in range(plan.accounts):
        account = pdses.population.account(index)
        if account.status is AccountStatus.ACTIVE and host.index not in (
            account.host,
            account.former_host,
        ):
            return [_listing_row(pdses, plan.hosts[account.host], account)]
    return []


async def _get_repo_status(pdses: Pdses, host: SimHost, request: web.BaseRequest) -> web.Response:
    did = did_parameter(request.query)
    account = find(pdses, host, did)
    state = state_on(host, account)
    if state is AccountStatus.ACTIVE:
        return json_response({"did": did, "active": True, "rev": pdses.shelf.rev(account)})
    return json_response({"did": did, "active": False, "status": state.value})


async def _get_latest_commit(pdses: Pdses, host: SimHost, request: web.BaseRequest) -> web.Response:
    account = find_open(pdses, host, did_parameter(request.query))
    return json_response({"cid": str(pdses.shelf.head(account)), "rev": pdses.shelf.rev(account)})


async def _list_blobs(pdses: Pdses, host: SimHost, request: web.BaseRequest) -> web.Response:
    find_open(pdses, host, did_parameter(request.query))
    return json_response({"cids": []})


async def _describe_repo(pdses: Pdses, host: SimHost, request: web.BaseRequest) -> web.Response:
    account = find_open(pdses, host, did_parameter(request.query, "repo"))
    described = {
        "handle": account.handle,
        "did": pdses.population.dids[account.index],
        "didDoc": did_document(pdses.population, account),
        "collections": sorted(pdses.shelf.counts(account)),
        "handleIsCorrect": True,
    }
    return json_response(described)


async def _describe_server(pdses: Pdses, host: SimHost, request: web.BaseRequest) -> web.Response:
    # Servers on one machine all give this name, so it says nothing about which one was asked.
    described = {
        "did": "did:web:localhost",
        "availableUserDomains": [".test"],
        "inviteCodeRequired": False,
        "links": {},
        "contact": {},
    }
    return json_response(described)


async def _list_records(pdses: Pdses, host: SimHost, request: web.BaseRequest) -> web.Response:
    query = request.query
    collection = _collection(query)
    limit = limit_parameter(query, 50, 100)
    account = find_readable(pdses, host, query)
    did = pdses.population.dids[account.index]
    records = pdses.shelf.volume(account).writings.records
    prefix = f"{collection}/"
    rkeys = [path.removeprefix(prefix) for path in records if path.startswith(prefix)]
    ascending = query.get("reverse") == "true"
    rkeys.sort(reverse=not ascending)
    cursor = query.get("cursor")
    if cursor and host.habit is not Habit.ENDLESS_CURSOR:
        rkeys = [rkey for rkey in rkeys if (rkey > cursor if ascending else rkey < cursor)]
    page = rkeys[:limit]
    listed: dict[str, Any] = {
        "records": [_record(did, prefix + rkey, records[prefix + rkey]) for rkey in page]
    }
    if page:
        listed["cursor"] = page[-1]
    return json_response(listed)


async def _get_record(pdses: Pdses, host: SimHost, request: web.BaseRequest) -> web.Response:
    collection = _collection(request.query)
    account = find_readable(pdses, host, request.query)
    did = pdses.population.dids[account.index]
    path = f"{collection}/{request.query.get('rkey', '')}"
    records = pdses.shelf.volume(account).writings.records
    if path not in records:
        raise XrpcRefusal("RecordNotFound", f"Could not locate record: at://{did}/{path}")
    return json_response(_record(did, path, records[path]))


def _collection(query: Mapping[str, str]) -> str:
    collection = query.get("collection")
    if collection is None:
        raise BadParameter('Params must have the property "collection"')
    if not is_nsid(collection):
        raise BadParameter("collection must be a valid nsid")
    return collection


def _record(did: str, path: str, value: Any) -> dict[str, Any]:
    return {
        "uri": f"at://{did}/{path}",
        "cid": str(cid_of(encode(value))),
        "value": to_json(value),
    }


_BY_COLLECTION = "com.atproto.sync.listReposByCollection"
_METHODS: dict[str, Callable[[Pdses, SimHost, web.BaseRequest], Awaitable[web.Response]]] = {
    "com.atproto.sync.getRepo": _get_repo,
    "com.atproto.sync.listRepos": _list_repos,
    _BY_COLLECTION: _repos_by_collection,
    "com.atproto.sync.getRepoStatus": _get_repo_status,
    "com.atproto.sync.getLatestCommit": _get_latest_commit,
    "com.atproto.sync.listBlobs": _list_blobs,
    "com.atproto.repo.describeRepo": _describe_repo,
    "com.atproto.repo.listRecords": _list_records,
    "com.atproto.repo.getRecord": _get_record,
    "com.atproto.server.describeServer": _describe_server,
}
