"""The page around a report: one file without external resources, also fit for printing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from markupsafe import Markup

from trawlnet.observe.reports import html


@dataclass(frozen=True, slots=True)
class Tile:
    name: str
    value: str
    kind: str = ""  # good, wait, bad; empty for neither.


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    lead: str  # One sentence about the data and their date.
    tiles: Sequence[Tile]
    figures: Sequence[Markup]


def render(report: Report) -> str:
    style = Markup(style_sheet())  # noqa: S704 - ours, and never a stranger's.
    return html.render(__package__, "report.html", report=report, style=style)


@cache
def style_sheet() -> str:
    return html.figure_styles() + files(__package__).joinpath("style.css").read_text("utf-8")
