"""Bad luck and bad input: one line that says what is wrong, what to type, and the right code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.support.program import PATIENCE, at_once, environment, started, trawlnet
from tests.support.repos.run import blocks_written, holds_something
from tests.support.servers import free_port, redis_server, require_package
from trawlnet.cli.common.errors import Exit, explain
from trawlnet.storage.errors import SinkBusy, SinkUnreachable
from trawlnet.stores.errors import StoreError, StoreUnreachable

VERBS = ("status", "failures", "retry", "reset")
ROOT = os.geteuid() == 0
NOBODY = 65534


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_on_a_missing_workspace_says_how_to_start_one(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = at_once("repos", verb, "-w", "net")
    assert (ran.code, ran.out) == (10, "")
    assert ran.err == (
        "error: there is no workspace ./net\nhint: start one with: trawlnet repos crawl -w ./net\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_the_workspace_may_come_from_a_variable(tmp_path: Path) -> None:
    ran = trawlnet("repos", "status", cwd=tmp_path)
    assert ran.code == 10 and "./workspace" in ran.err
    ran = trawlnet("repos", "status", cwd=tmp_path, TRAWLNET_WORKSPACE="all")
    assert ran.code == 10 and "./all" in ran.err
    both = {"TRAWLNET_WORKSPACE": "all", "TRAWLNET_REPOS_WORKSPACE": "one"}
    ran = trawlnet("repos", "status", cwd=tmp_path, **both)
    assert ran.code == 10 and "./one" in ran.err


def test_a_file_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for verb in ("status", "crawl"):
        flags = ("--relay", "http://x.org", "--contact", "a@b.example") if verb == "crawl" else ()
        ran = trawlnet("repos", verb, "-w", tmp_path / "file", *flags)
        assert ran.code == 10 and "is not a directory" in ran.err


def test_looking_at_a_crawl_that_never_began_does_not_begin_one(tmp_path: Path) -> None:
    ran = trawlnet("repos", "status", "-w", tmp_path, "--json")
    assert ran.code == 0 and ran.rows[0]["known"] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["failures", "retry"])
def test_a_reason_is_one_of_a_closed_list(verb: str, tmp_path: Path) -> None:
    ran = at_once("repos", verb, "-w", tmp_path, "--reason", "timeot")
    assert ran.code == 2
    assert ran.err == "error: unknown reason timeot\nhint: did you mean timeout?\n"
    ran = at_once("repos", verb, "-w", tmp_path, "--reason", "zzz", "--json")
    assert ran.code == 2 and ran.error["hint"].startswith("reasons: ok, not_modified, ")


@pytest.mark.parametrize(
    "flags, words",
    [
        (("--relay", "http://x"), "hint: give an address or a web page: --contact"),
        (("--contact", "a@b.example"), "hint: mirror it first: trawlnet repos plc"),
        (("--contact", "a@b.example", "--relay", "x"), "error: 'x' is not the URL of a server"),
        (
            ("--redis-address", "mysql://x", "--contact", "a@b.example", "--relay", "http://x.org"),
            "mysql",
        ),
    ],
)
def test_a_crawl_that_cannot_start_says_why(
    flags: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    ran = trawlnet("repos", "crawl", "-w", tmp_path / "net", *flags)
    assert ran.code in (1, 2) and words in ran.err and "Traceback" not in ran.err


@pytest.mark.parametrize(
    "command",
    [
        "repos crawl",
        "repos crawl --contact a@b.example",
        "repos crawl --contact a@b.example --relay x",
        "repos crawl --contact a@b.example --relay http://r.example --metrics-address x",
        "pds crawl --contact a@b.example --webhook x",
        "repos crawl --contact a@b.example --relay http://127.0.0.1:2470",
        "repos crawl --contact a@b.example --relay http://localhost",
        "repos plc",
        "repos plc --contact a@b.example --plc-url http://127.0.0.1:2582",
        "repos plc --contact a@b.example --plc-url http://localhost",
        "pds crawl",
        "pds discover --plc",
        "pds scan https://pds.example",
        "ids crawl",
        "ids crawl --base-url https://api.example",
        "ids crawl --base-url ftp://api.example --contact a@b.example",
        "web crawl https://site.example/",
        "web crawl --allow-private-hosts",
        "web crawl ht!tp:// --allow-private-hosts",
        "web scrape",
    ],
)
def test_what_cannot_start_leaves_nothing_behind(command: str, tmp_path: Path) -> None:
    ran = at_once(*command.split(), "-w", tmp_path / "net", "--json")
    assert ran.code == 2 and ran.out == ""
    assert ran.error["error"] and ran.error["hint"]
    assert ran.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_may_not_be_asked_is_told_at_once_with_what_to_type(tmp_path: Path) -> None:
    for verb, flag in (("plc", "--plc-url"), ("crawl", "--relay"), ("crawl", "--plc-url")):
        given = ("--contact", "a@b.example", flag, "http://10.0.0.7:2582")
        more = ("--relay", "https://relay.example.org") if flag == "--plc-url" else ()
        ran = at_once(
            "repos", verb, "-w", tmp_path / "net", *given, *(more if verb != "plc" else ())
        )
        assert ran.code == 2 and "http://10.0.0.7:2582 is refused: " in ran.err
        assert "--allow-private-hosts" in ran.err


def test_a_directory_that_is_not_there_is_said_while_it_is_asked_again(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    given = ("--plc-url", url, "--allow-private-hosts")
    with ThreadPoolExecutor() as pool:  # They mostly wait.
        running = [
            pool.submit(trawlnet, *verb, "-w", tmp_path / verb[0], *given)
            for verb in (("repos", "plc"), ("pds", "discover"))
        ]
    for ran in (one.result() for one in running):
        assert ran.code == Exit.UNREACHABLE, ran.err
        assert ran.err.count(f"no answer from {url}: connection_error: ") == 1
        assert "retrying in " in ran.err and "is stored" not in ran.err


def test_a_web_page_is_no_directory(tmp_path: Path) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>\n<body>Welcome</body>\n</html>\n")

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        given = ("--plc-url", url, "--allow-private-hosts")
        for verb in (("repos", "plc"), ("pds", "discover")):
            ran = trawlnet(*verb, "-w", tmp_path / verb[0], *given)
            assert ran.code == Exit.UNREACHABLE, ran.err
            assert f"{url}/export" in ran.err and "up to date" not in ran.err
            assert "parse_error: expected JSON lines of an export" in ran.err
        server.shutdown()


def test_a_flag_with_a_wrong_value_is_named(tmp_path: Path) -> None:
    for flag, value, words in (
        ("--workers", "many", "expected a whole number, got 'many'"),
        ("--max-repo-size", "big", "expected a size such as 500KB, 100MB or 2GB, got 'big'"),
        ("--max-seconds", "-1", "expected a duration such as 30s, 5m or 2h, got '-1'"),
    ):
        ran = at_once("repos", "crawl", "-w", tmp_path / "net", flag, value)
        assert ran.code == 2 and ran.err.startswith(f"error: {flag}: {words}\nhint: ")
    assert list(tmp_path.iterdir()) == []


def test_a_redis_that_is_not_there_is_said(network: Any, tmp_path: Path) -> None:
    require_package("redis")
    url = f"redis://127.0.0.1:{free_port()}/0"
    ran = trawlnet(*network.crawl(tmp_path / "net", "--redis-address", url, "--json"))
    assert ran.code == 12 and "127.0.0.1" in ran.error["error"] and ran.error["hint"]


def test_a_redis_that_goes_away_ends_the_crawl_and_loses_nothing(
    network: Any, tmp_path: Path
) -> None:
    require_package("redis")
    workspace = tmp_path / "net"
    with redis_server() as server:
        flags = ("--redis-address", server.url)
        with started(*network.crawl(workspace, *flags, rps=1), folder=tmp_path / "io") as crawl:
            crawl.until(lambda: holds_something(workspace), "a repository")
            server.kill()
            ran = crawl.ended()
        assert ran.code == 12 and "Traceback" not in ran.err
        assert ran.err.splitlines()[-2].startswith("error: ")
        server.start()
        ran = trawlnet(*network.crawl(workspace, *flags))
        assert ran.code == 0, ran.err
        look = ("repos", "status", "-w", workspace, "--json", *flags)
        (row,) = trawlnet(*look).rows
        assert row["open"] == 0 and row["settled"]["ok"] >= len(network.repositories)
        reset = trawlnet("repos", "reset", "-w", workspace, "--yes", *flags)
        assert reset.code == 0 and f"deletes the keys crawler:* in {server.url}" in reset.err
        assert trawlnet(*look).rows[0]["known"] == 0 and not (workspace / "archive").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if not ROOT:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine does not allow mounting")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_ends_the_crawl_and_loses_nothing(network: Any, small_disk: Path) -> None:
    workspace = small_disk / "net"
    ran = trawlnet(*network.crawl(workspace))
    assert ran.code == 1 and "Traceback" not in ran.err, ran.err
    *_, error, hint = ran.err.splitlines()
    assert error.startswith("error: ") and hint.startswith("hint: ") and "space" in error + hint
    grow = ["mount", "-o", "remount,size=64m", str(small_disk)]
    subprocess.run(grow, check=True)
    ran = trawlnet(*network.crawl(workspace))
    assert ran.code == 0, ran.err
    assert blocks_written(workspace).keys() == network.repositories


def test_a_folder_one_may_not_write_to_is_said(tmp_path: Path) -> None:
    # Everything is imported first: the user that the script becomes may not read this checkout.
    script = (
        "import os, sys, trawlnet.cli.dispatch as m\n"
        "import trawlnet.cli.crawl.run, trawlnet.crawlers.repos.build\n"
        f"if os.geteuid() == 0: os.setuid({NOBODY})\n"
        "raise SystemExit(m.dispatch(sys.argv[1:]))\n"
    )
    flags = ("--relay", "http://127.0.0.1:1", "--allow-private-hosts")
    tmp_path.chmod(0o500)
    try:
        done = subprocess.run(
            [sys.executable, "-c", script, "repos", "crawl", "-w", str(tmp_path / "net"), *flags],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=PATIENCE,
        )
    finally:
        tmp_path.chmod(0o700)
    assert done.returncode == 1, done.stderr
    assert "permission denied\nhint: give this user access to it" in done.stderr
    assert not (tmp_path / "net").exists()


def test_a_store_that_is_no_store_is_said(network: Any, tmp_path: Path) -> None:
    store = tmp_path / "state" / "repos" / "store"
    store.mkdir(parents=True)
    (store / "data.mdb").write_bytes(b"not a database" * 1000)
    ran = trawlnet(*network.crawl(tmp_path))
    assert ran.code == 1 and "Traceback" not in ran.err
    assert "error: " in ran.err and "hint: " in ran.err


@pytest.mark.parametrize(
    "error, code",
    [
        (StoreUnreachable("x", "y"), Exit.UNREACHABLE),
        (SinkUnreachable("x", "y"), Exit.UNREACHABLE),
        (SinkBusy("x", "y"), Exit.IN_USE),
        (StoreError("x", "y"), Exit.ERROR),
        (OSError(28, "No space left on device", "/x"), Exit.ERROR),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
    ],
)
def test_every_trouble_of_a_run_has_its_exit_code(error: BaseException, code: Exit) -> None:
    told = explain(error)
    assert told is not None and told.code == code and told.message


def test_only_a_bug_shows_a_traceback(tmp_path: Path) -> None:
    assert explain(ZeroDivisionError("division by zero")) is None
    script = (
        "import trawlnet.cli.main as m, trawlnet.cli.doctor as d\n"
        "def broken(path): raise ZeroDivisionError('division by zero')\n"
        "d._disk = broken\n"
        "raise SystemExit(m.run(['doctor']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 1 and "Traceback" in done.stderr
    assert "error: this is a bug in trawlnet: ZeroDivisionError: division by zero" in done.stderr
