"""HTML from templates: whatever is put into one is escaped, unless it came out of one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from string import Template


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def fill(name: str, /, **values: object) -> Markup:
    """The template `templates/<name>.html`, its `$names` replaced."""
    shown = {
        key: value if isinstance(value, Markup) else _safe(value) for key, value in values.items()
    }
    return Markup(_template(name).substitute(shown))


def joined(pieces: Iterable[Markup]) -> Markup:
    return Markup("".join(pieces))


def _safe(value: object) -> str:
    # Hosts and errors come from strangers: quotes count, since values end up in attributes.
    return escape(f"{value:,}" if isinstance(value, int) else str(value), quote=True)


@cache
def _template(name: str) -> Template:
    return Template(packaged(f"templates/{name}.html").decode())


@cache
def packaged(path: str) -> bytes:
    """A file that comes with the program."""
    return files("trawlnet.crawlers.pds.web").joinpath(path).read_bytes()
