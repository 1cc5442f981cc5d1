"""The one loader: what is an extra, or slow and seldom needed, is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """What `package.module:name` names, or the module itself; raises ImportError."""
    module, _, name = place.partition(":")
    found = import_module(module)
    return getattr(found, name) if name else found
