"""Paths without end: a calendar, a maze, session ids and facets; they lead only to each other."""

from __future__ import annotations

import re
import zlib

_FACETS = ("color=red", "color=blue", "size=s", "size=m", "sort=up", "sort=down", "view=grid")
_MONTH = re.compile(r"/calendar/(\d{1,6})/(\d{2})")
_DEEPEST = 4000  # Characters; a server has a limit for paths, too.


def trap_page(raw_path: str) -> str | None:
    """The page behind a trap's path, or None where even the trap has nothing."""
    if len(raw_path) > _DEEPEST:
        return None
    if raw_path.startswith("/calendar/"):
        hrefs = _months(raw_path)
    elif raw_path.startswith("/maze/"):
        here = raw_path.partition("?")[0].rstrip("/")
        hrefs = [f"{here}/a/", f"{here}/b/", f"{here}/a/b/a/b/"]
    elif raw_path.startswith("/session/"):
        hrefs = _sessions(raw_path)
    else:
        hrefs = _facets(raw_path)
    if hrefs is None:
        return None
    anchors = "".join(f'<a href="{href}">on</a>\n' for href in ("/", *hrefs))
    return f"<!doctype html>\n<html><body>\n<h1>More</h1>\n{anchors}</body></html>\n"


def _months(path: str) -> list[str] | None:
    found = _MONTH.fullmatch(path)
    if found is None:
        return None
    month = int(found[1]) * 12 + int(found[2]) - 1
    return [f"/calendar/{m // 12}/{m % 12 + 1:02}" for m in (month - 1, month + 1, month + 12)]


def _sessions(path: str) -> list[str]:
    # The server forgets whom it met: every page of every visit gives out new session ids.
    mark = zlib.crc32(path.encode("utf-8", "surrogatepass"))
    return [f"/session/item/{n}?sid={zlib.crc32(b'%d %d' % (mark, n)):08x}" for n in range(1, 6)]


def _facets(path: str) -> list[str]:
    chosen = path.partition("?")[2].replace("&amp;", "&").split("&")[-11:]
    return [f"/facets?{'&amp;'.join([*chosen, extra])}" for extra in _FACETS]
