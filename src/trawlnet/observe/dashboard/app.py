"""The web application: its routes, and the checks that every request must pass."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from urllib.parse import parse_qs, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trawlnet.observe.dashboard import page
from trawlnet.observe.dashboard.board import Board
from trawlnet.observe.dashboard.door import COOKIE, SAFE_HEADERS, DoorKeys, is_own_page
from trawlnet.observe.dashboard.events import face_of, question_of, stream
from trawlnet.observe.dashboard.place import ActionOrder, NotDone, order_of
from trawlnet.observe.reports import page as report

log = logging.getLogger(__name__)

_MOST_BODY = 4096  # Bytes of a form.
_BODY_SECONDS = 5.0
_MOST_VIEWERS = 50
_MOST_FIELDS = 8
_YEAR = 365 * 86_400
_OPEN = frozenset(("/enter", "/static/style.css", "/static/icon.svg"))  # Need no token.


@dataclass(frozen=True, slots=True)
class DashboardSite:
    board: Board
    keys: DoorKeys
    name: str  # The displayed name of the workspace.
    closing: Callable[[], bool]  # Whether the server is shutting down.
    inner: Mapping[str, ASGIApp]  # Other applications, by their path prefix.


class _Pages:
    """The handlers, and the number of viewers."""

    def __init__(self, site: DashboardSite) -> None:
        self.site = site
        self.viewers = 0

    @property
    def crawlers(self) -> list[str]:
        return list(self.site.board.places)

    async def home(self, request: Request) -> Response:
        self.site.board.look_around()
        question = question_of(request.query_params, self.crawlers)
        face = await face_of(self.site.board, question)
        notice = _NOTICES.get(request.query_params.get("done", ""), "")
        return HTMLResponse(page.dashboard(face, question, self.crawlers, self.site.name, notice))

    async def events(self, request: Request) -> Response:
        if self.viewers >= _MOST_VIEWERS:
            raise HTTPException(503, "Too many viewers.", {"Retry-After": "60"})
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")  # HEAD: the stream has no end.
        question = question_of(request.query_params, self.crawlers)

        async def counted() -> AsyncIterator[str]:
            self.viewers += 1
            try:
                async for event in stream(self.site.board, question, self.site.closing):
                    yield event
            finally:
                self.viewers -= 1

        return StreamingResponse(counted(), media_type="text/event-stream")

    async def ask(self, request: Request) -> Response:
        """Show the confirmation page; a GET changes nothing."""
        order = self._order(request.query_params)
        stamp = self.site.keys.stamp(order.crawler)
        return HTMLResponse(page.ask(order, stamp, self.crawlers, self.site.name))

    async def order(self, request: Request) -> Response:
        if not is_own_page(request.headers):
            raise HTTPException(403, "The form must be sent from this page.")
        fields = await _form(request)
        order = self._order(fields)
        if not self.site.keys.is_stamped(order.crawler, fields.get("stamp", "")):
            raise HTTPException(403, "The page is too old: go back, reload it, and try again.")
        try:
            reply = await self.site.board.obey(order)
        except NotDone as error:
            log.warning("order", extra={"action": order.action, "reply": str(error)})
            raise HTTPException(409, str(error)) from None
        log.info("order", extra={"action": order.action, "crawler": order.crawler, "reply": reply})
        query = urlencode({"crawler": order.crawler, "done": order.action})
        return RedirectResponse(f"/?{query}", 303)

    def _order(self, fields: Mapping[str, str]) -> ActionOrder:
        crawler = fields.get("crawler", "")
        order = order_of(crawler, fields.get("do", ""), fields.get("reason", ""))
        place = self.site.board.places.get(crawler)
        if order is None or place is None or order.action not in place.can:
            raise HTTPException(400, "This crawl has no such action.")
        return order

    async def entrance(self, request: Request) -> Response:
        return HTMLResponse(page.enter(failed=False))

    async def enter(self, request: Request) -> Response:
        if not is_own_page(request.headers):
            raise HTTPException(403, "The form must be sent from this page.")
        keys = self.site.keys
        if not keys.opens((await _form(request)).get("token", "").strip()):
            await asyncio.sleep(_GUESS_SECONDS)
            return HTMLResponse(page.enter(failed=True), 403)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            COOKIE,
            keys.cookie,
            max_age=_YEAR,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer


_GUESS_SECONDS = 1.0  # Delay after a wrong token.
_NOTICES = {
    "pause": "Paused. Tasks in flight finish; no new task starts.",
    "resume": "Resumed.",
    "stop": "Every process stops immediately; tasks in flight start again with the next run.",
    "drain": "The crawl finishes tasks in flight, saves them, and exits.",
    "retry": "The keys are open again: the running crawl or the next one attempts them.",
}


def make_app(site: DashboardSite) -> ASGIApp:
    pages = _Pages(site)
    routes: list[Route | Mount] = [
        Route("/", pages.home),
        Route("/events", pages.events),
        Route("/ask", pages.ask),
        Route("/order", pages.order, methods=["POST"]),
        Route("/enter", pages.entrance, methods=["GET"]),
        Route("/enter", pages.enter, methods=["POST"]),
        *(Route(f"/static/{name}", _static(name, kind)) for name, kind in _STATIC.items()),
        *(Mount(path, _at_root(app)) for path, app in site.inner.items()),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _bug})
    return _door(app, site.keys)


def closed(title: str, words: str) -> ASGIApp:
    """An application with one page that says why the real one is not available."""
    return HTMLResponse(page.trouble(title, words), 503)


def _at_root(app: ASGIApp) -> ASGIApp:
    """Run an application as if its path prefix were the root."""

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
        await app({**scope, "path": path, "root_path": ""}, receive, send)

    return inner


def _door(app: ASGIApp, keys: DoorKeys) -> ASGIApp:
    """Check every request, those to the inner applications, too."""

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name for name, _ in message["headers"]}
                more = [pair for pair in _SAFE if pair[0] not in said]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        request = Request(scope)
        refusal = _refusal(request, keys)
        await (refusal or app)(scope, receive, sending)

    return door


_SAFE = [(name.lower().encode(), value.encode()) for name, value in SAFE_HEADERS.items()]


def _refusal(request: Request, keys: DoorKeys) -> Response | None:
    if not keys.answers_to(request.headers.get("host", "")):
        words = "Open this page by its address, such as 127.0.0.1 or localhost."
        return HTMLResponse(page.trouble("Unknown host name", words), 421)
    if request.url.path in _OPEN:
        return None
    authorization = request.headers.get("authorization", "")
    if keys.knows(request.cookies.get(COOKIE, ""), authorization):
        return None
    if request.url.path == "/" and request.method == "GET":
        return RedirectResponse("/enter", 303)
    return HTMLResponse(page.enter(failed=False), 401, {"WWW-Authenticate": "Bearer"})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = f"{error.status_code}"
    body = page.trouble(title, error.detail)
    return HTMLResponse(body, error.status_code, dict(error.headers or {}))


async def _bug(request: Request, error: Exception) -> Response:
    return HTMLResponse(
        page.trouble("500", "Internal error. The log of the dashboard has the details."), 500
    )


async def _form(request: Request) -> dict[str, str]:
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said != "application/x-www-form-urlencoded":
        raise HTTPException(415, "The body must be a form.")
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MOST_BODY:
                    raise HTTPException(413, "The form is too large.", {"Connection": "close"})
        fields = parse_qs(body.decode("ascii"), errors="strict", max_num_fields=_MOST_FIELDS)
    except (TimeoutError, ClientDisconnect, ValueError):
        raise HTTPException(400, "The form cannot be read.") from None
    return {name: values[0] for name, values in fields.items()}


_STATIC = {
    "style.css": "text/css",
    "live.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def _static(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response(_file(name), media_type=kind, headers={"Cache-Control": "no-cache"})

    return answer


@cache
def _file(name: str) -> bytes:
    if name == "style.css":
        return style_sheet().encode()
    return files(__package__).joinpath("static", name).read_bytes()


@cache
def style_sheet() -> str:
    """Our style sheet, after the palette and the chart styles of the reports."""
    own = files(__package__).joinpath("static", "style.css").read_text("utf-8")
    return report.style_sheet() + own
