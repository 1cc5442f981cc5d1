"""The PLC directory of a simulated world: exports in both forms, documents, logs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web

from trawlnet.atproto.identity.keys import parse_did_key
from trawlnet.atproto.identity.plc import PlcState, state_after
from trawlnet.sim.atproto.accounts import Account, Story
from trawlnet.sim.atproto.history import OperationStep, history
from trawlnet.sim.atproto.population import STEPS_PER_ACCOUNT, Population
from trawlnet.sim.atproto.xrpc import json_response

_LARGEST_PAGE = 1000
_LONGEST_NUMBER = 18  # Digits.
_DID_PATH = re.compile(r"/(did:[^/]+)(/.*)?\Z")


def answer_directory(population: Population, request: web.BaseRequest) -> web.Response:
    if request.path == "/_health":
        return json_response({"version": "sim"})
    if request.path == "/export":
        return _export(population, request.query.get("after"), request.query.get("count"))
    matched = _DID_PATH.match(request.path)
    view = _VIEWS.get(matched[2] or "/") if matched else None
    if matched is None or view is None:
        return json_response({"message": "Not found"}, 404)
    account = population.find(matched[1])
    if account is None or account.story is Story.UNLISTED:
        return json_response({"message": f"DID not registered: {matched[1]}"}, 404)
    return view(population, account)


def numbered_lines(population: Population, after: int, size: int) -> list[dict[str, Any]]:
    """As the numbered export and the stream have them."""
    return list(_sequence_lines(population, after, size))


def did_document(population: Population, account: Account) -> dict[str, Any]:
    """The document of an account that is not tombstoned; of a did:web one too."""
    did = population.dids[account.index]
    if account.story is Story.UNLISTED:
        endpoint = population.plan.hosts[account.host].url
        services = {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": endpoint}}
        key = {"atproto": account.keys[0].did_key}
        return _document(PlcState(did, (), key, (f"at://{account.handle}",), services))
    return _document(_state(population, account))


def _export(population: Population, after: str | None, count: str | None) -> web.Response:
    size = _LARGEST_PAGE if count is None else _number(count) or 0
    if not 1 <= size <= _LARGEST_PAGE:
        return json_response({"message": "Invalid count parameter"}, 400)
    seq = None if after is None else _number(after)
    if seq is not None:
        lines = _sequence_lines(population, seq, size)
    else:
        try:
            start = _log_position(population, after) if after else 0
        except ValueError:
            return json_response({"message": "Invalid after parameter"}, 400)
        lines = _timed_lines(population, start, size)
    # The last line ends without a newline, as the real directory has it.
    body = b"\n".join(orjson.dumps(line) for line in lines)
    return web.Response(body=body, headers={"Content-Type": "application/jsonlines"})


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_NUMBER else None


def _sequence_lines(population: Population, after: int, size: int) -> Iterator[dict[str, Any]]:
    """Sequence numbers start at 1 and have no gaps."""
    for seq, did, step in _steps(population, after, size):
        yield {
            "type": "sequenced_op",
            "seq": seq,
            "did": did,
            "operation": step.operation,
            "cid": step.cid,
            "createdAt": step.created_at,
        }


def _timed_lines(population: Population, start: int, size: int) -> Iterator[dict[str, Any]]:
    for _, did, step in _steps(population, start, size):
        yield _log_line(did, step)


def _steps(
    population: Population, start: int, size: int
) -> Iterator[tuple[int, str, OperationStep]]:
    for at in range(start, min(start + size, len(population.log))):
        index, number = divmod(population.log[at], STEPS_PER_ACCOUNT)
        step = history(population.plan, population.account(index))[number]
        yield at + 1, population.dids[index], step


def _log_position(population: Population, after: str) -> int:
    """The first entry that is later than `after`: others of the same instant are passed over."""
    moment = datetime.fromisoformat(after)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)

    def created(at: int) -> datetime:
        ((_, _, step),) = _steps(population, at, 1)
        return datetime.fromisoformat(step.created_at)

    return bisect_right(range(len(population.log)), moment, key=created)


def _log_line(did: str, step: OperationStep) -> dict[str, Any]:
    return {
        "did": did,
        "operation": step.operation,
        "cid": step.cid,
        "nullified": step.nullified,
        "createdAt": step.created_at,
    }


def _state(population: Population, account: Account) -> PlcState:
    last = history(population.plan, account)[-1]
    return state_after(population.dids[account.index], last.operation)


def _document_view(population: Population, account: Account) -> web.Response:
    state = _state(population, account)
    if state.tombstoned:
        return _not_available(state.did)
    response = json_response(_document(state))
    response.headers["Content-Type"] = "application/did+ld+json; charset=utf-8"
    return response


def _data_view(population: Population, account: Account) -> web.Response:
    state = _state(population, account)
    if state.tombstoned:
        return _not_available(state.did)
    data = {
        "did": state.did,
        "verificationMethods": state.verification_methods,
        "rotationKeys": list(state.rotation_keys),
        "alsoKnownAs": list(state.also_known_as),
        "services": state.services,
    }
    return json_response(data)


def _audit_view(population: Population, account: Account) -> web.Response:
    did = population.dids[account.index]
    return json_response([_log_line(did, step) for step in history(population.plan, account)])


def _log_view(population: Population, account: Account) -> web.Response:
    steps = history(population.plan, account)
    return json_response([step.operation for step in steps if not step.nullified])


def _last_view(population: Population, account: Account) -> web.Response:
    return json_response(history(population.plan, account)[-1].operation)


_VIEWS: dict[str, Callable[[Population, Account], web.Response]] = {
    "/": _document_view,
    "/data": _data_view,
    "/log": _log_view,
    "/log/audit": _audit_view,
    "/log/last": _last_view,
}


def _not_available(did: str) -> web.Response:
    return json_response({"message": f"DID not available: {did}"}, 404)


def _document(state: PlcState) -> dict[str, Any]:
    return {
        "@context": [
            "https://www.w3.org/ns/did/v1",
            "https://w3id.org/security/multikey/v1",
        ],
        "id": state.did,
        "alsoKnownAs": list(state.also_known_as),
        "verificationMethod": [
            {
                "id": f"{state.did}#{name}",
                "type": "Multikey",
                "controller": state.did,
                "publicKeyMultibase": parse_did_key(key).multibase,
            }
            for name, key in (state.verification_methods or {}).items()
        ],
        "service": [
            {
                "id": f"#{name}",
                "type": service["type"],
                "serviceEndpoint": service["endpoint"],
            }
            for name, service in (state.services or {}).items()
        ],
    }
