"""The site that bench/web.py crawls: a seeded tree of static pages, and nginx to serve it."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PAGE_BYTES = 17_000
LINKS = 30  # Of each page, with fragments; some lead to what robots.txt denies.
FORBIDDEN_EVERY = 7  # Pages.
FORBIDDEN = 50  # Different URLs that robots.txt denies.
ROBOTS = "User-agent: *\nDisallow: /private/\n"
_WORDS = ("harbour", "ledger", "winter", "copper", "signal", "meadow", "engine", "paper", "river")
_START = 5.0  # Seconds that nginx may take to listen.


@dataclass(frozen=True)
class Site:
    root: Path
    paths: frozenset[str]  # Of every page that may be asked for.
    digest: str  # Of all pages: equal trees have equal ones.


@dataclass
class Hits:
    """What nginx logged of one crawl."""

    seen: Counter[str] = field(default_factory=Counter)
    bad_statuses: int = 0

    def faults(self, site: Site) -> list[str]:
        """Empty when every page was asked for once and nothing else was."""
        pages = {path: n for path, n in self.seen.items() if path != "/robots.txt"}
        forbidden = [path for path in pages if path.startswith("/private/")]
        checks = {
            "missing": len(site.paths - pages.keys()),
            "unexpected": len(pages.keys() - site.paths) - len(forbidden),
            "asked for twice": sum(n > 1 for n in pages.values()),
            "denied by robots.txt": len(forbidden),
            "not 200": self.bad_statuses,
            "without a look at robots.txt": int("/robots.txt" not in self.seen),
        }
        return [f"{count} {what}" for what, count in checks.items() if count]


def made_site(root: Path, pages: int, seed: int) -> Site:
    """Page n leads to 2n+1 and 2n+2, so that all are within reach, and to others at random."""
    rng, digest = random.Random(seed), hashlib.sha256()
    shutil.rmtree(root, ignore_errors=True)
    (root / "p").mkdir(parents=True)
    (root / "private").mkdir()
    (root / "robots.txt").write_text(ROBOTS)
    paths = [f"/p/{number:06}.html" for number in range(pages)]
    for number, path in enumerate(paths):
        text = _page(rng, number, paths)
        digest.update(text.encode())
        (root / path[1:]).write_text(text)
    for number in range(FORBIDDEN):
        (root / "private" / f"{number}.html").write_text("<p>not for robots</p>")
    return Site(root, frozenset(paths), digest.hexdigest()[:16])


def _page(rng: random.Random, number: int, paths: list[str]) -> str:
    links = [paths[n] for n in (2 * number + 1, 2 * number + 2) if n < len(paths)]
    if number % FORBIDDEN_EVERY == 0:
        links.append(f"/private/{rng.randrange(FORBIDDEN)}.html")
    links += [rng.choice(paths) for _ in range(LINKS - len(links))]
    rng.shuffle(links)
    anchors = [f'<a href="{link}#s{rng.randrange(9)}">{rng.choice(_WORDS)}</a>' for link in links]
    head = f"<!doctype html><html><head><meta charset=utf-8><title>Page {number}</title></head>"
    size, parts = len(head), [head, f"<body><h1>Page {number}</h1>"]
    for turn in range(10_000):
        if size > PAGE_BYTES:
            break
        anchor = anchors[turn] if turn < LINKS else ""
        words = " ".join(rng.choices(_WORDS, k=60))
        parts.append(f'<div class="s"><p id="s{turn}">{anchor} {words}</p></div>\n')
        size += len(parts[-1])
    return "".join([*parts, "</body></html>"])


@contextmanager
def nginx(site: Site, folder: Path, core: int) -> Iterator[tuple[str, Hits]]:
    """One process of nginx on its own port; the hits are known when the block has ended."""
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if binary is None:
        raise SystemExit("nginx is missing: apt-get install nginx-light")
    port, log = free_port(), folder / "access.log"
    config = folder / "nginx.conf"
    config.write_text(_config(site, folder, log, port))
    log.unlink(missing_ok=True)
    command = ["taskset", "-c", str(core), binary, "-p", str(folder), "-c", str(config)]
    server = subprocess.Popen([*command, "-e", str(folder / "error.log")])
    hits = Hits()
    try:
        await_port(port)
        yield f"http://127.0.0.1:{port}", hits
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    for line in log.read_text().splitlines():
        status, path = line.split(" ", 1)
        hits.seen[path] += 1
        hits.bad_statuses += status != "200"


def _config(site: Site, folder: Path, log: Path, port: int) -> str:
    user = "user root;" if os.geteuid() == 0 else ""
    return f"""
{user} worker_processes 1; daemon off; master_process off; pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
    types {{ text/html html; text/plain txt; }}
    log_format hits '$status $request_uri'; access_log {log} hits;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    sendfile on; tcp_nodelay on; gzip off; keepalive_requests 1000000;
    open_file_cache max=500; etag on;
    server {{ listen 127.0.0.1:{port} backlog=1024; root {site.root}; }}
}}
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def await_port(port: int) -> None:
    end = time.monotonic() + _START
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > end:
            raise SystemExit("nginx does not listen: see its error.log")
        time.sleep(0.02)
