"""Frozen crawls know their servers by ports that somebody else may have by now, be it another run:
in this process, other ports stand for them. The frozen bytes stay as they are."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.frozen.worlds import PORTS
from tests.support.servers import free_port


@pytest.fixture(autouse=True)
def other_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {port: free_port() for port in PORTS}
    known = {port: frozen for frozen, port in taken.items()}
    for name in ("bind", "connect", "connect_ex"):
        call = getattr(socket.socket, name)
        monkeypatch.setattr(socket.socket, name, _to(call, taken))
    for name in ("getsockname", "getpeername"):
        look = getattr(socket.socket, name)
        monkeypatch.setattr(socket.socket, name, _from(look, known))


def _to(call: Callable[..., Any], ports: Mapping[int, int]) -> Callable[..., Any]:
    return lambda self, address: call(self, _moved(address, ports))


def _from(look: Callable[..., Any], ports: Mapping[int, int]) -> Callable[..., Any]:
    return lambda self: _moved(look(self), ports)


def _moved(address: Any, ports: Mapping[int, int]) -> Any:
    """Of the Internet; other families have other addresses."""
    if isinstance(address, tuple) and len(address) >= 2 and address[1] in ports:
        return (address[0], ports[address[1]], *address[2:])
    return address
