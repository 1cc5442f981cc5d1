"""Hold `trawlnet pds` to reference servers and a small relay: run by hand, not by pytest.

    python tests/interop/reference_pds.py MANIFEST WORKSPACE

MANIFEST describes a running network of reference servers: `plc`, `pds`, `password`, and `accounts`
with did, handle, pds, status and live records per collection. WORKSPACE must not exist yet. Every
PDS must be found, a dead one must back off as the schedule says, every record of an active account
must be indexed once under its DID, an idle rescan must cost one request for each thousand repos,
and what is written and deleted between two scans must appear and disappear.
"""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PROGRAM = [sys.executable, "-m", "trawlnet", "pds"]
COLLECTIONS = ("pub.chive.*", "app.bsky.*", "com.example.*")
POST = "app.bsky.feed.post"
TABLES = ("eprints", "reviews", "endorsements", "tags", "records", "invalid_records")
DEAD = "localhost:9"  # Discard: nobody listens there.
BACKOFF_HOURS = (1, 2, 4, 8, 16)
OPEN = ("--allow-private-hosts", "--plc-rps", "200")
FAST = (*OPEN, "--requests-per-minute", "6000")
HOSTS_ON_A_PAGE = 2


class Trial:
    """One network, one workspace, and what was found to be wrong."""

    def __init__(self, manifest: dict[str, Any], workspace: Path) -> None:
        self.manifest = manifest
        self.workspace = workspace
        self.wrong: list[str] = []
        self.checked: Counter[str] = Counter()

    def holds(self, what: str, *, got: object, expected: object) -> None:
        self.checked[what] += 1
        if got != expected:
            self.wrong.append(f"{what}: expected {expected!r}, got {got!r}")

    def told(self, verb: str, *words: str, may_fail: bool = False) -> list[Any]:
        line = [*PROGRAM, verb, "-w", str(self.workspace), *words, "--json"]
        done = subprocess.run(line, capture_output=True, encoding="utf-8", check=False)
        if done.returncode not in ((0, 3) if may_fail else (0,)):
            sys.exit(f"{' '.join(line)} ended with {done.returncode}: {done.stderr}")
        return [json.loads(row) for row in done.stdout.split("\n") if row]

    def scan(self, url: str, *, may_fail: bool = False) -> dict[str, Any]:
        (row,) = self.told("scan", url, *self.flags(), may_fail=may_fail)
        return dict(row)

    def flags(self) -> list[str]:
        wanted = [word for name in COLLECTIONS for word in ("--collections", name)]
        return [*FAST, *wanted, "--plc-url", self.manifest["plc"]]

    def registry(self) -> dict[str, dict[str, Any]]:
        return {row["pds_url"]: row for row in self.told("list")}

    def indexed(self) -> list[tuple[str, str, str]]:
        """Live rows of every table: URI, DID and PDS."""
        with sqlite3.connect(self.workspace / "state/pds/registry.db") as db:
            return [
                row
                for table in TABLES
                for row in db.execute(
                    f"SELECT uri, did, pds_url FROM {table} WHERE deleted_at IS NULL"
                )
            ]

    @property
    def active(self) -> list[dict[str, Any]]:
        return [one for one in self.manifest["accounts"] if one["status"] == "active"]


def main() -> None:
    trial = Trial(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
    with relay_of([*trial.manifest["pds"], f"http://{DEAD}"]) as relay:
        trial.told("discover", "--relay", relay, "--plc-url", trial.manifest["plc"], *OPEN)
        check_found(trial)
        trial.told("crawl", "--once", "--batch", "50", *trial.flags(), may_fail=True)
    check_records(trial)
    check_backoff(trial)
    check_idle(trial)
    check_changes(trial)
    for line in trial.wrong:
        print(line)
    checks = sum(trial.checked.values()) - trial.checked["records"]
    print(f"{trial.checked['records']} records, {checks} checks, wrong: {len(trial.wrong)}")
    sys.exit(bool(trial.wrong))


@contextmanager
def relay_of(urls: list[str]) -> Iterator[str]:
    """A relay that knows these hosts, a few on a page."""
    hosts = [
        {"hostname": url.removeprefix("http://"), "status": "active", "accountCount": 10}
        for url in urls
    ]

    class Listing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            place = int(query.get("cursor", ["0"])[0])
            end = place + HOSTS_ON_A_PAGE
            more = {"cursor": str(end)} if end < len(hosts) else {}
            body = json.dumps({"hosts": hosts[place:end], **more}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Listing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"ws://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def check_found(trial: Trial) -> None:
    known = trial.registry()
    for url in [*trial.manifest["pds"], f"http://{DEAD}"]:
        trial.holds(f"{url} is found", got=url in known, expected=True)


def check_records(trial: Trial) -> None:
    rows = trial.indexed()
    truth = {
        uri: (one["did"], one["pds"])
        for one in trial.active
        for name in one["records"]
        for uri in listed(one["pds"], one["did"], name)
    }
    trial.checked["records"] += len(truth)
    twice = [uri for uri, count in Counter(uri for uri, _, _ in rows).items() if count > 1]
    trial.holds("records indexed twice", got=twice, expected=[])
    found = {uri: (did, pds) for uri, did, pds in rows}
    trial.holds("records missing", got=sorted(truth.keys() - found.keys()), expected=[])
    trial.holds("records of nobody", got=sorted(found.keys() - truth.keys()), expected=[])
    astray = [uri for uri in truth.keys() & found.keys() if truth[uri] != found[uri]]
    trial.holds("records under another DID", got=astray, expected=[])


def check_backoff(trial: Trial) -> None:
    url = f"http://{DEAD}"
    for failures, hours in enumerate(BACKOFF_HOURS, start=1):
        if failures > 1:  # The crawl was the first.
            trial.scan(url, may_fail=True)
        row = trial.registry()[url]
        trial.holds("failures of a dead PDS", got=row["consecutive_failures"], expected=failures)
        waits = instant(row["next_scan_at"]) - instant(row["last_try_at"])
        trial.holds("hours until a dead PDS is asked", got=round(waits / 3600, 3), expected=hours)
        status = "unreachable" if failures == len(BACKOFF_HOURS) else "pending"
        trial.holds("status of a dead PDS", got=row["status"], expected=status)


def check_idle(trial: Trial) -> None:
    for url in trial.manifest["pds"]:
        repos = sum(one["pds"] == url for one in trial.manifest["accounts"])
        row = trial.scan(url)
        trial.holds(f"idle rescan of {url}", got=row["result"], expected="complete")
        requests = math.ceil(repos / 1000)
        trial.holds(f"requests of an idle rescan of {url}", got=row["requests"], expected=requests)


def check_changes(trial: Trial) -> None:
    account = next(one for one in trial.active if one["records"].get(POST))
    pds, did = account["pds"], account["did"]
    gone = listed(pds, did, POST)[0]
    token = asked(
        pds,
        "com.atproto.server.createSession",
        {"identifier": account["handle"], "password": trial.manifest["password"]},
    )["accessJwt"]
    where = {"repo": did, "collection": POST}
    rkey = gone.rsplit("/", 1)[1]
    asked(pds, "com.atproto.repo.deleteRecord", {**where, "rkey": rkey}, token)
    post = {"$type": POST, "text": "new", "createdAt": "2026-01-01T00:00:00Z"}
    made = asked(pds, "com.atproto.repo.createRecord", {**where, "record": post}, token)["uri"]
    before = {uri for uri, _, _ in trial.indexed()}
    row = trial.scan(pds)
    trial.holds("rescan after a change", got=row["result"], expected="complete")
    after = {uri for uri, _, _ in trial.indexed()}
    trial.holds("what a rescan withdraws", got=before - after, expected={gone})
    trial.holds("what a rescan adds", got=after - before, expected={made})


def listed(pds: str, did: str, collection: str) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        query = {"repo": did, "collection": collection, "limit": 100, "cursor": cursor}
        words = urllib.parse.urlencode({name: value for name, value in query.items() if value})
        with urllib.request.urlopen(f"{pds}/xrpc/com.atproto.repo.listRecords?{words}") as answer:
            page = json.load(answer)
        found += [record["uri"] for record in page["records"]]
        cursor = page.get("cursor", "")
        if not cursor or not page["records"]:
            return found


def asked(pds: str, method: str, body: dict[str, Any], token: str = "") -> Any:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{pds}/xrpc/{method}", data, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


if __name__ == "__main__":
    main()
