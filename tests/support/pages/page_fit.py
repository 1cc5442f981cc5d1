"""Pages with figures and names drawn at random, and what does not fit on them, by the DOM."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from trawlnet.engine.outcome import Reason
from trawlnet.observe.dashboard import page, parts
from trawlnet.observe.dashboard.app import style_sheet
from trawlnet.observe.dashboard.charts import pictures
from trawlnet.observe.dashboard.events import Face, Question
from trawlnet.observe.dashboard.following import following
from trawlnet.observe.dashboard.lanes import LaneQuery, choose
from trawlnet.observe.dashboard.place import (
    Action,
    CrawlCondition,
    CrawlerFacts,
    CrawlView,
    Draw,
    Panel,
)
from trawlnet.observe.history import Sample
from trawlnet.observe.lane_table import LaneRow, LaneTable
from trawlnet.observe.reports import chart
from trawlnet.observe.reports.page import Report, Tile, render

NOW = 1_800_000_000.0
_WORDS = ("a", "of", "records", "repositories", "unavailable", "discovered", "queue", "on hosts")

# Every text that is cut, leaves its box, or is broken within a word that would fit on a line.
MISFITS = r"""
const wrong = [];
const say = (what, e, more) => wrong.push(`${what}: ${e.tagName}.${e.className?.baseVal ??
  e.className} "${(e.textContent || '').slice(0, 60)}" ${more ?? ''}`);
const scrolls = e => { for (; e; e = e.parentElement)
  if (/auto|scroll/.test(getComputedStyle(e).overflowX)) return true; return false; };
const texts = 'dt, dd, th, td, h1, h2, p, li, button, a, span, label';
for (const e of document.querySelectorAll(texts)) {
  if (!e.getClientRects().length || e.closest('.hidden, .skip, [hidden]')) continue;
  if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth && !scrolls(e)) say('cut', e);
}
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; node = walk.nextNode();) {
  const e = node.parentElement;
  const unseen = 'svg, script, style, .hidden, .skip, [hidden], select, details:not([open])';
  if (e.closest(unseen)) continue;
  for (const word of node.data.matchAll(/\p{N}[\p{N},.]*|[\p{L}\p{N}]+/gu)) {
    if (word[0].length > 16) continue;  // No screen has room for any name.
    const range = document.createRange();
    range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
    const tops = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
    if (tops.size > 1) say('broken', e, word[0]);
  }
}
for (const figure of document.querySelectorAll('figure')) {
  const box = figure.getBoundingClientRect();
  for (const t of figure.querySelectorAll('svg text')) {
    const r = t.getBoundingClientRect();
    if (!r.width) continue;
    const inside = t.closest('.scroll') && scrolls(t.closest('.scroll'));
    if (!inside && (r.left < box.left - 1 || r.right > box.right + 1)) say('outside', t);
    const svg = t.closest('svg').getBoundingClientRect();
    if (inside && (r.left < svg.left - 1 || r.right > svg.right + 1)) say('outside', t);
  }
  for (const svg of figure.querySelectorAll('svg')) {
    const names = [...svg.querySelectorAll('.name')].map(t => t.getBoundingClientRect())
      .filter(r => r.width);
    names.slice(1).forEach((r, n) => { if (r.left < names[n].right) say('overlap', svg, r.left); });
  }
}
if (document.documentElement.scrollWidth > innerWidth) say('too wide', document.body);
return wrong;
"""


def any_number(rng: random.Random) -> int:
    return rng.choice((0, rng.randrange(10 ** rng.randrange(1, 13))))


def any_name(rng: random.Random) -> str:
    label = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789-", k=rng.randrange(1, 30)))
    return ".".join([label] * rng.randrange(1, 4)) + ".example:8443"


def dashboard_page(rng: random.Random) -> str:
    look = _look(rng)
    question = Question("repos", LaneQuery(), rng.choice(("hour", "day", "season")))
    chosen = choose(look.lanes.rows, question.wish)
    told = CrawlerFacts(
        {"total_crawled": any_number(rng), "directory": any_name(rng)}, _panels(rng)
    )
    made = {
        "standing": parts.standing(look),
        "fresh": parts.freshness(look),
        "actions": parts.actions(look),
        "tiles": parts.tiles(look),
        "counts": parts.queue(look),
        "reasons": parts.reasons(look),
        "panels": parts.panels(told),
        "live": following(_live(rng)),
        "facts": parts.facts(told),
        "lane-heads": parts.lane_heads(question.wish, question.query),
        "lane-pages": parts.lane_pages(look, chosen, question.wish, question.query),
    }
    charts = pictures("ids", _samples(rng), question.span)
    made |= {f"chart-{name}": picture for name, picture in charts.items()}
    face = Face(look, made, parts.lane_rows(chosen.rows), rng.random() < 0.5)
    html = page.dashboard(face, question, ["repos", "pds", "ids", "web"], "/srv/net", "Resumed.")
    sheet = f"<style>{style_sheet()}</style>"
    return html.replace('<link rel="stylesheet" href="/static/style.css">', sheet)


def report_page(rng: random.Random) -> str:
    rows = [(any_name(rng), float(any_number(rng))) for _ in range(9)]
    days = [(f"2026-{n // 28 + 1:02}-{n % 28 + 1:02}", float(any_number(rng))) for n in range(90)]
    records = chart.ExtraColumn("records", "a day")
    return render(
        Report(
            "What came home",
            "Read from /srv/net/archive.",
            [Tile(" ".join(rng.choices(_WORDS, k=2)), f"{any_number(rng):,}") for _ in range(7)],
            [
                chart.bars("By collection", rows, chart.ExtraColumn("records"), first="collection"),
                chart.columns("By day", days, records, first="day"),
                chart.lines("Over time", [day for day, _ in days], {"a": [n for _, n in days]}, ""),
            ],
        )
    )


def saved(folder: Path, html: str) -> str:
    path = folder / "page.html"
    path.write_text(html, "utf-8")
    return path.as_uri()


def _look(rng: random.Random) -> CrawlView:
    words = rng.sample(list(Reason), 8)
    counts = {
        **{key: any_number(rng) for key in ("known", "open", "leased", "waiting", "scheduled")},
        "blocked": any_number(rng),
        "settled": {str(word): any_number(rng) for word in words},
        "attempts": {str(word): any_number(rng) for word in words},
    }
    figures = {
        **{key: any_number(rng) for key in ("rate", "in_flight", "workers", "memory", "disk_free")},
        "lag_p20_s": rng.random() * 10 ** rng.randrange(8),
        "ids_per_s": rng.random() * 10 ** rng.randrange(6),
        "error_fraction": rng.random(),
        "with_chive_records": any_number(rng),
    }
    rows = [_lane(rng) for _ in range(30)]
    return CrawlView(
        crawler="repos",
        now=NOW,
        standing=rng.choice(
            (CrawlCondition.RUNNING, CrawlCondition.PAUSED, CrawlCondition.CUT_SHORT)
        ),
        who=f"pid {any_number(rng)}",
        as_of=NOW - 1.0,
        counts=counts,
        figures=figures,
        lanes=LaneTable(rows, left_out=any_number(rng)),
        yields={"repos": any_number(rng), "records": any_number(rng), "bytes": any_number(rng)},
        eta=rng.random() * 10 ** rng.randrange(9),
        actions=(Action.PAUSE, Action.DRAIN),
    )


def _live(rng: random.Random) -> dict[str, Any]:
    counted = ("commits", "verified", "desynchronized", "resyncs", "events", "gaps", "comparing")
    upstreams = {
        any_name(rng): {"connected": rng.random() < 0.5, "seconds_behind": any_number(rng)}
        for _ in range(5)
    }
    return {key: any_number(rng) for key in counted} | {
        "seconds_behind": any_number(rng),
        "commits_per_s": rng.random() * 10 ** rng.randrange(5),
        "rejected": {"bad_signature": any_number(rng), "wrong_prev_data": any_number(rng)},
        "resyncs_begun": {"broken_chain": any_number(rng), "new_account": any_number(rng)},
        "resyncs_ended": {"fetched": any_number(rng)},
        "waiting": {"frames": any_number(rng), "bytes": any_number(rng)},
        "upstreams": upstreams,
        "troubles": {host: " ".join(rng.choices(_WORDS, k=20)) for host in upstreams},
    }


def _lane(rng: random.Random) -> LaneRow:
    condition = rng.choice(("healthy", "slowed", "parked", "blocked"))
    parked = NOW + rng.randrange(3600) if condition == "parked" else None
    why, last = rng.choices(list(Reason), k=2)
    return LaneRow(
        any_name(rng), condition, rng.random() * 100, rng.randrange(99), parked, str(why),
        any_number(rng), str(last),
    )  # fmt: skip


def _panels(rng: random.Random) -> list[Panel]:
    names = [(any_name(rng), any_number(rng)) for _ in range(6)]
    return [
        Panel("Frontier by host", ["host", "open"], names, Draw.BARS, "What is open, by host"),
        Panel("Frontier by depth", ["depth", "open"], names, Draw.COLUMNS, "By depth"),
        Panel(
            "Shards", ["shard", "lanes", "open", "done", "state"],
            [(n, any_number(rng), any_number(rng), any_number(rng), "alive") for n in range(4)],
        ),
    ]  # fmt: skip


def _samples(rng: random.Random) -> list[Sample]:
    scale = 10 ** rng.randrange(10)
    keys = ("done", "attempts", "errors", "open", "blocked", "in_flight", "workers", "memory")
    more = ("disk_free", "lag_p20_s", "fraction_404", "error_fraction", "commits", "verified")
    return [
        Sample(NOW - 3600 + 30 * n, {key: rng.random() * scale for key in (*keys, *more)})
        for n in range(rng.choice((2, 12, 120)))
    ]
