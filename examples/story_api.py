"""A small API to crawl, on loopback, in the shape of Hacker News': run it with a port.

`/v0/topstories.json` is a list of ids; `/v0/item/<id>.json` is an item, whose `kids` are ids of
items below it, or `null` when there is none.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

STORIES, ITEMS = 12, 400


def item(number: int) -> dict[str, Any] | None:
    """Item n has the comments 3n, 3n+1 and 3n+2, as far as there are so many; some are gone."""
    if not 1 <= number <= ITEMS or number % 11 == 0:
        return None
    kind = "story" if number <= STORIES else "comment"
    kids = [n for n in range(3 * number, 3 * number + 3) if STORIES < n <= ITEMS]
    return {"id": number, "type": kind, "by": f"user{number % 7}", "kids": kids}


def answer(path: str) -> Any:
    if path == "/v0/topstories.json":
        return list(range(1, STORIES + 1))
    name = path.removeprefix("/v0/item/").removesuffix(".json")
    return item(int(name)) if name.isdecimal() else None


class StoryHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Keeps connections.
    failed: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        self.count()
        # Each item that is divisible by 50 fails once.
        busy = self.path.endswith(("50.json", "00.json")) and self.path not in self.failed
        self.failed.add(self.path)
        body = json.dumps(None if busy else answer(self.path)).encode()
        self.send_response(503 if busy else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def count(self) -> None:
        """For whoever wants to know of each request, or to let it wait."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a crawl makes many requests."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), StoryHandler).serve_forever()
