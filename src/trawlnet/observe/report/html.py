"""HTML as nested calls: whatever is put in is escaped, unless it came out of here."""

from __future__ import annotations

import re
from html import escape


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Remote names end up here: quotes count, since values end up in attributes."""
    if isinstance(value, Html):
        return value
    return Html(escape(f"{value:,}" if isinstance(value, int) else str(value), quote=True))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """`tag("a", "more", href=url)`; a trailing underscore is for names that Python keeps, and
    others stand for hyphens."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{shown}>")
    return Html(f"<{name}{shown}>{joined(*children)}</{name}>")


def breakable(name: str) -> Html:
    """A name that may be long, with the places at which a narrow screen may break it: after what
    separates its parts, and within a part only if that is too long for any line."""
    parts = (escape(part, quote=True) for part in _BREAKS.findall(name))
    return Html("<wbr>".join(parts).replace(" <wbr>", " "))  # Lines break at a blank anyway.


def tile(name: str, value: str, kind: str = "") -> Html:
    """A figure with its name; one that is long takes the room of two."""
    long = " long" if len(value) > _TILE_ROOM else ""
    return tag("div", tag("dt", name), tag("dd", value), class_=f"tile {kind}".rstrip() + long)


def joined(*children: object) -> Html:
    return Html("".join(text(child) for child in children))


def _attribute(value: object) -> str:
    # No thousands here: an attribute's number is for a program.
    return value if isinstance(value, Html) else escape(str(value), quote=True)


# At most so many characters without a place to break at; separators stay with what they end.
_BREAKS = re.compile(r"[^\s./:_?&=-]{1,16}[./:_?&=-]*\s*|[./:_?&=-]+\s*|\s+")
_TILE_ROOM = 9  # Characters of a figure that fit on a tile in any font.
_VOID = frozenset(("meta", "br", "link", "input"))
