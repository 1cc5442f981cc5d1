"""The compiled code, where there is any; everything it does has a twin in plain Python."""

from __future__ import annotations

import importlib
import os
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import zstandard

_LEXBOR = 3  # The major version whose functions `_page` knows.


def _load(name: str) -> ModuleType | None:
    """None where nothing was compiled; TRAWLNET_NATIVE=0 asks for that, =require forbids it."""
    wish = os.environ.get("TRAWLNET_NATIVE")
    if wish == "0":
        return None
    try:
        return importlib.import_module(f"trawlnet.formats.{name}")
    except ImportError:
        if wish == "require":
            raise
        return None


def page_reader() -> ModuleType | None:
    """The reader of pages, on top of the Lexbor that selectolax brings along."""
    found = _load("_page")
    if found is None:
        return None
    lexbor = importlib.import_module("selectolax.lexbor")
    version = getattr(lexbor, "LEXBOR_VERSION_MAJOR", None)
    missing = found.load(lexbor.__file__) if version == _LEXBOR else f"Lexbor {_LEXBOR}"
    if missing and os.environ.get("TRAWLNET_NATIVE") == "require":
        raise ImportError(f"the compiled reader of pages finds no {missing}")
    return None if missing else found


native = _load("_native")


def block_encoder() -> Any:
    """The type that packs blocks, or None. Its zstd is the one in zstandard's part for interpreters
    other than this one: the part for this one lets nobody else call it."""
    if native is None:
        return None
    spec = find_spec("zstandard._cffi")
    found = native.load_zstd(spec.origin) if spec and spec.origin else "zstandard._cffi"
    major, minor, patch = zstandard.ZSTD_VERSION
    if found == 10_000 * major + 100 * minor + patch:
        return native.BlockEncoder
    if os.environ.get("TRAWLNET_NATIVE") == "require":
        raise ImportError(f"the compiled packer of blocks finds no zstd as zstandard's: {found}")
    return None
