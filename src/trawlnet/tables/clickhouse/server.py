"""Tables on a ClickHouse server, over HTTP."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from trawlnet.loading import load
from trawlnet.tables.clickhouse.ports import NO_PARAMETERS, Parameter, Query, statement
from trawlnet.tables.errors import TablesError, TablesMissing, TablesUnreachable, said

T = TypeVar("T")

# What the client has to say comes as exceptions; without a handler it would be printed, too.
logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())

_ROWS = "JSONCompactEachRow"
_PIECE = 1 << 20  # Bytes read at a time from the result of somebody's own query.
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 3600  # Merging everything takes long, and says nothing meanwhile.
_PORTS = {"http": 8123, "https": 8443}


@dataclass(frozen=True, slots=True)
class ClickHouseServer:
    """Where tables are that are not in a workspace."""

    address: str  # HOST, HOST:PORT or a URL.
    username: str = "default"
    password: str = field(default="", repr=False)  # Must not get into a log by accident.
    database: str = "default"


class ServerTables:
    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address

    async def run(self, query: Query, parameters: Mapping[str, Parameter] = NO_PARAMETERS) -> None:
        await self._call(lambda: self._client.command(query.text, parameters=_own(parameters)))

    async def rows(
        self, query: Query, parameters: Mapping[str, Parameter] = NO_PARAMETERS
    ) -> list[list[Any]]:
        body: bytes = await self._call(
            lambda: self._client.raw_query(query.text, parameters=_own(parameters), fmt=_ROWS)
        )
        return [orjson.loads(line) for line in body.split(b"\n") if line]

    async def insert(self, query: Query, block: bytes) -> None:
        # One body with statement and data: the statement stays the one of the named file.
        body = query.text.encode() + b" FORMAT Native\n" + block
        await self._call(lambda: self._client.raw_insert(insert_block=body, fmt="Native"))

    async def stream(self, sql: str, layout: str) -> AsyncIterator[bytes]:
        final = _settable(self._client, {_FINAL: 1})
        results = await self._call(
            lambda: self._client.raw_stream(sql, fmt=layout, settings=final), _OWN_HINT
        )
        try:
            while piece := await self._call(lambda: results.read(_PIECE), _OWN_HINT):
                yield piece
        finally:
            await asyncio.to_thread(results.close)

    async def close(self) -> None:
        await asyncio.to_thread(self._client.close)

    async def _call(self, work: Callable[[], T], hint: str = "see the server's log") -> T:
        return await asyncio.to_thread(_translated, work, self._address, hint)


_OWN_HINT = "see what is there: SHOW TABLES, or DESCRIBE TABLE repo_records"


async def open_server(server: ClickHouseServer, *, to_read: bool = False) -> ServerTables:
    """Raises TablesUnreachable when nobody answers there or the password is wrong. The database is
    made where it is missing, unless this is `to_read` only."""
    return await asyncio.to_thread(_open, server, to_read)


def _open(server: ClickHouseServer, to_read: bool) -> ServerTables:
    try:
        get_client = load("clickhouse_connect:get_client")
    except ImportError:
        raise TablesMissing(
            "the client of ClickHouse servers is not installed",
            "pip install 'trawlnet[clickhouse]'",
        ) from None
    scheme, host, port = _place(server.address)

    def connect(database: str | None) -> Any:
        return get_client(
            interface=scheme,
            host=host,
            port=port,
            username=server.username,
            password=server.password,
            database=database,
            connect_timeout=_CONNECT_SECONDS,
            send_receive_timeout=_ANSWER_SECONDS,
            autogenerate_session_id=False,  # Calls of one session may not overlap.
            form_encode_query_params=True,  # Lists of DIDs are too long for a URL.
        )

    def connected() -> Any:
        if not to_read:
            first = connect(None)
            create = statement("create_database").text
            first.command(create, parameters={"database": server.database})
            first.close()
        client = connect(server.database)
        for name, value in _settable(client, {_QUOTED_NUMBERS: 0}).items():
            client.set_client_setting(name, value)
        return client

    client = _translated(connected, server.address, "see the server's log", connecting=True)
    if _FINAL not in client.server_settings:
        raise TablesError(
            f"the ClickHouse server at {server.address} is too old: version "
            f"{client.server_version} does not know the setting {_FINAL}",
            "update it, or leave --clickhouse-address out to use the embedded one",
        )
    return ServerTables(client, server.address)


_FINAL = "final"
_QUOTED_NUMBERS = "output_format_json_quote_64bit_integers"


def _settable(client: Any, wanted: Mapping[str, int]) -> dict[str, int]:
    """The settings that this account may change: one with `readonly = 1` may change none."""
    known = client.server_settings
    return {name: wanted[name] for name in wanted if name in known and not known[name].readonly}


def _place(address: str) -> tuple[str, str, int]:
    url = urlsplit(address if "://" in address else f"http://{address}")
    try:
        port = url.port or _PORTS.get(url.scheme, 0)
    except ValueError:
        port = 0
    if url.scheme not in _PORTS or not url.hostname or not port:
        raise TablesError(
            f"{address!r} is not the address of a ClickHouse server",
            "write it like 127.0.0.1:8123 or https://ch.example:8443",
        )
    return url.scheme, url.hostname, port


def _translated(work: Callable[[], T], address: str, hint: str, *, connecting: bool = False) -> T:
    """The one place where the client's exceptions become ours."""
    driver = load("clickhouse_connect.driver.exceptions")
    http_error = load("urllib3.exceptions:HTTPError")
    try:
        return work()
    except driver.OperationalError as error:
        if _ODD_ANSWER in str(error):
            raise _no_clickhouse(address, error) from error
        raise TablesUnreachable(
            f"no ClickHouse server answers at {address}: {_cause(error)}",
            "start it, or leave --clickhouse-address out to use the embedded one",
        ) from error
    except driver.DatabaseError as error:
        if any(word in str(error) for word in _NOT_LET_IN):
            raise TablesUnreachable(
                f"the ClickHouse server at {address} refused the login: {said(error)}",
                "check --clickhouse-username and CLICKHOUSE_PASSWORD",
            ) from error
        if connecting and _OF_CLICKHOUSE not in str(error):
            raise _no_clickhouse(address, error) from error
        if any(word in str(error) for word in _NOT_ALLOWED):
            hint = "grant the account what it lacks; to `repos query`, it need only read"
        elif "UNKNOWN_DATABASE" in str(error):
            hint = "check --clickhouse-database; `repos plc` and `repos replay` make it"
        raise TablesError(f"the query failed: {said(error)}", hint) from error
    except (http_error, OSError, driver.Error) as error:
        raise TablesUnreachable(
            f"the ClickHouse server at {address} went away: {_cause(error)}",
            "run the same command again when it is back: it continues",
        ) from error


def _no_clickhouse(address: str, error: BaseException) -> TablesUnreachable:
    return TablesUnreachable(
        f"the server at {address} is not ClickHouse: {said(error)}",
        "name the port of its HTTP interface: 8123, or https://HOST:8443",
    )


def _cause(error: BaseException) -> str:
    """What the system says, out of what three layers of libraries have made of it."""
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(error))
    return found[1].lower() if found else said(error)


_OF_CLICKHOUSE = "DB::Exception"  # In all that a server itself refuses.
_ODD_ANSWER = "Unexpected response"  # The client's word for one that is not ClickHouse's.
_NOT_ALLOWED = ("ACCESS_DENIED", "READONLY")
_NOT_LET_IN = ("AUTHENTICATION_FAILED", "REQUIRED_PASSWORD", "UNKNOWN_USER")


def _own(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """The client changes what it is given."""
    return {
        name: value if isinstance(value, str | int) else list(value)
        for name, value in parameters.items()
    }
