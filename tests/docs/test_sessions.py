"""Pages whose transcripts are run from top to bottom, in a folder of their own.

Each line that a page shows must be printed. Numbers, times and names of runs may differ, as they
do from one machine to the next, and from one law of pacing to the next.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks, commands
from tests.support.program import PATIENCE, environment


@dataclass
class Session:
    folder: Path
    stands_for: dict[str, str] = field(default_factory=dict)  # What a page says, and what is here.

    def run(self, line: str, shown: tuple[str, ...]) -> None:
        for said, here in self.stands_for.items():
            line = line.replace(said, here)
        ran = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=environment(PATH=os.pathsep.join(self._path())),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        printed = [self._rough(line) for line in ran.stdout.splitlines()]
        assert ran.returncode == 0, f"{line}\n{ran.stdout}"
        for one in shown:
            assert self._rough(one) in printed, f"{line}\n{one}\nis not in\n{ran.stdout}"

    def _path(self) -> list[str]:
        return [f"{self.folder}/bin", str(Path(sys.executable).parent), os.environ["PATH"]]

    def _rough(self, line: str) -> str:
        for said, here in self.stands_for.items():
            line = line.replace(said, here)
        line = re.sub(r"\d{8}T\d{6}Z", "RUN", line)
        line = re.sub(r"\d[\d,.]*", "#", line)
        return re.sub(r" +", " ", re.sub(r"# (B|KB|MB|s|m)\b", "# ", line))


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
        session.run(
            f"trawlnet web crawl -w ./site {url} --allow-private-hosts --req-per-sec 50", ()
        )
        yield


@contextmanager
def a_network(session: Session) -> Iterator[None]:
    """The one that the page begins with: `trawlnet sim`, on ports that are free here."""
    start = [sys.executable, "-m", "trawlnet", *["sim", "atproto", "--seed", "7", "--scale", "0.5"]]
    process = subprocess.Popen(start, stdout=subprocess.PIPE, env=environment(), text=True)
    try:
        assert process.stdout
        ready = json.loads(process.stdout.readline())
        here = [ready["plc"], ready["relay"], *ready["pds"]]
        said = ["127.0.0.1", *(f"127.8.0.{n}" for n in range(1, len(here)))]
        for host, url in zip(said, here, strict=True):
            session.stands_for[f"{host}:25433"] = url.removeprefix("http://")
        yield
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def nothing(session: Session) -> Iterator[None]:
    yield


# Pages by their world; and commands of theirs that are not run, with the reason.
SESSIONS = {
    "docs/howto/crawl-a-site.md": a_site,
    "docs/howto/find-every-pds.md": a_network,
    "docs/howto/look-at-what-came-home.md": a_crawled_site,
    "docs/howto/tune-ids.md": nothing,
}
LEFT_OUT = {
    "python -m http.server": "the test serves the site",
    "trawlnet web crawl -w ./site https://": "a host on the internet",
    "pip install": "it is installed",
    "trawlnet ids simulate --pause": "minutes",
    "trawlnet sim atproto": "the test serves the network",
    "trawlnet pds ban": "a host that the simulated network does not have",
    "trawlnet web report -w ./site --json | jq": "statuses of another site",
}


@pytest.mark.parametrize("page", SESSIONS)
def test_a_page_shows_what_is_printed(page: str, tmp_path: Path) -> None:
    session = Session(tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "trawlnet"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trawlnet "$@"\n')
    program.chmod(0o755)
    ran = 0
    with SESSIONS[page](session):
        for block in blocks():
            if block.page != page or not block.is_shell:
                continue
            for command in commands(block):
                if not command.line.startswith(tuple(LEFT_OUT)):
                    session.run(command.line, command.shown)
                    ran += 1
    assert ran > 0


def test_pages_of_sessions_are_there() -> None:
    assert all((ROOT / page).exists() for page in SESSIONS)
