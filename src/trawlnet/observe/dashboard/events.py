"""The event stream of a viewer: first the whole page, then the changes, once a second."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from trawlnet.observe.dashboard import parts
from trawlnet.observe.dashboard.board import Board
from trawlnet.observe.dashboard.charts import SPANS, pictures
from trawlnet.observe.dashboard.following import following, live_of
from trawlnet.observe.dashboard.lanes import LaneQuery, choose, wish_of
from trawlnet.observe.dashboard.place import CrawlView

_EVERY = 1.0
_SILENCE = 15  # Seconds without a change after which a keep-alive is sent.


@dataclass(frozen=True, slots=True)
class Question:
    """The view of one viewer; all of it is in the URL of the page."""

    crawler: str
    wish: LaneQuery = field(default_factory=LaneQuery)
    span: str = "hour"

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters that links within the page must repeat."""
        return {"crawler": self.crawler, "span": self.span}


@dataclass(frozen=True, slots=True)
class Face:
    """The changing parts of the page at one instant."""

    look: CrawlView
    parts: Mapping[str, Markup]
    lanes: Mapping[str, Markup]  # Rows by id, in their order.
    leads: bool = False  # Whether the panels come before the hosts.


def question_of(query: Mapping[str, str], crawlers: Sequence[str]) -> Question:
    """Invalid parameters get the defaults, so that old links still work."""
    crawler, span = query.get("crawler", ""), query.get("span", "")
    return Question(
        crawler if crawler in crawlers else crawlers[0],
        wish_of(query),
        span if span in SPANS else "hour",
    )


async def face_of(board: Board, question: Question) -> Face:
    look = await board.look(question.crawler)
    about = await board.facts(question.crawler)
    samples = await board.history(look, question.span)
    chosen = choose(look.lanes.rows, question.wish)
    query = question.query
    made = {
        "standing": parts.standing(look),
        "fresh": parts.freshness(look),
        "actions": parts.actions(look),
        "tiles": parts.tiles(look),
        "counts": parts.queue(look),
        "reasons": parts.reasons(look),
        "panels": parts.panels(about),
        "facts": parts.facts(about),
        "lane-heads": parts.lane_heads(question.wish, query),
        "lane-pages": parts.lane_pages(look, chosen, question.wish, query),
    }
    if question.crawler == "repos":
        made["live"] = following(live_of(look, about))
    charts = dict(pictures(question.crawler, samples, question.span))
    if look.figures and "disk_free" not in look.figures:
        del charts["disk"]  # A fleet has many disks.
    made |= {f"chart-{name}": picture for name, picture in charts.items()}
    # A table of a single host shows nothing new.
    leads = about.leads or len(look.lanes.rows) <= 1
    return Face(look, made, parts.lane_rows(chosen.rows), leads)


def difference(old: Face | None, new: Face) -> dict[str, Any]:
    """Empty if nothing has changed. New rows come with the order of all rows."""
    if old is None:
        return {"parts": new.parts, "rows": new.lanes, "order": list(new.lanes)}
    change: dict[str, Any] = {}
    if fresh := _changed(old.parts, new.parts):
        change["parts"] = fresh
    if fresh := _changed(old.lanes, new.lanes):
        change["rows"] = fresh
    if list(old.lanes) != list(new.lanes):
        change["order"] = list(new.lanes)
    return change


def _changed(old: Mapping[str, Markup], new: Mapping[str, Markup]) -> dict[str, Markup]:
    return {name: html for name, html in new.items() if old.get(name) != html}


async def stream(
    board: Board, question: Question, closing: Callable[[], bool]
) -> AsyncIterator[str]:
    """Server-sent events, until the viewer leaves or the server ends."""
    face: Face | None = None
    silent = 0
    while not closing():
        now = await face_of(board, question)
        change = difference(face, now)
        face, silent = now, 0 if change else silent + 1
        if change:
            yield f"data: {json.dumps(change)}\n\n"
        elif silent % _SILENCE == 0:
            yield ": still here\n\n"
        await asyncio.sleep(_EVERY)
