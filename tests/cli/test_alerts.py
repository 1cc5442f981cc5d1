"""Alerts of a crawl reach a real receiver, keep its address secret, and hold nothing up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.support.program import at_once, started, trawlnet

SECRET = "s3cret-t0ken"


class Receiver:
    """Keeps what was posted; answers with these statuses first, or not at all."""

    def __init__(self, url: str, posts: list[dict[str, Any]]) -> None:
        self.url = url
        self.posts = posts

    @property
    def alerts(self) -> list[dict[str, Any]]:
        return [alert for post in self.posts for alert in post["alerts"]]


@contextmanager
def receiving(*statuses: int, stalls: bool = False) -> Iterator[Receiver]:
    posts: list[dict[str, Any]] = []
    waiting, let_go = list(statuses), Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if stalls:
                let_go.wait(60)
                return
            status = waiting.pop(0) if waiting else 204
            if status < 300:
                posts.append(json.loads(body))
            self.send_response(status)
            self.send_header("Retry-After", "0.1")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """The tests' output is not the place."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Receiver(f"http://127.0.0.1:{server.server_port}/{SECRET}", posts)
    finally:
        let_go.set()
        server.shutdown()
        server.server_close()


def everything_logged(workspace: Path) -> str:
    return "".join(path.read_text() for path in (workspace / "logs").glob("*.log"))


def test_a_crawl_tells_that_it_began_and_how_it_ended(network: Any, tmp_path: Path) -> None:
    secret = tmp_path / "webhook"
    with receiving() as receiver:
        secret.write_text(f"{receiver.url}\n")
        words = network.crawl(tmp_path / "net", "--json")
        with started(*words, folder=tmp_path, TRAWLNET_WEBHOOK_FILE=str(secret)) as program:
            seen = Path(f"/proc/{program.pid}/cmdline").read_bytes()
            seen += Path(f"/proc/{program.pid}/environ").read_bytes()
            ran = program.ended()
    assert ran.code == 0, ran.err
    assert [alert["title"] for alert in receiver.alerts] == ["crawl began", "crawl ended"]
    assert receiver.alerts[1]["text"].startswith("done after ")
    assert {alert["crawler"] for alert in receiver.alerts} == {"repos"}
    assert SECRET not in ran.out + ran.err + everything_logged(tmp_path / "net") + str(seen)


def test_a_receiver_that_throttles_and_breaks_gets_its_alerts_later(
    network: Any, tmp_path: Path
) -> None:
    with receiving(429, 500) as receiver:
        words = network.crawl(tmp_path / "net", "--max-tasks", 20)
        ran = trawlnet(*words, TRAWLNET_REPOS_WEBHOOK=receiver.url, TRAWLNET_WEBHOOK="http://x/")
    assert ran.code == 4, ran.err
    assert sorted({alert["title"] for alert in receiver.alerts}) == ["crawl began", "crawl ended"]
    assert "stopped at a limit" in receiver.alerts[-1]["text"]


def test_a_receiver_that_stalls_does_not_stop_a_crawl(network: Any, tmp_path: Path) -> None:
    with receiving(stalls=True) as receiver:
        words = network.crawl(tmp_path / "net", "--max-tasks", 20)
        ran = trawlnet(*words, TRAWLNET_WEBHOOK=receiver.url)
    assert ran.code == 4, ran.err
    logged = everything_logged(tmp_path / "net")
    assert "alerts not sent" in logged and "crawl ended" in logged
    assert SECRET not in ran.err + logged


def test_a_host_that_is_given_up_on_is_named(tmp_path: Path) -> None:
    seeds = [f"http://127.0.0.1:1/{number}" for number in range(14)]
    quick = ("--req-per-sec", 100, "--set", "limits.backoff_base_ms=10")
    quick += ("--set", "limits.block_probes=0")  # Those take minutes.
    with receiving() as receiver:
        words = ("web", "crawl", "-w", tmp_path, *seeds, "--allow-private-hosts", *quick)
        ran = trawlnet(*words, TRAWLNET_WEBHOOK=receiver.url)
    assert ran.code == 3, ran.err
    told = {alert["title"]: alert for alert in receiver.alerts}
    assert told["hosts blocked"]["text"] == "blocked after too many failures: 127.0.0.1:1"
    assert told["hosts blocked"]["fields"] == {"blocked hosts": "1", "their tasks": "14"}
    assert told["crawl ended"]["level"] == "warning"
    assert told["crawl ended"]["fields"] == {"given up": "14"}


def test_a_crawl_that_cannot_begin_is_told(tmp_path: Path) -> None:
    with receiving() as receiver:
        words = ("repos", "crawl", "-w", tmp_path, "--relay", "http://127.0.0.1:1")
        more = ("--redis-address", "127.0.0.1:1", "--allow-private-hosts")
        ran = trawlnet(*words, *more, TRAWLNET_WEBHOOK=receiver.url)
    assert ran.code == 12 and "127.0.0.1:1" in ran.err
    assert ran.err.count("error") == 1  # People are told once.
    (alert,) = receiver.alerts
    assert (alert["title"], alert["level"]) == ("crawl failed", "error")


@pytest.mark.parametrize("crawler", ["repos", "pds", "ids", "web"])
def test_the_config_does_not_show_the_webhook(
    crawler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAWLNET_WEBHOOK", f"https://hooks.example/{SECRET}")
    ran = at_once("config", crawler, "-w", tmp_path, "--json")
    assert ran.code == 0, ran.err
    (row,) = [row for row in ran.rows if row["key"] == f"{crawler}.webhook"]
    assert row == {"key": f"{crawler}.webhook", "value": "...", "source": "TRAWLNET_WEBHOOK"}
    assert SECRET not in ran.out + ran.err


def test_what_is_no_url_is_refused_without_being_shown(tmp_path: Path) -> None:
    ran = trawlnet("pds", "crawl", "-w", tmp_path, TRAWLNET_WEBHOOK=f"htps:/{SECRET}")
    assert ran.code == 2
    assert "the webhook is not a URL" in ran.err and SECRET not in ran.err


def test_a_crawler_s_own_variable_and_a_value_come_before_those_for_all_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def source(crawler: str) -> str:
        rows = at_once("config", crawler, "-w", tmp_path, "--json").rows
        return str(next(row["source"] for row in rows if row["key"] == f"{crawler}.webhook"))

    (tmp_path / "secret").write_text("https://a.example/")
    monkeypatch.setenv("TRAWLNET_WEBHOOK_FILE", str(tmp_path / "secret"))
    assert source("web") == "TRAWLNET_WEBHOOK_FILE"
    monkeypatch.setenv("TRAWLNET_WEBHOOK", "https://b.example/")
    assert source("web") == source("ids") == "TRAWLNET_WEBHOOK"
    monkeypatch.setenv("TRAWLNET_WEB_WEBHOOK", "https://c.example/")
    monkeypatch.setenv("TRAWLNET_IDS_WEBHOOK", "https://c.example/")
    assert source("web") == "TRAWLNET_WEB_WEBHOOK"
    assert source("ids") == "TRAWLNET_IDS_WEBHOOK"
