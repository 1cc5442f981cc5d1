"""Stores for the contract tests: each kind made the same way, so that one suite fits all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import PostgresServer, RedisServer, postgres_server, redis_server
from trawlnet.engine.ports import KeyLedger
from trawlnet.stores.open import open_store

DURABLE_STORES = ("lmdb", "redis")
STORES = ("memory", *DURABLE_STORES)


@dataclass(frozen=True)
class StoreMaker:
    where: str
    prefix: str

    async def open(self, **options: Any) -> KeyLedger:
        return await open_store(self.where, prefix=self.prefix, **options)


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


def make(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> StoreMaker:
    """A maker that opens the same store each time it is asked."""
    where = {"memory": "memory:", "lmdb": str(tmp_path / "state")}.get(kind)
    if where is None:
        where = request.getfixturevalue("redis").url
    return StoreMaker(where, f"{tmp_path.name}:")


@pytest.fixture(params=STORES)
def maker(request: pytest.FixtureRequest, tmp_path: Path) -> StoreMaker:
    return make(request.param, request, tmp_path)


@pytest.fixture(params=DURABLE_STORES)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> StoreMaker:
    return make(request.param, request, tmp_path)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A relational database: a file that is not there yet, or a server."""
    if request.param == "sqlite":
        return tmp_path / "deep" / "tables.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url
