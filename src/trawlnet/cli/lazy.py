"""The one loader: the module of a command is imported when the command is named, not before."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """What `package.module:name` names; imports the module."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
