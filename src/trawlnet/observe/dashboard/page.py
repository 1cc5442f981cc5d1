"""The pages as whole documents: the dashboard, the confirmation of a command, the login."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trawlnet.observe.dashboard.charts import SPANS
from trawlnet.observe.dashboard.events import Face, Question
from trawlnet.observe.dashboard.place import Action, ActionOrder
from trawlnet.observe.lanes import LaneCondition
from trawlnet.observe.reports.html import render

_ABOUT: Mapping[Action, str] = {
    Action.PAUSE: "Tasks in flight finish; no new task starts until you resume the crawl.",
    Action.RESUME: "The crawl continues where it paused.",
    Action.DRAIN: "Tasks in flight finish and are saved; then the crawl exits. Run the command"
    " again to continue.",
    Action.STOP: "Every process exits immediately; tasks in flight start again later. Run the"
    " command again to continue.",
    Action.RETRY: "These keys become open again, as if they were new.",
}


def dashboard(
    face: Face, question: Question, crawlers: Sequence[str], name: str, notice: str
) -> str:
    wish = question.wish
    return render(
        __package__,
        "dashboard.html",
        title=f"{question.crawler}: {name}",
        crawler=question.crawler,
        crawlers=crawlers,
        name=name,
        notice=notice,
        parts=face.parts,
        lanes=face.lanes,
        leads=face.leads,
        spans=SPANS,
        span=question.span,
        wish=wish,
        query={**question.query, "sort": wish.sort, "down": str(int(wish.down))},
        conditions=("", *LaneCondition),
    )


def ask(order: ActionOrder, stamp: str, crawlers: Sequence[str], name: str) -> str:
    what = f"the {order.crawler} crawl"
    if order.action is Action.RETRY:
        what = f"keys that ended in {order.reason}" if order.reason else "all keys that failed"
    fields = {"crawler": order.crawler, "do": order.action, "reason": order.reason or ""}
    verb = order.action.capitalize()
    return render(
        __package__,
        "ask.html",
        title=f"{verb}?",
        heading=f"{verb} {what}?",
        words=_ABOUT[order.action],
        action=order.action,
        fields={**fields, "stamp": stamp},
        crawler=order.crawler,
        crawlers=crawlers,
        name=name,
    )


def enter(failed: bool) -> str:
    return render(__package__, "enter.html", title="Dashboard", failed=failed)


def trouble(title: str, words: str) -> str:
    return render(__package__, "trouble.html", title=title, words=words)
