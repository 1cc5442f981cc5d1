"""The pages as whole documents: the dashboard, the question before a deed, the way in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from trawlnet.observe.dashboard.charts import SPANS
from trawlnet.observe.dashboard.events import Face, Question
from trawlnet.observe.dashboard.place import Deed, Order
from trawlnet.observe.lanes import LaneCondition
from trawlnet.observe.report.html import Html, joined, tag

_ABOUT: Mapping[Deed, tuple[str, str]] = {
    Deed.PAUSE: (
        "Pause",
        "What is in flight is finished; then nothing new is asked for, until you resume.",
    ),
    Deed.RESUME: ("Resume", "The crawl goes on where it paused."),
    Deed.DRAIN: (
        "Drain",
        "What is in flight is finished and saved; then the crawl ends. Run it again to go on.",
    ),
    Deed.STOP: (
        "Stop",
        "All of it ends at once; what is in flight is done again. Run it again to go on.",
    ),
    Deed.RETRY: ("Retry", "Keys that were given up on are open again, as if they were new."),
}


# The charts before the table of hosts, and after it.
_FIRST, _LAST = ("throughput", "queue", "lag", "missing"), ("crew", "memory", "disk")


def dashboard(
    face: Face, question: Question, crawlers: Sequence[str], name: str, notice: str
) -> str:
    """With every figure in it: without a script it is a still picture."""
    parts = face.parts
    middle = (_part("exhibits", parts, "div", class_="exhibits"), _lanes(face, question))
    main = tag(
        "main",
        tag("p", notice, class_="notice", role="status") if notice else "",
        tag(
            "section",
            tag("h1", f"{question.crawler} crawl"),
            _part("standing", parts, "p", role="status"),
            _part("fresh", parts, "p", class_="soft small"),
            _part("deeds", parts, "form", method="get", action="/ask", class_="buttons"),
            class_="top",
            aria_label="How it stands",
        ),
        _part("tiles", parts, "dl", class_="tiles"),
        _spans(question),
        *(_part(f"chart-{key}", parts, "div") for key in _FIRST if f"chart-{key}" in parts),
        _titled("Attempts by result", "reasons", parts, "Over all runs.", class_="two"),
        *(middle if face.leads else reversed(middle)),
        *(_part(f"chart-{key}", parts, "div") for key in _LAST if f"chart-{key}" in parts),
        _titled("Keys by state", "counts", parts, "As the store has them."),
        _titled(
            "In the crawler's own terms", "facts", parts, "The same as the status command tells."
        ),
        id="main",
    )
    return _document(f"{question.crawler}: {name}", _nav(question.crawler, crawlers, name), main)


def ask(order: Order, stamp: str, crawlers: Sequence[str], name: str) -> str:
    """Nothing is done before this is answered."""
    verb, words = _ABOUT[order.deed]
    what = f"the {order.crawler} crawl"
    if order.deed is Deed.RETRY:
        what = f"what ended in {order.reason}" if order.reason else "everything that failed"
    fields = {"crawler": order.crawler, "do": order.deed, "reason": order.reason or ""}
    back = f"/?{urlencode({'crawler': order.crawler})}"
    form = tag(
        "form",
        *(tag("input", type="hidden", name=key, value=value) for key, value in fields.items()),
        tag("input", type="hidden", name="stamp", value=stamp),
        tag("button", f"Yes, {order.deed}", type="submit", class_="main", id="yes"),
        tag("a", "No, go back", href=back, class_="button"),
        method="post",
        action="/order",
        class_="buttons",
    )
    main = tag(
        "main",
        tag("section", tag("h1", f"{verb} {what}?"), tag("p", words), form, class_="card lone"),
        id="main",
    )
    return _document(f"{verb}?", _nav(order.crawler, crawlers, name), main)


def enter(failed: bool) -> str:
    form = tag(
        "form",
        tag("label", "Token", for_="token"),
        tag(
            "input",
            type="password",
            name="token",
            id="token",
            autocomplete="current-password",
            required="",
            aria_describedby="told" if failed else None,
        ),
        tag("button", "Open", type="submit", class_="main"),
        method="post",
        action="/enter",
        class_="buttons",
    )
    told = tag("p", "That is not the token.", id="told", role="alert", class_="bad")
    words = "This dashboard opens with the token that it was started with."
    section = tag(
        "section", tag("h1", "Dashboard"), tag("p", words), told if failed else "", form,
        class_="card lone",
    )  # fmt: skip
    return _document("Dashboard", Html(""), tag("main", section, id="main"))


def trouble(title: str, words: str) -> str:
    section = tag(
        "section",
        tag("h1", title),
        tag("p", words),
        tag("p", tag("a", "To the dashboard", href="/")),
        class_="card lone",
    )
    return _document(title, Html(""), tag("main", section, id="main"))


def _document(title: str, nav: Html, main: Html) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("link", rel="stylesheet", href="/static/style.css"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tag("script", src="/static/live.js", defer=""),
    )
    skip = tag("a", "Skip to the content", href="#main", class_="skip")
    noscript = tag("noscript", "Without JavaScript the figures stand still: reload for newer ones.")
    foot = tag(
        "footer", noscript, tag("p", "Times are UTC. This page loads nothing from elsewhere.")
    )
    body = tag("body", skip, tag("header", _brand(), nav), main, foot)
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _brand() -> Html:
    waves = tag(
        "path", d="M4 9c4 4 8 4 12 0s8-4 12 0M4 17c4 4 8 4 12 0s8-4 12 0M4 25c4 4 8 4 12 0s8-4 12 0"
    )
    mark = tag("svg", waves, viewBox="0 0 32 32", aria_hidden="true", class_="mark")
    return tag("a", mark, "trawlnet", href="/", class_="brand")


def _nav(crawler: str, crawlers: Sequence[str], name: str) -> Html:
    links = [
        tag(
            "a",
            one,
            href=f"/?{urlencode({'crawler': one})}",
            aria_current="page" if one == crawler else None,
        )
        for one in crawlers
    ]
    return joined(tag("span", name, class_="workspace"), tag("nav", *links, aria_label="Crawlers"))


def _part(key: str, parts: Mapping[str, Html], name: str, **attributes: object) -> Html:
    return tag(name, parts[key], id=f"part-{key}", **attributes)


def _titled(
    title: str, key: str, parts: Mapping[str, Html], note: str, class_: str | None = None
) -> Html:
    caption = tag("figcaption", tag("h2", title), tag("p", note))
    return tag("figure", caption, _part(key, parts, "div", class_="scroll"), class_=class_)


def _spans(question: Question) -> Html:
    links = [
        tag(
            "a",
            words,
            href=f"/?{urlencode({'crawler': question.crawler, 'span': span})}",
            aria_current="true" if span == question.span else None,
        )
        for span, (words, _) in SPANS.items()
    ]
    return tag("nav", *links, class_="spans", aria_label="Time that the charts show")


def _lanes(face: Face, question: Question) -> Html:
    wish, parts = question.wish, face.parts
    options = [
        tag("option", word or "any", value=word, selected="" if word == wish.condition else None)
        for word in ("", *LaneCondition)
    ]
    kept = {**question.kept, "sort": wish.sort, "down": str(int(wish.down))}
    form = tag(
        "form",
        *(tag("input", type="hidden", name=key, value=value) for key, value in kept.items()),
        tag(
            "label",
            "Name contains ",
            tag("input", type="search", name="q", id="q", value=wish.contains),
        ),
        tag("label", "State ", tag("select", *options, name="condition", id="condition")),
        tag("button", "Filter", type="submit", id="filter"),
        method="get",
        action="/#lanes",
        class_="filter",
        role="search",
        id="lane-filter",
    )
    table = tag(
        "table",
        _part("lane-heads", parts, "thead"),
        tag("tbody", *face.lanes.values(), id="lane-rows"),
        class_="lanes",
    )
    region = tag("div", table, class_="scroll", role="region", tabindex=0, aria_label="Hosts")
    caption = tag(
        "figcaption",
        tag("h2", "Hosts"),
        tag("p", "Each is asked at its own pace: how fast now, and what holds it up."),
    )
    pages = _part("lane-pages", parts, "div", class_="pages")
    return tag("figure", caption, form, region, pages, id="lanes", class_="wide")
