"""Pages for people: the overview, its form, and the description of the endpoint."""

from __future__ import annotations

from urllib.parse import parse_qs, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from trawlnet.crawlers.pds.site.answers import STATUS_OF
from trawlnet.crawlers.pds.site.context import SiteContext
from trawlnet.crawlers.pds.site.description import description
from trawlnet.crawlers.pds.site.endpoint import enter
from trawlnet.crawlers.pds.site.page import Notice, Search, overview, packaged, single
from trawlnet.crawlers.pds.site.register import Accepted, Declined, Fault
from trawlnet.crawlers.pds.site.requests import (
    RegistryFilter,
    address_of,
    body_of,
    filter_of,
    is_same_origin,
)
from trawlnet.observe.reports.html import figure_styles
from trawlnet.tables.registry.browse import BrowseQuery, Sort
from trawlnet.tables.registry.rules import as_shown

_ROWS = 25  # Rows of one page of results.
_MOST_FIELDS = 5
_KEPT = {"Cache-Control": "public, max-age=3600"}
_NOT_KEPT = {"Cache-Control": "no-cache"}


async def home(site: SiteContext, request: Request) -> Response:
    wanted = filter_of(request)
    notice = await _about(site, request.query_params.get("registered", ""))
    return await _overview(site, wanted, notice)


async def take_form(site: SiteContext, request: Request) -> Response:
    """Handle the form without scripts: redirect after a success, show an error in place."""
    if not is_same_origin(request):
        raise HTTPException(403, "The form must be sent from this site.")
    url = _field(await body_of(request, "application/x-www-form-urlencoded"), "pds_url")
    answer: Accepted | Declined
    if (wait := site.callers.take(address_of(request), site.service.clock.now())) > 0.0:
        answer = Declined(Fault.TOO_MANY, "Too many registrations; try again later.", wait)
    else:
        answer = await enter(site, url, None)
    if not isinstance(answer, Declined):
        query = urlencode({"registered": answer.pds_url})
        return RedirectResponse(f"./?{query}#register", 303)
    notice = Notice(answer.message, good=False, value=url)
    return await _overview(site, RegistryFilter(), notice, STATUS_OF[answer.fault])


async def back_to_the_form(site: SiteContext, request: Request) -> Response:
    """Redirect a browser that reloads the address of a refused form."""
    return RedirectResponse("./#register", 303)


async def describe(site: SiteContext, request: Request) -> Response:
    return HTMLResponse(description(), headers=_KEPT)


async def style(site: SiteContext, request: Request) -> Response:
    sheet = figure_styles() + packaged("static/style.css").decode()
    return Response(sheet, media_type="text/css", headers=_KEPT)


async def icon(site: SiteContext, request: Request) -> Response:
    return Response(packaged("static/icon.svg"), media_type="image/svg+xml", headers=_KEPT)


async def _overview(
    site: SiteContext, wanted: RegistryFilter, notice: Notice | None, status: int = 200
) -> Response:
    figures = await site.board.read(site.service)
    found = await _search(site, wanted)
    return HTMLResponse(overview(figures, found, notice), status, _NOT_KEPT)


async def _search(site: SiteContext, wanted: RegistryFilter) -> Search:
    is_asked = wanted.contains or wanted.status or wanted.source or wanted.sort
    if not is_asked and wanted.page == 1:
        return Search()
    sort = wanted.sort or Sort.NAME
    wish = BrowseQuery(wanted.contains, wanted.status, wanted.source, sort, wanted.page, _ROWS)
    return Search(wish, await site.service.books.browse(wish))


async def one(site: SiteContext, request: Request) -> Response:
    """The page of one PDS."""
    url = request.query_params.get("url", "")
    row = await site.service.books.get(url) if url else None
    if row is None:
        raise HTTPException(404, "There is no such PDS in this registry.")
    now = site.service.clock.now()
    return HTMLResponse(single(as_shown(row, now), now), headers=_NOT_KEPT)


async def _about(site: SiteContext, url: str) -> Notice | None:
    """The message about a PDS, from the registry, so that no link can forge one."""
    row = await site.service.books.get(url) if url else None
    if row is None:
        return None
    return Notice(f"{row.pds_url} is registered. Its status: {row.status}.", good=True)


def _field(body: bytes, name: str) -> str:
    try:
        fields = parse_qs(body.decode("ascii"), errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    return fields.get(name, [""])[0].strip()
