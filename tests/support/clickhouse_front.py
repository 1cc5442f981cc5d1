"""A ClickHouse server for tests: the engine of chDB behind a thin HTTP front.

There is no ClickHouse server among the packages that tests can install, so this stands in for one:
the client, the HTTP and the engine that runs the SQL are real, only the piece between the last two
is ours. Run as `python -m tests.support.clickhouse_front FOLDER PASSWORD PORT`; prints its port
when it is ready.
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.support import child

PASSED_ON = ("final", "output_format_json_quote_64bit_integers")  # Settings.
READERS = ("reader", "strict")  # Accounts that may only read; the second has readonly = 1.


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    session: Any = None  # Of chDB, which is loaded only where it is served.
    password = ""
    user = ""
    turn = threading.Lock()

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        self.answer(self.body())

    def body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self, body: bytes) -> None:
        url = urlsplit(self.path)
        if url.path == "/ping":
            self.reply(200, b"Ok.\n")
            return
        if not self.is_let_in():
            words = b"Code: 516. DB::Exception: default: Authentication failed: password is "
            self.reply(403, words + b"incorrect. (AUTHENTICATION_FAILED)")
            return
        if not self.has_database(url.query):
            self.reply(404, b"Code: 81. DB::Exception: Database does not exist. (UNKNOWN_DATABASE)")
            return
        fields = dict(parse_qsl(url.query, keep_blank_values=True))
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            message = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\n\n" + body)
            for part in message.walk():
                name = part.get_param("name", header="content-disposition")
                value = part.get_payload(decode=True)
                if isinstance(name, str) and isinstance(value, bytes):
                    fields[name] = value.decode()
            body = b""
        try:
            with self.turn:
                if self.user in READERS:
                    self.refuse_to_write(fields, body)
                result = self.execute(fields, body)
        except RuntimeError as error:
            self.reply(500, str(error).encode())
        else:
            self.reply(200, result)

    def is_let_in(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        self.user, _, password = base64.b64decode(given).decode().partition(":")
        return password == self.password

    def has_database(self, query: str) -> bool:
        name = dict(parse_qsl(query)).get("database", "default")
        with self.turn:
            return name in str(self.session.query("SHOW DATABASES", "CSV"))

    def refuse_to_write(self, fields: dict[str, str], body: bytes) -> None:
        """As a server does for an account that may only read, or for one with readonly = 1."""
        sql = re.sub(r"--[^\n]*\n|/\*.*?\*/", "", fields.get("query") or body.decode()).strip()
        if not sql.upper().startswith(("SELECT", "WITH", "SHOW", "DESC", "EXPLAIN", "EXISTS")):
            raise RuntimeError(
                f"Code: 497. DB::Exception: {self.user}: Not enough privileges. (ACCESS_DENIED)"
            )
        changed = [name for name in PASSED_ON if name in fields]
        if self.user == "strict" and changed:
            words = f"Cannot modify '{changed[0]}' setting in readonly mode. (READONLY)"
            raise RuntimeError(f"Code: 164. DB::Exception: {words}")
        if self.user == "strict":
            fields["query"] = sql.replace("value, readonly FROM", "value, 1 AS readonly FROM")

    def execute(self, fields: dict[str, str], body: bytes) -> bytes:
        if database := fields.get("database"):
            self.session.query(f"USE {database}")
        for name in PASSED_ON:
            self.session.query(f"SET {name} = {fields.get(name, '0')}")
        statement, marker, block = body.partition(b" FORMAT Native\n")
        if marker and statement.lstrip().startswith((b"--", b"INSERT")):
            with self.session.send_insert(statement.decode(), "Native") as inserter:
                inserter.append(block)
                inserter.finish()
            return b""
        sql = fields.get("query") or body.decode()
        params = {n[6:]: value for n, value in fields.items() if n.startswith("param_")}
        result = self.session.query(
            sql, fields.get("default_format", "TabSeparated"), params=params
        )
        answer: bytes | None = result.bytes()
        return answer or b""

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "text/plain")
        if status != 200:
            self.send_header("X-ClickHouse-Exception-Code", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class ClickHouse:
    address: str
    password: str
    process: subprocess.Popen[str]


@contextmanager
def clickhouse_front(
    folder: Path, password: str = "open sesame", port: int = 0
) -> Iterator[ClickHouse]:
    process = subprocess.Popen(
        child.module("support.clickhouse_front", folder, password, port),
        env=child.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        told = process.stdout.readline().strip()
        assert told, "the front did not start"
        yield ClickHouse(f"127.0.0.1:{told}", password, process)
    finally:
        process.kill()
        process.wait()


def main(folder: str, password: str, port: str) -> None:
    from chdb.session import Session

    Front.session, Front.password = Session(folder), password  # type: ignore[no-untyped-call]
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Front)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
