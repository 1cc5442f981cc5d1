"""HTML as nested calls: whatever is put in is escaped, unless it came out of here."""

from __future__ import annotations

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


def joined(*children: object) -> Html:
    return Html("".join(text(child) for child in children))


def _attribute(value: object) -> str:
    # No thousands here: an attribute's number is for a program.
    return value if isinstance(value, Html) else escape(str(value), quote=True)


_VOID = frozenset(("meta", "br", "link", "input"))
