"""What the pages of the documentation are run over: networks, sites, and frozen workspaces."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.docs.session import Session
from tests.frozen.ice import notes, thaw
from tests.support.program import environment
from tests.support.servers import free_port, require_package

LIMIT_REACHED = 4


@contextmanager
def nothing(session: Session) -> Iterator[None]:
    yield


@contextmanager
def a_site(session: Session) -> Iterator[None]:
    """A folder of HTML, and who serves it."""
    site = session.folder / "html"
    site.mkdir()
    links = "".join(f'<a href="{n}.html">page {n}</a>' for n in range(20))
    for name in ("index", *range(20)):
        (site / f"{name}.html").write_text(f"<html><title>{name}</title>{links}</html>")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session.stands_for["127.0.0.1:8000"] = f"127.0.0.1:{server.server_port}"
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def a_crawled_site(session: Session) -> Iterator[None]:
    session.stands_for["/home/you"] = str(session.folder)
    with a_site(session):
        url = "http://127.0.0.1:8000/"
        session.run(f"trawlnet web crawl -w ./site {url} --allow-private-hosts --req-per-sec 50")
        yield


@contextmanager
def simulated(*words: str) -> Iterator[dict[str, Any]]:
    """What the ready line of `trawlnet sim` says, on ports that are free here."""
    start = [sys.executable, "-m", "trawlnet", "sim", *words]
    process = subprocess.Popen(
        start, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), text=True
    )
    try:
        assert process.stdout
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def a_network(session: Session) -> Iterator[None]:
    """The one that the page begins with."""
    with simulated("atproto", "--seed", "7", "--scale", "0.5") as ready:
        here = [ready["plc"], ready["relay"], *ready["pds"]]
        said = ["127.0.0.1", *(f"127.8.0.{n}" for n in range(1, len(here)))]
        for host, url in zip(said, here, strict=True):
            session.stands_for[f"{host}:25433"] = url.removeprefix("http://")
        yield


@contextmanager
def a_small_network(session: Session) -> Iterator[None]:
    with simulated("atproto", "--seed", "1", "--scale", "0.1", "--healthy") as ready:
        port = free_port()
        session.stands_for |= {
            "127.0.0.1:27919": ready["plc"].removeprefix("http://"),
            "127.2.0.2:27919": ready["pds"][0].removeprefix("http://"),
            "--port 8080": f"--port {port}",
            "127.0.0.1:8080": f"127.0.0.1:{port}",
        }
        yield


@contextmanager
def a_directory(session: Session) -> Iterator[None]:
    require_package("chdb")
    with simulated("atproto", "--seed", "1", "--scale", "0.1", "--healthy") as ready:
        session.stands_for |= {
            "--contact you@example.org": f"--plc-url {ready['plc']} --allow-private-hosts",
            "https://plc.directory": ready["plc"],
        }
        session.seldom = ("plc: ", "…")
        yield


@contextmanager
def growing_ids(session: Session) -> Iterator[None]:
    with simulated("ids", "--seed", "1") as ready:
        session.stands_for |= {
            "127.0.0.1:8033": ready["base_url"].removeprefix("http://"),
            "--max-seconds 45": "--max-seconds 4",
        }
        session.seldom = ("ids running 30s", "warning: gap found", "hint: ")
        session.ends = (0, LIMIT_REACHED)
        yield


@contextmanager
def fetched_ids(session: Session) -> Iterator[None]:
    """A spool with instances, and tables."""
    require_package("chdb")
    thaw("ids-killed-0.1.0", session.folder / "net")
    yield


@contextmanager
def a_followed_network(session: Session) -> Iterator[None]:
    """The state of a follower; the table of records is that of another crawl."""
    require_package("chdb")
    net = thaw("repos-follow-0.1.0", session.folder / "net")
    thaw("repos-done", session.folder / "done").joinpath("tables").rename(net / "tables")
    row = notes(net)["status"][0]
    session.stands_for["relay.example"] = next(iter(row["live"]["cursor"]))
    yield


@contextmanager
def a_finished_crawl(session: Session) -> Iterator[None]:
    thaw("repos-done", session.folder / "net")
    port = free_port()
    session.stands_for |= {"-w ./net": f"-w ./net --port {port}", ":8080": f":{port}"}
    yield


@contextmanager
def a_scanned_network(session: Session) -> Iterator[None]:
    """Its registry has the tables of records."""
    thaw("pds-killed-0.1.0", session.folder / "net")
    (session.folder / "xyz.statusphere.status.json").write_text("{}")
    yield


@contextmanager
def logs_of_a_site(session: Session) -> Iterator[None]:
    thaw("web-scrape-0.1.0", session.folder / "site")
    session.stands_for[" --since 1h"] = ""  # They are older.
    yield


BIG_HOSTS, ACCOUNTS_OF_ONE = 122, 500_000
SMALL_HOSTS, ACCOUNTS_OF_ALL = 15_877, 4_000_000


@contextmanager
def sizes_of_hosts(session: Session) -> Iterator[None]:
    """Those that the page assumes, the small ones by Zipf's law."""
    largest = ACCOUNTS_OF_ALL / sum(1 / rank for rank in range(1, SMALL_HOSTS + 1))
    rows = [f"host{n:03}.us-east.host.example,{ACCOUNTS_OF_ONE}" for n in range(BIG_HOSTS)]
    rows += [
        f"pds{rank}.example,{max(1, round(largest / rank))}" for rank in range(1, SMALL_HOSTS + 1)
    ]
    (session.folder / "sizes.csv").write_text("\n".join(rows))
    yield
