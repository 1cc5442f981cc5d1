"""The event loop that commands run in: uvloop's where it is installed, else Python's own."""

from __future__ import annotations

import asyncio

try:
    from uvloop import new_event_loop
except ImportError:
    is_uvloop = False
    new_loop = asyncio.new_event_loop
else:
    is_uvloop = True
    new_loop = new_event_loop
