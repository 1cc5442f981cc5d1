"""A wake-up that cannot be missed between looking and waiting."""

from __future__ import annotations

import asyncio


class Wakeup:
    """Take `next` before looking at the state, then wait for it: any change since fires it."""

    def __init__(self) -> None:
        self.next = asyncio.Event()

    def fire(self) -> None:
        self.next.set()
        self.next = asyncio.Event()


async def wait(event: asyncio.Event, timeout: float | None) -> bool:
    """Until the event, or for so long; False when the time ran out."""
    try:
        async with asyncio.timeout(timeout):
            return await event.wait()
    except TimeoutError:
        return False
