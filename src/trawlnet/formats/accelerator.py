"""The compiled code, where there is any; everything it does has a twin in plain Python."""

from __future__ import annotations

import importlib
import os
from types import ModuleType


def _load() -> ModuleType | None:
    """None where nothing was compiled; TRAWLNET_NATIVE=0 asks for that, =require forbids it."""
    wish = os.environ.get("TRAWLNET_NATIVE")
    if wish == "0":
        return None
    try:
        return importlib.import_module("trawlnet.formats._native")
    except ImportError:
        if wish == "require":
            raise
        return None


native = _load()
