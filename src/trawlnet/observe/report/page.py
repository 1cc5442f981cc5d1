"""The page around a report: one file that loads nothing, and prints as well as it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from trawlnet.observe.report.html import Html, joined, tag, tile


@dataclass(frozen=True, slots=True)
class Tile:
    name: str
    value: str
    kind: str = ""  # good, wait, bad; empty for neither.


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    lead: str  # One sentence on what was read, and when.
    tiles: Sequence[Tile]
    figures: Sequence[Html]


def render(report: Report) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", report.title),
        # Ours, and never a stranger's: it is not escaped.
        Html(f"<style>{_style()}</style>"),
    )
    tiles = [tile(one.name, one.value, one.kind) for one in report.tiles]
    body = tag(
        "body",
        tag("header", tag("h1", report.title), tag("p", report.lead, class_="lead")),
        tag("main", tag("dl", *tiles, class_="tiles"), *report.figures),
        tag("footer", "Made by trawlnet. This file loads nothing from anywhere."),
    )
    return "<!doctype html>\n" + tag("html", joined(head, body), lang="en") + "\n"


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@cache
def _style() -> str:
    return files("trawlnet.observe.report").joinpath("style.css").read_text("utf-8")
