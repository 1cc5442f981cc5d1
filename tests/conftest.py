"""How tests are ordered and drawn, and the servers that a process of them shares."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:  # Its drivers are slow to load, and few tests need them.
    from tests.support.ids.sets import Servers

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# `make quick` draws a quarter of the examples of `make test`.
SHARE = 4 if os.environ.get("TRAWLNET_QUICK") else 1
OWN_SETTINGS = "_hypothesis_internal_use_settings"  # What `@settings` leaves at a test.

# The slowest first: a file is one process's, and whoever begins a slow one last is waited for.
FOLDERS = ("crash", "interop", "cli", "contract", "sim")


def pytest_collection() -> None:
    gc.disable()  # What is collected stays to the end ...


def pytest_collection_finish() -> None:
    gc.freeze()  # ... and need not be looked through for garbage again and again.
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(item.path.parent.name))
    if SHARE > 1:
        for test in {item.obj for item in items if isinstance(item, pytest.Function)}:
            _draw_less(test)


def _draw_less(test: Any) -> None:
    own = getattr(test, OWN_SETTINGS, None)
    if isinstance(own, settings):
        setattr(test, OWN_SETTINGS, settings(own, max_examples=max(5, own.max_examples // SHARE)))


def _rank(folder: str) -> int:
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """RabbitMQ, PostgreSQL and ClickHouse, once for all tests of a process that store ids."""
    from tests.support.ids.sets import store_servers

    with store_servers(tmp_path_factory.mktemp("clickhouse")) as running:
        yield running
