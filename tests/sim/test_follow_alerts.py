"""A webhook hears from a real follower that something is wrong with its firehoses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.repos.followed import folded_events, follow_flags, following, live_world
from tests.support.servers import free_port
from trawlnet.crawlers.repos.following.figures.live_alerts import AWAY, REJECTED, REJECTED_LEAST
from trawlnet.sim.atproto.live.relay_stream import Mischief


@contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its URL, and the alerts that were posted to it."""
    alerts: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            alerts.extend(json.loads(body)["alerts"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", alerts
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_what_is_wrong_with_firehoses_reaches_the_webhook(tmp_path: Path) -> None:
    """One server is not there, and the relay falsifies what it tells."""
    workspace, absent = tmp_path / "net", f"127.0.0.1:{free_port()}"
    with live_world(23, tmp_path, accounts=30, hosts=3) as living, webhook() as (url, alerts):
        flags = (
            *follow_flags(living.world, "--relay", living.world.relay),
            *("--pds", f"http://{absent}", "--alert-behind", "1", "--webhook", url),
        )
        with following(tmp_path, "follow", workspace, *flags) as started:

            def told(title: str) -> list[dict[str, Any]]:
                return [one for one in alerts if one["title"] == title]

            started.until(lambda: bool(told(AWAY)), "word of the server that is not there")
            assert absent in told(AWAY)[0]["text"]
            assert living.world.relay.partition("://")[2] not in told(AWAY)[0]["text"]
            some = living.writers()
            living.write(some)
            truth = living.truth()
            known = {living.world.population.dids[one.index] for one in some}
            wanted = {did: records for did, records in truth.items() if did in known}
            started.until(lambda: folded_events(workspace).content == wanted, "the accounts")
            assert not told(REJECTED)
            while len(some) < REJECTED_LEAST:
                some += some
            living.write(some, Mischief.WRONG_PREV)
            started.until(lambda: bool(told(REJECTED)), "word of the false commits")
            assert set(told(REJECTED)[0]["fields"]) == {"wrong_prev_data"}
