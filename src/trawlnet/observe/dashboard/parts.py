"""The parts of the page that change: each has a name, and is sent again only when it differs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from trawlnet.engine.outcome import Reason
from trawlnet.observe.dashboard.charts import drawn
from trawlnet.observe.dashboard.lanes import Chosen, Wish
from trawlnet.observe.dashboard.place import Deed, Look, Standing, Told
from trawlnet.observe.dashboard.words import (
    UNKNOWN,
    clock_time,
    figure,
    lasting,
    moment,
    name_of,
)
from trawlnet.observe.lane_table import LaneRow
from trawlnet.observe.report.chart import number
from trawlnet.observe.report.html import Html, breakable, joined, tag, text, tile

_KINDS = {
    Standing.RUNNING: "good",
    Standing.PAUSED: "wait",
    Standing.DRAINING: "wait",
    Standing.CUT_SHORT: "bad",
}
_COLUMNS: Mapping[str, str] = {
    "lane": "Host",
    "condition": "State",
    "rate": "Requests/s",
    "in_flight": "In flight",
    "parked_until": "Parked until",
    "why": "Why",
    "failures": "Failures in a row",
    "last_failure": "Last failure",
}
_NUMBERS = frozenset(("rate", "in_flight", "parked_until", "failures"))


def standing(look: Look) -> Html:
    """The one part that a screen reader is told about by itself."""
    word = tag("strong", str(look.standing), class_=f"pill {_KINDS.get(look.standing, '')}".strip())
    return joined(word, " ", tag("span", _story(look)))


def _story(look: Look) -> str:
    match look.standing:
        case Standing.NEVER:
            return "No crawl has begun here, or it cannot be asked."
        case Standing.ENDED:
            left = look.counts.get("open", 0) - look.counts.get("blocked", 0)
            more = f" {left:,} are open: run it again to go on." if left > 0 else ""
            return f"It has saved everything; this is how it stood at its end.{more}"
        case Standing.CUT_SHORT:
            return "It was killed, or stopped at once. Run it again, and it goes on from here."
        case Standing.DRAINING:
            return f"{look.who}: what is in flight is finished, then it ends."
        case Standing.PAUSED:
            return f"{look.who}: nothing new is asked for."
        case Standing.RUNNING:
            return look.who


def deeds(look: Look) -> Html:
    """All that any crawl can be told are on the page; those that make no sense now are hidden."""
    made = [
        tag(
            "button",
            str(deed).capitalize(),
            type="submit",
            name="do",
            value=deed,
            id=f"do-{deed}",
            hidden=None if deed in look.deeds else "",
        )
        for deed in Deed
        if deed is not Deed.RETRY
    ]
    return joined(tag("input", type="hidden", name="crawler", value=look.crawler), *made)


def freshness(look: Look) -> Html:
    if look.is_fresh:
        return text("Live.")
    if look.as_of is None:
        return text("There are no figures yet." if look.standing.at_work else "")
    return text(f"Figures as of {moment(look.as_of)}.")


def tiles(look: Look) -> Html:
    counts = look.counts
    settled = sum(counts.get("settled", {}).values())
    figures = look.figures
    rate = figures.get("rate") if look.is_fresh else None
    made = [
        tile("done", number(settled), "good"),
        tile("open", number(counts.get("open", 0))),
        tile("keys a second", UNKNOWN if rate is None else number(rate)),
    ]
    if look.standing.at_work:
        made.append(tile("time left", lasting(look.eta if look.is_fresh else None)))
        crew = f"{number(figures.get('in_flight', 0))} of {number(figures.get('workers', 0))}"
        made.append(tile("tasks in flight", crew))
    failed = sum(n for word, n in counts.get("attempts", {}).items() if not _is_answer(word))
    made.append(tile("failed attempts", number(failed), "bad" if failed else ""))
    if blocked := counts.get("blocked", 0):
        made.append(tile("blocked", number(blocked), "bad"))
    if memory := figures.get("memory"):
        made.append(tile("memory", figure("memory", memory)))
    if disk := figures.get("disk_free"):
        made.append(tile("disk left", figure("disk_free", disk), "bad" if disk < _LITTLE else ""))
    yields = look.yields
    made += [tile(_yield_name(key), figure(key, n)) for key, n in yields.items()]
    own = (key for key in figures if key not in yields and key not in _COMMON)
    made += [tile(name_of(key), figure(key, figures[key])) for key in own]
    return joined(*made)


def _yield_name(key: str) -> str:
    return f"PDSes {key}" if key in _OF_THE_REGISTRY else f"{name_of(key)}, this run"


_OF_THE_REGISTRY = frozenset(("scanning", "pending"))  # They come and go.
_LITTLE = 2e9  # Bytes of disk.
# What the history has of every crawl; the rest is in the terms of one.
_COMMON = frozenset(
    (
        *("done", "open", "blocked", "rate", "attempts", "errors", "in_flight", "workers"),
        *("memory", "disk_free"),
    )
)


def _is_answer(word: str) -> bool:
    return word in Reason.__members__.values() and Reason(word).answer


def queue(look: Look) -> Html:
    """Where every key is, and how it got there."""
    counts = look.counts
    rows = [
        tag(
            "tr",
            tag("th", words, scope="row"),
            tag("td", number(counts.get(key, 0)), class_="number"),
        )
        for key, words in _STATES.items()
    ]
    return tag("table", tag("tbody", *rows))


_STATES = {
    "known": "known",
    "open": "open: to be done",
    "leased": "leased: being worked on, of the open",
    "waiting": "waiting for their time, of the open",
    "blocked": "on a blocked host, of the open",
    "scheduled": "to be visited again",
}


def reasons(look: Look) -> Html:
    """Attempts, and keys by their final result; most frequent first."""
    attempts, settled = look.counts.get("attempts", {}), dict(look.counts.get("settled", {}))
    if look.counts.get("blocked"):
        settled[Reason.BLOCKED] = look.counts["blocked"]
    words = sorted({*attempts, *settled}, key=lambda word: (-attempts.get(word, 0), word))
    if not words:
        return tag("p", "Nothing was tried yet.", class_="soft")
    head = tag(
        "tr",
        *(tag("th", name, scope="col", class_=side) for name, side in _REASON_HEADS),
    )
    rows = [
        _reason(look.crawler, word, attempts.get(word, 0), settled.get(word, 0)) for word in words
    ]
    return tag("table", tag("thead", head), tag("tbody", *rows))


_REASON_HEADS = (
    ("result", None), ("attempts", "number"), ("final result of", "number"), ("", None),
)  # fmt: skip


def _reason(crawler: str, word: str, tries: int, last: int) -> Html:
    good = word in Reason.__members__.values() and Reason(word).success
    again: object = ""
    if last and not good:
        href = f"/ask?{urlencode({'crawler': crawler, 'do': 'retry', 'reason': word})}"
        again = tag("a", "retry", tag("span", f" {word}", class_="hidden"), href=href)
    return tag(
        "tr",
        tag("th", word.replace("_", " "), scope="row"),
        tag("td", number(tries), class_="number"),
        tag("td", number(last), class_="number"),
        tag("td", again, class_="act"),
    )


def exhibits(told: Told) -> Html:
    return joined(*map(drawn, told.exhibits))


def facts(told: Told) -> Html:
    """What `status` says besides, one line each."""
    rows = [
        tag("tr", tag("th", name_of(key), scope="row"), _fact(key, n))
        for key, n in told.facts.items()
        if n is None or isinstance(n, int | float | str)
    ]
    if not rows:
        return tag("p", "Nothing yet.", class_="soft")
    return tag("table", tag("tbody", *rows))


def _fact(key: str, value: object) -> Html:
    if isinstance(value, str):
        return tag("td", breakable(value))
    return tag("td", figure(key, value), class_="number")


def lane_heads(wish: Wish, kept: Mapping[str, str]) -> Html:
    """Links, so that sorting needs no script."""
    cells = []
    for key, name in _COLUMNS.items():
        down = not wish.down if key == wish.sort else key not in ("lane", "why", "last_failure")
        query = urlencode({**kept, **_asked(wish), "sort": key, "down": int(down), "page": 0})
        link = tag("a", name, href=f"/?{query}#lanes", data_live="")
        order = ("descending" if wish.down else "ascending") if key == wish.sort else None
        side = "number" if key in _NUMBERS else None
        cells.append(tag("th", link, scope="col", class_=side, aria_sort=order))
    return tag("tr", *cells)


def lane_pages(look: Look, chosen: Chosen, wish: Wish, kept: Mapping[str, str]) -> Html:
    """How many there are, and the way to the others."""
    words = f"{chosen.found:,} of {chosen.total:,} hosts"
    if look.lanes.left_out:
        words += f"; {look.lanes.left_out:,} more are not listed"
    parts: list[object] = [tag("span", words, class_="soft")]

    def step(name: str, page: int) -> Html:
        query = urlencode({**kept, **_asked(wish), "page": page})
        return tag("a", name, href=f"/?{query}#lanes", data_live="", id=f"lanes-{name.lower()}")

    if chosen.page > 0:
        parts.append(step("Previous", chosen.page - 1))
    if chosen.pages > 1:
        parts.append(tag("span", f"page {chosen.page + 1:,} of {chosen.pages:,}"))
    if chosen.page + 1 < chosen.pages:
        parts.append(step("Next", chosen.page + 1))
    return joined(*parts)


def _asked(wish: Wish) -> dict[str, str]:
    asked = {"q": wish.contains, "condition": wish.condition, "sort": wish.sort}
    return {key: value for key, value in asked.items() if value} | {"down": str(int(wish.down))}


def lane_key(row: LaneRow) -> str:
    """An id for the row that holds no stranger's text."""
    return "l" + hashlib.blake2b(row.lane.encode("utf-8", "replace"), digest_size=8).hexdigest()


def lane_row(row: LaneRow) -> Html:
    cells = [
        tag("th", breakable(row.lane), scope="row"),
        tag("td", tag("span", row.condition, class_=f"dot {_DOTS.get(row.condition, '')}")),
        tag("td", "no limit" if row.rate is None else number(row.rate), class_="number"),
        tag("td", number(row.in_flight), class_="number"),
        tag("td", _until(row), class_="number"),
        tag("td", row.why.replace("_", " ") if row.condition in ("parked", "blocked") else ""),
        tag("td", number(row.failures), class_="number"),
        tag("td", row.last_failure.replace("_", " ")),
    ]
    return tag("tr", *cells, id=lane_key(row))


_DOTS = {"healthy": "good", "slowed": "wait", "parked": "wait", "blocked": "bad"}


def _until(row: LaneRow) -> str:
    if row.condition == "blocked":
        return "a retry"
    return "" if row.parked_until is None else clock_time(row.parked_until)


def lane_rows(rows: Sequence[LaneRow]) -> Mapping[str, Html]:
    return {lane_key(row): lane_row(row) for row in rows}
