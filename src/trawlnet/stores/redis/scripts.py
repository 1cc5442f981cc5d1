"""Runs Lua scripts and commands under one prefix of a Redis server; maps errors to ours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from importlib import resources
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from trawlnet.stores.errors import Fenced, StateLost, StoreError, StoreUnreachable

SCAN_COUNT: Final = 500
_UNREACHABLE: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.BusyLoadingError,
    OSError,
)
_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 15.0
# Concurrent calls; each takes a connection, and the client has at most a hundred.
_CALLS: Final = 32
_RECONNECTS: Final = 4  # With pauses of 0.2 s to 1 s, which bridges a restart of the server.


def connect(url: str) -> Redis:
    return Redis.from_url(
        url,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.1), _RECONNECTS),
        socket_connect_timeout=_CONNECT_SECONDS,
        socket_timeout=_ANSWER_SECONDS,
    )


class Scripts:
    """Times come from the caller, except where several machines must agree on one."""

    def __init__(
        self, client: Redis, url: str, prefix: str, names: Iterable[str], token: str = ""
    ) -> None:
        self._client: Any = client
        self._calls = asyncio.Semaphore(_CALLS)
        self._prefix = prefix
        self._token = token  # Every script that changes a lane checks it.
        self._where = without_password(url)
        self._scripts: dict[str, Any] = {
            name: client.register_script(script_source(name)) for name in ("epoch", *names)
        }
        self._epoch = ""  # Of the keys at the first call; every script checks it.

    async def run(self, name: str, *args: Any) -> Any:
        """Raises StateLost if the keys are not those of the first call."""
        if not self._epoch:
            self._epoch = (await self._call("epoch", ())).decode()
        return await self._call(name, args)

    async def _call(self, name: str, args: Sequence[Any]) -> Any:
        texts = [msgspec.msgpack.encode(args), self._token, self._epoch]
        try:
            async with self._calls:
                return await _ended(self._scripts[name](keys=[self._prefix], args=texts))
        except (exceptions.RedisError, OSError) as error:
            raise self._trouble(error) from error

    async def ask(self, command: str, name: str, *args: Any) -> Any:
        try:
            async with self._calls:
                call = self._client.execute_command(command, self._prefix + name, *args)
                return await _ended(call)
        except (exceptions.RedisError, OSError) as error:
            raise self._trouble(error) from error

    async def names(self) -> AsyncIterator[list[bytes]]:
        """Every key under the prefix, some at a time."""
        pattern = _literally(self._prefix) + "*"
        position: Any = 0
        while True:
            try:
                position, found = await self._client.scan(position, pattern, SCAN_COUNT)
            except (exceptions.RedisError, OSError) as error:
                raise self._trouble(error) from error
            yield found
            if int(position) == 0:
                return

    async def delete(self, names: Sequence[bytes]) -> None:
        try:
            if names:
                await self._client.unlink(*names)
        except (exceptions.RedisError, OSError) as error:
            raise self._trouble(error) from error

    def _trouble(self, error: Exception) -> StoreError:
        return as_store_error(error, self._where, self._prefix)


def as_store_error(error: Exception, where: str, prefix: str) -> StoreError:
    """Turn the client's exception into a store's; `where` has no password."""
    if str(error).startswith(_FENCED):
        return Fenced(f"this shard was replaced: {str(error).removeprefix(_FENCED).strip()}")
    if str(error).startswith(_LOST):
        return state_lost(where)
    if isinstance(error, exceptions.AuthenticationError):
        return StoreError(
            f"Redis at {where} refused the login: {error}",
            "check the user and the password in the Redis URL",
        )
    if isinstance(error, _UNREACHABLE):
        return StoreUnreachable(
            f"Redis at {where} does not answer: {error}",
            "start it or check the address, then start again: nothing confirmed is lost",
        )
    return StoreError(
        f"Redis at {where} refused a command: {error}",
        f"check its memory and disk, and that no other program writes keys {prefix}*",
    )


def state_lost(where: str) -> StateLost:
    return StateLost(
        f"Redis at {where} has lost the state of this crawl: it was emptied, or an empty server "
        "took its place",
        "what is archived or published is whole; make that server keep its data (appendonly yes), "
        "then run the same command again: it starts over and fetches only what is not archived",
    )


async def _ended(call: Awaitable[Any]) -> Any:
    """Await the call, and raise a cancellation that came meanwhile: before Python 3.12, the
    client's `wait_for` loses one that comes just as a command has been sent."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    given = await call
    if task and task.cancelling() > before:
        raise asyncio.CancelledError
    return given


_FENCED: Final = "FENCED"  # The prefix of the error in shared.lua.
_LOST: Final = "LOST"
_FOLDERS: Final = ((), ("work",), ("fleet",))


def _literally(prefix: str) -> str:
    """A pattern that matches this text and nothing else."""
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", prefix)


def script_source(name: str) -> str:
    """shared.lua and the script `name.lua`, which is beside the module that calls it."""
    here = resources.files("trawlnet.stores.redis")
    found = (here.joinpath(*folder, f"{name}.lua") for folder in _FOLDERS)
    text = next(file for file in found if file.is_file()).read_text(encoding="utf-8")
    return (here / "shared.lua").read_text(encoding="utf-8") + text


def without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or parts.path
