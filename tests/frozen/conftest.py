"""The servers of frozen crawls are on other ports than those that the crawls know."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.frozen.ports import move_ports
from tests.frozen.worlds import PORTS
from tests.support.servers import free_port


@pytest.fixture(autouse=True)
def other_ports(monkeypatch: pytest.MonkeyPatch) -> Mapping[int, int]:
    taken = {port: free_port() for port in PORTS}
    move_ports(taken, monkeypatch.setattr)
    return taken
