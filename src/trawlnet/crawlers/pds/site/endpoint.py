"""For programs: registration by XRPC, the registry as JSON, health, metrics and the description."""

from __future__ import annotations

import asyncio

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from trawlnet import __version__
from trawlnet.crawlers.atproto.identity import Identity
from trawlnet.crawlers.atproto.serviceauth import AuthError, Rejected
from trawlnet.crawlers.pds.site.answers import as_json, declined, refusal, row_as_json
from trawlnet.crawlers.pds.site.context import SiteContext
from trawlnet.crawlers.pds.site.page import packaged
from trawlnet.crawlers.pds.site.register import Accepted, Declined, Fault, register
from trawlnet.crawlers.pds.site.requests import address_of, body_of, filter_of

METHOD = "pub.chive.sync.registerPDS"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def register_pds(site: SiteContext, request: Request) -> Response:
    url = _pds_url(await body_of(request, "application/json"))
    if (wait := site.callers.take(address_of(request), site.service.clock.now())) > 0.0:
        return refusal(429, Fault.TOO_MANY, "Too many registrations from this address.", wait)
    caller = await _caller(site, request)
    if isinstance(caller, Rejected):
        return _rejected(caller)
    answer = await enter(site, url, caller)
    if isinstance(answer, Declined):
        return declined(answer)
    said = {"pdsUrl": answer.pds_url, "registered": True, "status": answer.state}
    return as_json(said | {"message": answer.message})


async def enter(site: SiteContext, url: str, caller: Identity | None) -> Accepted | Declined:
    """Register, and count the result."""
    answer = await register(site.service, url, caller)
    site.meter.registered(answer.fault if isinstance(answer, Declined) else answer.state)
    site.board.wipe()
    return answer


def _pds_url(body: bytes) -> str:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise HTTPException(400, "The body is not JSON.") from None
    url = value.get("pdsUrl") if isinstance(value, dict) else None
    if not isinstance(url, str) or "://" not in url:
        raise HTTPException(400, "pdsUrl must be a URL, such as https://pds.example.com")
    return url


async def _caller(site: SiteContext, request: Request) -> Identity | Rejected | None:
    """None for a request without a token; a bad token is rejected."""
    headers = request.headers.getlist("authorization")
    if not headers:
        return None
    kind, _, token = headers[0].partition(" ")
    if len(headers) > 1 or kind.lower() != "bearer":
        return Rejected(AuthError.MALFORMED, "one Authorization header with a Bearer token")
    try:
        async with asyncio.timeout(site.service.patience):
            return await site.auth.caller(token.strip(), METHOD)
    except TimeoutError:
        return Rejected(AuthError.UNAVAILABLE, "the issuer's DID cannot be looked up now")


def _rejected(caller: Rejected) -> Response:
    if caller.error is AuthError.UNAVAILABLE:
        return refusal(503, caller.error, caller.message, wait=60.0)
    answer = refusal(401, caller.error, caller.message)
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


async def listing(site: SiteContext, request: Request) -> Response:
    wanted = filter_of(request)
    rows = await site.service.books.listing(
        status=wanted.status,
        source=wanted.source,
        contains=wanted.contains,
        after=wanted.after,
        limit=wanted.limit + 1,  # One more shows whether there is another page.
    )
    page = {"pdses": [row_as_json(row) for row in rows[: wanted.limit]]}
    if len(rows) > wanted.limit:
        return as_json(page | {"cursor": rows[wanted.limit - 1].pds_url})
    return as_json(page)


async def health(site: SiteContext, request: Request) -> Response:
    """Healthy means that the registry answers."""
    await site.service.books.listing(limit=1)
    return as_json({"version": __version__})


async def metrics(site: SiteContext, request: Request) -> Response:
    return Response(await site.scrape(), headers={"Content-Type": _METRICS_TYPE})


async def openapi(site: SiteContext, request: Request) -> Response:
    return Response(packaged("openapi.json"), media_type="application/json")
