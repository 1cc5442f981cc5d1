"""The addresses of `repos serve`: the stream, its health, its figures."""

from __future__ import annotations

from functools import partial

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from trawlnet import __version__
from trawlnet.crawlers.repos.serving.filters import parse_query
from trawlnet.crawlers.repos.serving.subscriber import EventSite, Subscriber
from trawlnet.malformed import Malformed
from trawlnet.observe.metrics.events import METRICS_TYPE, Gone

_HOME = """trawlnet: events of ATProto repositories.

Connect by WebSocket to /subscribe; parameters: wantedCollections, wantedDids, cursor,
maxMessageSizeBytes, requireHello, compress. Health: /xrpc/_health. Figures: /metrics.
"""


def make_app(site: EventSite) -> ASGIApp:
    routes = (
        ("/", _home),
        ("/subscribe", _not_http),
        ("/metrics", _metrics),
        ("/xrpc/_health", _health),
    )
    return Starlette(
        routes=[
            WebSocketRoute("/subscribe", partial(_subscribe, site)),
            WebSocketRoute("/{place:path}", _elsewhere),
            *(Route(path, partial(handler, site), methods=["GET"]) for path, handler in routes),
        ]
    )


async def _subscribe(site: EventSite, socket: WebSocket) -> None:
    try:
        request = parse_query(socket.query_params.multi_items(), socket.headers)
    except Malformed as error:
        site.meter.gone(Gone.REFUSED)
        return await socket.send_denial_response(PlainTextResponse(f"{error}\n", 400))
    if site.meter.clients >= site.most_clients:
        site.meter.gone(Gone.BUSY)
        busy = PlainTextResponse("too many clients; try again later\n", 503)
        return await socket.send_denial_response(busy)
    site.meter.clients += 1
    why = Gone.LEFT
    try:
        subscriber = Subscriber(site, socket, request)
        await subscriber.take_place()
        await socket.accept()
        why = await subscriber.run()
    finally:
        site.meter.clients -= 1
        site.meter.gone(why)


async def _elsewhere(socket: WebSocket) -> None:
    await socket.send_denial_response(PlainTextResponse("the stream is at /subscribe\n", 404))


async def _home(site: EventSite, request: Request) -> Response:
    return PlainTextResponse(_HOME)


async def _not_http(site: EventSite, request: Request) -> Response:
    return PlainTextResponse("connect by WebSocket\n", 426, {"Upgrade": "websocket"})


async def _metrics(site: EventSite, request: Request) -> Response:
    return Response(site.meter.text(), headers={"Content-Type": METRICS_TYPE})


async def _health(site: EventSite, request: Request) -> Response:
    row = {"version": __version__, "clients": site.meter.clients}
    return Response(orjson.dumps(row), media_type="application/json")
