"""HTML from Jinja templates: every value is escaped, unless it is `Markup` already.

A package keeps its templates in a folder `templates` beside its modules. The reports' templates are
found from every package, so that all pages share `figures.html`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, cast

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from trawlnet.observe.reports.numbers import number

_SHARED = __package__


def render(package: str, template: str, **values: Any) -> str:
    """A whole page."""
    return _environment(package).get_template(template).render(values)


class Macros(Protocol):
    """The macros of a template as functions."""

    def __getattr__(self, name: str) -> Callable[..., Markup]: ...


def macros(package: str, template: str) -> Macros:
    return cast(Macros, _environment(package).get_template(template).module)


@cache
def figure_styles() -> str:
    """The start of every style sheet: the palette, and the styles of `figures.html`."""
    return files(_SHARED).joinpath("figures.css").read_text("utf-8")


def breakable(name: str) -> Markup:
    """A name with the places at which a narrow screen may break it: after separators, and within a
    part only if it is too long for any line."""
    parts = (escape(part) for part in _BREAKS.findall(name))
    return Markup("<wbr>".join(parts).replace(" <wbr>", " "))  # noqa: S704 - each part is escaped.


# The most characters without a break; a separator stays with the part before it.
_BREAKS = re.compile(r"[^\s./:_?&=-]{1,16}[./:_?&=-]*\s*|[./:_?&=-]+\s*|\s+")


@cache
def _environment(package: str) -> Environment:
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(_SHARED)]),
        autoescape=True,
        undefined=StrictUndefined,  # A misspelled name is an error, not an empty text.
        auto_reload=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "breakable": breakable, "spaced": _spaced}
    return made


def _spaced(word: object) -> str:
    """`rate_limited` as `rate limited`."""
    return str(word).replace("_", " ")
