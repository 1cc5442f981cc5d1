"""`trawlnet ids` as people and scripts use it, against a served API."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.support.program import Started, at_once, environment, started, trawlnet, wait_until
from trawlnet.sim.ids import Traffic, read_manifest

FIRST = 15_000_000_000
PATH = "/Platform/Destiny2/Stats/PostGameCarnageReport/"


@dataclass(frozen=True)
class Api:
    url: str
    traffic: Traffic
    log: Path
    server: subprocess.Popen[str]

    def requests(self) -> list[dict[str, Any]]:
        """Ends the server: until then its log is not whole."""
        self.server.terminate()
        self.server.wait()
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    log = tmp_path / "server.log"
    command = [sys.executable, "-m", "trawlnet", "sim", "ids", "--seed", "3", "--scale", "1"]
    command += ["--log", str(log), "--manifest", str(tmp_path / "manifest.json")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment()
    ) as server:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        yield Api(ready["base_url"], read_manifest(tmp_path / "manifest.json")[1], log, server)
        server.terminate()


def crawl(api: Api, *more: object) -> tuple[object, ...]:
    common = ("ids", "crawl", "--base-url", api.url, "--allow-private-hosts", "--max-rps", 150)
    return (*common, "--target", FIRST + 500, "--buffer", 500, *more)


def status(folder: Path) -> dict[str, Any]:
    ran = at_once("ids", "status", "-w", folder, "--json")
    assert ran.code == 0, ran.err
    return ran.rows[0]


def working(program: Started, folder: Path) -> None:
    """Wait until the crawl has something to tell."""
    now = folder / "state" / "ids" / "now.json"
    program.until(lambda: now.exists() and json.loads(now.read_bytes())["done"] > 100, "progress")


def test_status_tells_while_a_crawl_runs_and_sigterm_saves(api: Api, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    law = ("--scaling", "classic", "--max-workers", 30)
    with started(*crawl(api, "-w", folder, *law), folder=tmp_path / "out") as program:
        working(program, folder)
        row = status(folder)
        assert row["running"] == program.pid
        assert row["watermark"] >= FIRST and row["first"] == FIRST
        assert 1 <= row["workers"] <= 30, "without those that the law has for retries"
        assert row["stored"] + row["filtered"] > 0
        assert row["lag_p20_s"] > 0.0
        assert at_once("ids", "gaps", "-w", folder, "--json").code == 0
        again = trawlnet(*crawl(api, "-w", folder))
        assert again.code == 11 and "in use" in again.err
        program.tell(signal.SIGTERM)
        ran = program.ended()
    assert ran.code == 130, ran.err
    after = status(folder)
    assert after["running"] is None and after["workers"] == 0
    assert after["done"] >= row["done"] and after["watermark"] >= row["watermark"]
    spooled = (folder / "spool" / "instance_store").glob("*.jsonl")
    ids = [json.loads(line)["instance"]["instance_id"] for f in spooled for line in f.open()]
    assert ids and all(api.traffic.is_raid(number) for number in ids)


def test_a_crawl_goes_on_where_it_was_and_asks_for_nothing_settled_again(
    api: Api, tmp_path: Path
) -> None:
    folder = tmp_path / "w"
    assert trawlnet(*crawl(api, "-w", folder, "--max-tasks", 200)).code == 4
    first = status(folder)
    assert first["known"] == first["done"] + first["open"] + first["holes"]
    ran = trawlnet(*crawl(api, "-w", folder, "--max-tasks", 100, "--target", FIRST + 9000))
    assert ran.code == 4
    assert status(folder)["watermark"] > first["watermark"]
    asked = [row["path"] for row in api.requests() if row["status"] == 200]
    plain = [path for path in asked if "?" not in path]
    # Spoilt and embargoed ones are asked for again; no other.
    assert len(plain) - len(set(plain)) <= 0.05 * len(plain)


def test_gaps_missed_failures_retry_and_reset(api: Api, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    assert trawlnet(*crawl(api, "-w", folder, "--dev", "--max-tasks", 60)).code == 4
    rows = at_once("ids", "gaps", "-w", folder, "--json").rows
    assert rows and all(row["start"] < row["end"] and row["reason"] for row in rows)
    assert {"left out on purpose"} <= {row["detail"] for row in rows}
    assert at_once("ids", "missed", "-w", folder, "--json").rows == []
    assert (folder / "logs" / "missed.log").read_text() == ""
    assert at_once("ids", "failures", "-w", folder, "--reason", "timeout").out == ""
    assert at_once("ids", "retry", "-w", folder, "--json").rows == [{"put_back": 0}]
    assert at_once("ids", "reset", "-w", folder, "--yes").code == 0
    assert not (folder / "state" / "ids" / "ledger").exists()
    assert at_once("ids", "gaps", "-w", folder).out == ""


def test_the_plain_preset_starts_below_its_anchor(api: Api, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    ran = trawlnet(
        *("ids", "crawl", "-w", folder, "--base-url", api.url, "--allow-private-hosts"),
        *("--preset", "json", "--buffer", 1200, "--max-rps", 150, "--max-tasks", 80),
    )
    assert ran.code == 4, ran.err
    paths = [row["path"] for row in api.requests()]
    assert paths[0] == "/v0/maxitem.json"
    row = status(folder)
    assert row["stored"] > 0 and row["first"] > FIRST
    (segment,) = (folder / "spool" / "items").glob("*.jsonl")
    assert all(json.loads(line)["item"]["id"] for line in segment.open())


def test_the_key_and_the_contact_reach_the_api_and_no_log(api: Api, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    ran = trawlnet(*crawl(api, "-w", folder, "--max-tasks", 5), BUNGIE_API_KEY="k3y")
    assert ran.code == 4
    logged = "".join(file.read_text() for file in (folder / "logs").iterdir())
    assert "k3y" not in logged + ran.out + ran.err


def test_withheld_ids_are_listed_and_go_to_no_queue(tmp_path: Path) -> None:
    """Their queue, `pgcr_blocked_retry`, had no reader: the ledger has them."""
    with served(lambda path: (401, b"") if path.endswith("5.json") else (200, b'{"id": 1}')) as url:
        where = ("--base-url", url, "--allow-private-hosts", "--preset", "json")
        flags = ("-w", tmp_path, "--target", 1000, "--buffer", 40, "--max-rps", 150)
        ran = trawlnet("ids", "crawl", *flags, *where, "--max-tasks", 60)
    assert ran.code == 4, ran.err
    rows = at_once("ids", "failures", "-w", tmp_path, "--reason", "embargoed", "--json").rows
    assert rows and all(row["key"].endswith("5") for row in rows), rows
    assert [path.name for path in (tmp_path / "spool").iterdir()] == ["items"]
    first = rows[0]["key"]
    assert f'"id":{first}' not in "".join(
        path.read_text() for path in (tmp_path / "spool" / "items").glob("*.jsonl")
    )


@contextmanager
def served(answer: Callable[[str], tuple[int, bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


PRIVATE = ("--base-url", "http://127.0.0.1:9", "--allow-private-hosts")


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ((), 2, "no API is named"),
        (("--base-url", "ftp://x"), 2, "not the URL of a server"),
        (("--base-url", "http://h", "--key-variable", "none"), 2, "reach you"),
        (("--base-url", "http://h", "--contact", "a@b.example", "--path", "/x"), 2, "path"),
        (("--base-url", "http://h", "--contact", "a@b.example"), 2, "no API key"),
        ((*PRIVATE, "--key-variable", "NOSUCHVAR"), 2, "NOSUCHVAR is not set"),
        ((*PRIVATE, "--preset", "json", "--key-variable", "NOSUCHVAR"), 2, "export NOSUCHVAR="),
        (("--max-rps", "0"), 2, "--max-rps"),
        (("--scaling", "magic"), 2, "--scaling"),
    ],
)
def test_what_cannot_be_crawled_is_said_before_anything_is_sent(
    flags: tuple[str, ...], code: int, words: str, tmp_path: Path
) -> None:
    ran = at_once("ids", "crawl", "-w", tmp_path / "w", *flags)
    assert ran.code == code
    assert words in ran.err and "hint:" in ran.err


@pytest.mark.parametrize("verb", ["status", "gaps", "missed", "failures", "retry", "reset"])
def test_a_missing_workspace_is_said(verb: str, tmp_path: Path) -> None:
    assert at_once("ids", verb, "-w", tmp_path / "none").code == 10


def test_a_refused_key_is_still_told_when_the_crawl_has_ended(tmp_path: Path) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    folder = tmp_path / "w"
    now = folder / "state" / "ids" / "now.json"
    where = ("--base-url", f"http://127.0.0.1:{server.server_port}", "--preset", "json")
    where = (*where, "--key-variable", "API_KEY")
    flags = ("-w", folder, *where, "--target", 1000, "--allow-private-hosts")
    try:
        with started("ids", "crawl", *flags, folder=tmp_path / "out", API_KEY="old") as program:
            program.until(
                lambda: now.exists() and json.loads(now.read_bytes())["key_refused"], "the refusal"
            )
            program.tell(signal.SIGTERM)
            assert program.ended().code == 130
    finally:
        server.shutdown()
        server.server_close()
    row = status(folder)
    assert row["running"] is None and row["key_refused"] is True


def test_alerts_reach_a_webhook(api: Api, tmp_path: Path) -> None:
    posts: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            posts.append(json.loads(self.rfile.read(length)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        hook = f"http://127.0.0.1:{server.server_port}/s3cret"
        flags = crawl(api, "-w", tmp_path / "w", "--max-tasks", 20, "--webhook-shape", "discord")
        ran = trawlnet(*flags, "--webhook", hook)
        wait_until(lambda: len(posts) >= 1, "a post")
    finally:
        server.shutdown()
        server.server_close()
    titles = [embed["title"] for post in posts for embed in post["embeds"]]
    assert titles[0] == "crawl began" and titles[-1] == "crawl ended"
    logged = "".join(file.read_text() for file in (tmp_path / "w" / "logs").iterdir())
    assert "s3cret" not in logged + ran.err
