"""The compiled code, where there is any; everything it does has a twin in plain Python."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

# The version of Lexbor whose functions `_page` knows. It has none of its headers: what a function
# takes and gives may change with any other, and the name would still be found.
_LEXBOR = (3, 1)
_WITHOUT_EVENTS = 1  # As _page has it.
# A page that says how each function is used, and what the reader finds on it.
_SPECIMEN = (
    b"<base href=/b><p>one <a rel=nofollow href='/x?y'>two <b>three</b></a> four<iframe src=z>"
)
_FOUND = (
    [("/x?y", "a", True, "two three", "one two three four"), ("z", "iframe", False, "", "")],
    [(0, "base", {"href": "/b"})],
)


troubles: dict[str, str] = {}  # What was compiled and does not load, and why; for `doctor`.


def _load(name: str) -> ModuleType | None:
    """None where nothing was compiled; TRAWLNET_NATIVE=0 asks for that, =require forbids it."""
    wish = os.environ.get("TRAWLNET_NATIVE")
    if wish == "0":
        return None
    try:
        return importlib.import_module(f"trawlnet.native.{name}")
    except ImportError as error:
        if wish == "require":
            raise
        if not isinstance(error, ModuleNotFoundError):
            troubles[name] = str(error)
        return None


def page_reader() -> ModuleType | None:
    """The reader of pages, on top of the Lexbor that selectolax brings along."""
    found = _load("_page")
    if found is None:
        return None
    missing = _lacking(found, importlib.import_module("selectolax.lexbor"))
    if missing and os.environ.get("TRAWLNET_NATIVE") == "require":
        raise ImportError(f"the compiled reader of pages finds no {missing}")
    return None if missing else found


def _lacking(reader: Any, lexbor: Any) -> str | None:
    """What keeps the reader from using this Lexbor, or None."""
    known = ".".join(map(str, _LEXBOR))
    version = tuple(getattr(lexbor, f"LEXBOR_VERSION_{part}", None) for part in ("MAJOR", "MINOR"))
    if version != _LEXBOR:
        return f"Lexbor {known}"
    if lexbor.LexborDocumentOptions.WO_EVENTS.value != _WITHOUT_EVENTS:
        return f"option WO_EVENTS as Lexbor {known} numbers it"
    missing: str | None = reader.load(lexbor.__file__)
    if missing is None and reader.elements(_SPECIMEN, 0b1111111, 9, True, True, 999) != _FOUND:
        return f"Lexbor that reads a page as {known} does"
    return missing


native = _load("_repo")


# Whether zstd was found when the package was built: then it packs blocks, and is the only one.
has_zstd = hasattr(native, "ZSTD_VERSION")
if native is not None and not has_zstd and os.environ.get("TRAWLNET_NATIVE") == "require":
    raise ImportError("the compiled code was built without zstd")


def block_encoder() -> Any:
    """The type that packs blocks, or None."""
    return native.BlockEncoder if native is not None and has_zstd else None
