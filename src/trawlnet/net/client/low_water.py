"""How much of a long body must have come before its reader is woken.

A fast server and a fast reader make little of each other's company: the reader takes every packet
as it comes, and pays for each with a wake-up that costs more than the bytes. Under this mark the
kernel gathers them.
"""

from __future__ import annotations

import socket

_MOST = 1 << 20  # Bytes that the kernel is asked to hold for us.


class SocketLowWater:
    """Of a socket that is read as it is: where something in between decodes, as for TLS, it may
    hold back what we would wait for.

    The kernel wakes us earlier when it has no room for as much, and when the connection ends.
    """

    __slots__ = ("_mark", "_socket")

    def __init__(self, socket: socket.socket) -> None:
        self._socket = socket
        self._mark = 1

    def set(self, left: int) -> None:
        """So many bytes are still to come; none before anything is asked for."""
        mark = max(1, min(left, _MOST))
        if mark == self._mark:
            return
        self._mark = mark
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
        except (AttributeError, OSError):
            pass  # It is closed, which its reader hears from the transport; or there are no marks.
