"""The web application: its routes, rate limits and security headers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trawlnet.crawlers.pds.site import endpoint, people
from trawlnet.crawlers.pds.site.answers import SAFE_HEADERS, trouble
from trawlnet.crawlers.pds.site.context import SiteContext
from trawlnet.crawlers.pds.site.requests import address_of
from trawlnet.engine.gate import LaneParked
from trawlnet.tables.errors import TablesError

log = logging.getLogger(__name__)

Handler = Callable[[SiteContext, Request], Awaitable[Response]]

_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("/", "GET", people.home),
    ("/register", "POST", people.take_form),
    ("/register", "GET", people.back_to_the_form),
    ("/pds", "GET", people.one),
    ("/docs", "GET", people.describe),
    ("/static/style.css", "GET", people.style),
    ("/static/icon.svg", "GET", people.icon),
    ("/openapi.json", "GET", endpoint.openapi),
    ("/api/pds", "GET", endpoint.listing),
    ("/metrics", "GET", endpoint.metrics),
    ("/xrpc/_health", "GET", endpoint.health),
    (f"/xrpc/{endpoint.METHOD}", "POST", endpoint.register_pds),
)
# Cheap routes for machines, without a rate limit.
_UNLIMITED = frozenset({"/metrics", "/xrpc/_health", "/static/style.css", "/static/icon.svg"})


def make_app(site: SiteContext) -> ASGIApp:
    routes = [
        Route(path, partial(handler, site), methods=[method]) for path, method, handler in _ROUTES
    ]
    routes.append(Route("/xrpc/{method}", _unknown_method, methods=["GET", "POST"]))
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _on_refusal,
            TablesError: _on_trouble,
            LaneParked: _on_trouble,
            Exception: _on_bug,
        },
    )
    app.router.redirect_slashes = False
    return _door(app, site)


async def _unknown_method(request: Request) -> Response:
    # This route matches all methods of HTTP, so the router takes it for a known path as well.
    allowed = {path: method for path, method, _ in _ROUTES}.get(request.url.path)
    if allowed is not None:
        raise HTTPException(405, "Method Not Allowed", {"Allow": allowed})
    raise HTTPException(501, "There is no such method here.")


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return trouble(request, error.status_code, error.detail, dict(error.headers or {}))


async def _on_trouble(request: Request, error: Exception) -> Response:
    log.warning("request not served", extra={"path": request.url.path, "error": str(error)})
    return trouble(request, 503, "The registry cannot be reached now.", {"Retry-After": "60"})


async def _on_bug(request: Request, error: Exception) -> Response:
    return trouble(request, 500, "Internal error. The log of the registry has the details.", {})


def _door(app: ASGIApp, site: SiteContext) -> ASGIApp:
    """Count every request, apply the rate limit, and add the security headers."""
    paths = {path for path, _, _ in _ROUTES}

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        # An unknown path must not become a label.
        route = scope["path"] if scope["path"] in paths else "other"

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                site.meter.answered(route, message["status"])
                message["headers"] = [*message["headers"], *_SAFE]
            await send(message)

        request = Request(scope)
        wait = 0.0
        if route not in _UNLIMITED:
            wait = site.visitors.take(address_of(request), site.service.clock.now())
        if wait > 0.0:
            retry = {"Retry-After": str(int(wait) + 1)}
            answer = trouble(request, 429, "Too many requests from this address.", retry)
            await answer(scope, receive, sending)
        else:
            await app(scope, receive, sending)

    return door


_SAFE = [(name.lower().encode(), value.encode()) for name, value in SAFE_HEADERS.items()]
