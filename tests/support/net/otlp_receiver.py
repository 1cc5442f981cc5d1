"""A collector of traces on loopback that keeps what it is sent, or never answers."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Receiver:
    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = 0
        self.resources: list[dict[str, Any]] = []
        self.spans: list[Any] = []

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces", path
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(attributes(group.resource))
            self.spans += [span for scope in group.scope_spans for span in scope.spans]

    def ways(self) -> dict[bytes, list[Any]]:
        """Spans by trace."""
        found: dict[bytes, list[Any]] = {}
        for span in self.spans:
            found.setdefault(span.trace_id, []).append(span)
        return found


def attributes(of: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in of.attributes}


@contextmanager
def receiving(*, answers: bool = True) -> Iterator[Receiver]:
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.asked += 1
            if not answers:
                over.wait()
                return
            packed = self.headers.get("Content-Encoding") == "gzip"
            receiver.take(self.path, gzip.decompress(body) if packed else body)
            reply = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *words: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        over.set()
        server.shutdown()
        server.server_close()
