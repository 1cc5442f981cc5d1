"""Frozen crawls know their servers by ports that somebody else may have by now, be it another run:
other ports stand for them. The frozen bytes stay as they are."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any


def move_ports(taken: Mapping[int, int], put: Callable[[type, str, Any], None]) -> None:
    """In this process, from now on; `put` sets an attribute of a class."""
    known = {port: frozen for frozen, port in taken.items()}
    for name in ("bind", "connect", "connect_ex"):
        put(socket.socket, name, _to(getattr(socket.socket, name), taken))
    for name in ("getsockname", "getpeername"):
        put(socket.socket, name, _from(getattr(socket.socket, name), known))


def _to(call: Callable[..., Any], ports: Mapping[int, int]) -> Callable[..., Any]:
    return lambda self, address: call(self, _moved(address, ports))


def _from(look: Callable[..., Any], ports: Mapping[int, int]) -> Callable[..., Any]:
    return lambda self: _moved(look(self), ports)


def _moved(address: Any, ports: Mapping[int, int]) -> Any:
    """Of the Internet; other families have other addresses."""
    if isinstance(address, tuple) and len(address) >= 2 and address[1] in ports:
        return (address[0], ports[address[1]], *address[2:])
    return address
