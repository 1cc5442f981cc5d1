"""The relay of a simulated world: which servers there are, and whose repositories it has seen."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from trawlnet.sim.atproto.accounts import AccountStatus
from trawlnet.sim.atproto.live import subscription
from trawlnet.sim.atproto.live.event_log import FirehoseLog
from trawlnet.sim.atproto.plan import SimHost
from trawlnet.sim.atproto.population import Population
from trawlnet.sim.atproto.shelf import RepoShelf
from trawlnet.sim.atproto.xrpc import XrpcRefusal, json_response, limit_parameter
from trawlnet.sim.habits import Habit

_BUILDS_AT_A_TIME = 16


async def answer_relay(
    population: Population, shelf: RepoShelf, log: FirehoseLog, request: web.BaseRequest
) -> web.StreamResponse:
    try:
        match request.path:
            case "/xrpc/_health":
                return json_response({"status": "ok"})
            case "/xrpc/com.atproto.sync.listHosts":
                return _list_hosts(population, request)
            case "/xrpc/com.atproto.sync.getHostStatus":
                return _host_status(population, request)
            case "/xrpc/com.atproto.sync.listRepos":
                return await _list_repos(population, shelf, request)
            case subscription.PATH:
                return await subscription.answer_subscription(log, request, is_inclusive=True)
            case _:
                raise XrpcRefusal("MethodNotImplemented", "Method Not Implemented", 501)
    except XrpcRefusal as refusal:
        return refusal.response()


def _list_hosts(population: Population, request: web.BaseRequest) -> web.Response:
    """Most servers; one in seven has never asked to be crawled."""
    limit = limit_parameter(request.query, 200, 1000)
    start = _start(request)
    hosts = [host for host in population.plan.hosts if host.on_relay]
    listed = hosts[start : start + limit]
    page: dict[str, Any] = {"hosts": [_host_row(population, host) for host in listed]}
    if start + len(listed) < len(hosts):
        page["cursor"] = str(start + len(listed))
    return json_response(page)


def _host_status(population: Population, request: web.BaseRequest) -> web.Response:
    for host in population.plan.hosts:
        if host.on_relay and host.name == request.query.get("hostname"):
            return json_response(_host_row(population, host))
    raise XrpcRefusal("HostNotFound", "host not found")


def _host_row(population: Population, host: SimHost) -> dict[str, Any]:
    return {
        "hostname": host.name,
        "seq": 1000 + host.index,
        "accountCount": len(population.members[host.index]),
        "status": "offline" if host.habit is Habit.DEAD else "active",
    }


async def _list_repos(
    population: Population, shelf: RepoShelf, request: web.BaseRequest
) -> web.Response:
    """Every account on a server that the relay follows, each at the server it lives on now."""
    limit = limit_parameter(request.query, 500, 1000)
    at = _start(request)
    rows: list[dict[str, Any]] = []
    while at < len(population) and len(rows) < limit:
        account = population.account(at)
        at += 1
        host = population.plan.hosts[account.host]
        if not account.lives_on_host or not host.on_relay or not host.is_bound:
            continue
        if len(rows) % _BUILDS_AT_A_TIME == 0:
            await asyncio.sleep(0)
        row: dict[str, Any] = {
            "did": population.dids[account.index],
            "head": str(shelf.head(account)),
            "rev": shelf.rev(account),
            "active": account.status is AccountStatus.ACTIVE,
        }
        if account.status is not AccountStatus.ACTIVE:
            row["status"] = account.status.value
        rows.append(row)
    page: dict[str, Any] = {"repos": rows}
    if at < len(population):
        page["cursor"] = str(at)
    return json_response(page)


def _start(request: web.BaseRequest) -> int:
    cursor = request.query.get("cursor") or "0"
    if not cursor.isdecimal() or len(cursor) > 18:
        raise XrpcRefusal("InvalidRequest", "Malformed cursor")
    return int(cursor)
