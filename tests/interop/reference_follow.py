"""Hold `repos follow` to reference servers that change under it: run by hand, not by pytest.

    python tests/interop/reference_follow.py MANIFEST WORKSPACE [--kills 100] [--seed 1]

MANIFEST describes a running network of reference servers: `plc`, `pds`, `password`, and `accounts`
with did, handle, pds and status. Accounts write, update, delete, leave, come back, move to another
server and are deleted, while the follower is killed with SIGKILL again and again: in its first
moments, while it follows, and while repositories are fetched again. At the end every record that
the servers list must be in the archive, in the folded events and, unless it is told
--live-tables off, in the table of records with the same JSON, and nothing else; each event of a
record must be there once and fit what was before it. Where a server's own getRepo is not what it
lists, nobody can know better, and that is said apart.

Other flags go to the follower. Accounts leave and come back so often here that their fetches are
soon minutes apart: say --resync-pause 0.2, or wait for longer in the end (--settled-within).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import libipld

from trawlnet import open_archive
from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.format import rca
from trawlnet.archive.reader import find_segments, open_segment

PROGRAM = [sys.executable, "-m", "trawlnet", "repos"]
COLLECTIONS = ("app.bsky.feed.post", "com.example.thing", "app.bsky.graph.follow")
LIVES = ("early", "following", "fetching")  # What the next kill waits for,
OFTEN = (1, 2, 2)  # and how often.
MOST_EVENTS = 40_000  # Bytes of the event log that a life which follows may write.
INTO = 1.0  # Seconds that it goes on then, at most.
BATCH = 20
RATES = ("--default-pds-rps", "50", "--small-pds-rps", "50", "--plc-rps", "200")

Truth = dict[str, Any]  # Records by path.


@dataclass
class Account:
    did: str
    handle: str
    pds: str
    password: str
    token: str = ""
    is_active: bool = True
    is_gone: bool = False
    paths: list[str] = field(default_factory=list)


class Phase(StrEnum):
    """What a follower was doing when it was killed."""

    STARTING = "starting"
    CONNECTING = "before its first commit"
    FOLLOWING = "following"
    FETCHING = "fetching"  # Before its first commit.
    BOTH = "following and fetching"


FOLLOWING = (Phase.FOLLOWING, Phase.BOTH)
FETCHING = (Phase.FETCHING, Phase.BOTH)


class Network:
    """The servers, through their own API."""

    def __init__(self, manifest: dict[str, Any], rng: random.Random) -> None:
        self.plc: str = manifest["plc"]
        self.pdses: list[str] = manifest["pds"]
        self.password: str = manifest["password"]
        self.header: dict[str, str] = manifest["rateLimitBypassHeader"]
        self.run_dir = Path(manifest.get("runDir") or f"/dev/shm/devnet-{manifest['ports']['plc']}")
        self.rng = rng
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.made = 0
        rows = {one["did"]: one["pds"] for pds in self.pdses for one in self.served(pds)}
        rows |= {one["did"]: one["pds"] for one in manifest["accounts"]}
        self.accounts = [self.account(did, pds) for did, pds in rows.items()]
        self.moved: list[Account] = []

    def served(self, pds: str) -> Iterator[dict[str, str]]:
        """An earlier trial may have made some."""
        cursor: dict[str, str] = {}
        while True:
            page = self.call(pds, "com.atproto.sync.listRepos", limit="500", **cursor)
            yield from ({"did": one["did"], "pds": pds} for one in page["repos"])
            if "cursor" not in page:
                break
            cursor = {"cursor": page["cursor"]}

    def account(self, did: str, pds: str) -> Account:
        """As it is now: an earlier trial may have moved or deleted it."""
        found = Account(did, did, pds, self.password)
        try:
            with urllib.request.urlopen(f"{self.plc}/{found.did}/data") as answer:
                found.pds = json.load(answer)["services"]["atproto_pds"]["endpoint"]
            status = self.call(found.pds, "com.atproto.sync.getRepoStatus", did=found.did)
        except (urllib.error.HTTPError, KeyError):
            found.is_active, found.is_gone = False, True
            return found
        found.is_active = status["active"]
        # Of those that are away only the ones that left by themselves can come back.
        found.is_gone = not found.is_active and status.get("status") != "deactivated"
        return found

    def call(self, pds: str, method: str, body: Any = None, token: str = "", **query: str) -> Any:
        headers = dict(self.header)
        data = None
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if isinstance(body, bytes):
            data, headers["Content-Type"] = body, "application/vnd.ipld.car"
        elif body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        words = urllib.parse.urlencode(query)
        url = f"{pds}/xrpc/{method}" + (f"?{words}" if words else "")
        request = urllib.request.Request(url, data, headers)
        if body is None and data is None and method.split(".")[-1] in POSTED:
            request.method = "POST"
        with urllib.request.urlopen(request, timeout=60) as answer:
            raw = answer.read()
            if "json" in answer.headers.get("Content-Type", ""):
                return json.loads(raw)
            return raw

    def act(self) -> None:
        acts = [(self.write, 60), (self.batch, 15), (self.leave, 3), (self.come_back, 4)]
        acts += [(self.move, 2), (self.delete, 1), (self.arrive, 3)]
        (chosen,) = self.rng.choices([act for act, _ in acts], [weight for _, weight in acts])
        name = chosen.__name__
        try:
            self.done[name] += bool(chosen())
        except (urllib.error.URLError, KeyError, OSError) as error:
            detail = error.read()[:200] if isinstance(error, urllib.error.HTTPError) else error
            self.failed[f"{name}: {detail!r}"] += 1

    def one(self, keep: Callable[[Account], bool]) -> Account | None:
        found = [account for account in self.accounts if keep(account)]
        return self.rng.choice(found) if found else None

    def session(self, account: Account) -> str:
        if not account.token:
            body = {"identifier": account.handle, "password": account.password}
            answer = self.call(account.pds, "com.atproto.server.createSession", body)
            account.token = answer["accessJwt"]
        return account.token

    def record(self, collection: str) -> dict[str, Any]:
        rng = self.rng
        # No two records are the same: when one of two goes, a PDS may let go of the other's block.
        self.made += 1
        at = f"2026-01-01T00:00:00.{self.made:06}Z"
        made: dict[str, Any] = {"$type": collection, "createdAt": at}
        if collection.endswith("follow"):
            made["subject"] = rng.choice(self.accounts).did
        else:
            made["text"] = rng.choice(["plain", "ünï ☀️", 'quo"te\\', ""]) + str(rng.random())
        if collection.startswith("com."):
            made |= {"n": rng.randrange(-(2**40), 2**40), "deep": [{"a": [None, True, {}]}]}
        return made

    def change(self, account: Account) -> dict[str, Any]:
        kind = "create" if not account.paths else self.rng.choice(["create", "update", "delete"])
        if kind == "create":
            collection = self.rng.choice(COLLECTIONS)
            rkey = f"k{self.rng.randrange(10**12):x}"
        else:
            collection, rkey = self.rng.choice(account.paths).split("/")
        row = {"$type": f"com.atproto.repo.applyWrites#{kind}"}
        row |= {"collection": collection, "rkey": rkey}
        path = f"{collection}/{rkey}"
        if kind == "delete":
            account.paths.remove(path)
            return row
        if kind == "create":
            account.paths.append(path)
        return {**row, "value": self.record(collection)}

    def apply(self, count: int) -> bool:
        account = self.one(lambda one: one.is_active)
        if account is None:
            return False
        rows: dict[str, dict[str, Any]] = {}
        for _ in range(count):
            row = self.change(account)
            rows.setdefault(f"{row['collection']}/{row['rkey']}", row)
            if rows[f"{row['collection']}/{row['rkey']}"] is not row:
                account.paths = []  # Two changes of one record: what is there is asked for anew.
        body = {"repo": account.did, "validate": False, "writes": list(rows.values())}
        try:
            self.call(
                account.pds, "com.atproto.repo.applyWrites", body, token=self.session(account)
            )
        except urllib.error.HTTPError:
            account.token = ""
            account.paths = []
            raise
        return True

    def write(self) -> bool:
        return self.apply(1)

    def batch(self) -> bool:
        return self.apply(self.rng.randrange(2, BATCH))

    def leave(self) -> bool:
        account = self.one(lambda one: one.is_active)
        if account is None or sum(one.is_active for one in self.accounts) < 5:
            return False
        token = self.session(account)
        self.call(account.pds, "com.atproto.server.deactivateAccount", {}, token=token)
        account.is_active = False
        return True

    def come_back(self) -> bool:
        account = self.one(lambda one: not one.is_active and not one.is_gone)
        if account is None:
            return False
        account.token = ""
        token = self.session(account)
        self.call(account.pds, "com.atproto.server.activateAccount", token=token)
        account.is_active = True
        return True

    def arrive(self) -> bool:
        pds = self.rng.choice(self.pdses)
        name = f"n{self.rng.randrange(10**9)}.pds{self.pdses.index(pds)}.test"
        body = {"handle": name, "email": f"{name}@example.com", "password": self.password}
        answer = self.call(pds, "com.atproto.server.createAccount", body)
        account = Account(answer["did"], name, pds, self.password, answer["accessJwt"])
        self.accounts.append(account)
        return True

    def delete(self) -> bool:
        account = self.one(lambda one: one.is_active)
        if account is None or sum(one.is_active for one in self.accounts) < 8:
            return False
        token = self.session(account)
        self.call(account.pds, "com.atproto.server.requestAccountDelete", token=token)
        mailed = self.mailed(account, "delete_account")
        body = {"did": account.did, "password": account.password, "token": mailed}
        self.call(account.pds, "com.atproto.server.deleteAccount", body)
        account.is_active, account.is_gone = False, True
        return True

    def move(self) -> bool:
        account = self.one(lambda one: one.is_active)
        if account is None:
            return False
        old = account.pds
        new = self.rng.choice([pds for pds in self.pdses if pds != old])
        token = self.session(account)
        about = self.call(new, "com.atproto.server.describeServer")
        proof = self.call(
            old,
            "com.atproto.server.getServiceAuth",
            token=token,
            aud=about["did"],
            lxm="com.atproto.server.createAccount",
        )["token"]
        handle = f"m{self.rng.randrange(10**9)}.pds{self.pdses.index(new)}.test"
        body = {"did": account.did, "handle": handle, "password": account.password}
        body["email"] = f"{handle}@example.com"
        made = self.call(new, "com.atproto.server.createAccount", body, token=proof)["accessJwt"]
        car = self.call(old, "com.atproto.sync.getRepo", did=account.did)
        self.call(new, "com.atproto.repo.importRepo", car, token=made)
        wanted = self.call(new, "com.atproto.identity.getRecommendedDidCredentials", token=made)
        self.call(old, "com.atproto.identity.requestPlcOperationSignature", token=token)
        mailed = self.mailed(account, "plc_operation")
        signed = self.call(
            old, "com.atproto.identity.signPlcOperation", {"token": mailed, **wanted}, token=token
        )
        body = {"operation": signed["operation"]}
        self.call(new, "com.atproto.identity.submitPlcOperation", body, token=made)
        self.call(new, "com.atproto.server.activateAccount", token=made)
        self.call(old, "com.atproto.server.deactivateAccount", {}, token=token)
        account.pds, account.token, account.handle = new, made, handle
        self.moved.append(account)
        return True

    def sign_off(self) -> None:
        """Until its first write a repository that has moved is signed by the key of the server that
        it has left, so that nobody believes it."""
        for account in self.moved:
            if account.is_active:
                row: dict[str, Any] = {"$type": "com.atproto.repo.applyWrites#create"}
                row |= {"collection": COLLECTIONS[0], "value": self.record(COLLECTIONS[0])}
                body = {"repo": account.did, "validate": False, "writes": [row]}
                token = self.session(account)
                self.call(account.pds, "com.atproto.repo.applyWrites", body, token=token)

    def mailed(self, account: Account, purpose: str) -> str:
        """The word that the server would have sent by mail."""
        number = self.pdses.index(account.pds)
        with sqlite3.connect(f"file:{self.run_dir}/pds{number}/account.sqlite?mode=ro") as db:
            question = "SELECT token FROM email_token WHERE did = ? AND purpose = ?"
            (row,) = db.execute(question, (account.did, purpose)).fetchall()
        return str(row[0])

    def truth(self, account: Account) -> Truth:
        if not account.is_active:
            return {}
        about = self.call(account.pds, "com.atproto.repo.describeRepo", repo=account.did)
        return dict(self.listed(account, about["collections"]))

    def listed(self, account: Account, collections: list[str]) -> Iterator[tuple[str, Any]]:
        for collection in collections:
            cursor: dict[str, str] = {}
            while True:
                page = self.call(
                    account.pds,
                    "com.atproto.repo.listRecords",
                    repo=account.did,
                    collection=collection,
                    limit="100",
                    **cursor,
                )
                for row in page["records"]:
                    path = "/".join(row["uri"].split("/")[3:])
                    yield path, {"cid": row["cid"], "value": normal(row["value"])}
                if not page["records"] or "cursor" not in page:
                    break
                cursor = {"cursor": page["cursor"]}

    def lacks(self, account: Account, truth: Truth) -> list[str]:
        """Paths that the server lists, and of which its own getRepo has no record or another."""
        if not account.is_active:
            return []
        car = self.call(account.pds, "com.atproto.sync.getRepo", did=account.did)
        header, blocks = libipld.decode_car(car)
        commit = blocks[header["roots"][0]]
        there = {
            path: libipld.encode_cid(cid)
            for path, cid in leaves(blocks, commit["data"])
            if cid in blocks
        }
        listed = {path: one["cid"] for path, one in truth.items()}
        return sorted({path for path, _ in listed.items() ^ there.items()})


def leaves(blocks: Mapping[bytes, Any], root: bytes | None) -> Iterator[tuple[str, bytes]]:
    """Paths and CIDs of the records below a node of a repository's tree."""
    if root is None or root not in blocks:
        return
    node, key = blocks[root], b""
    yield from leaves(blocks, node["l"])
    for entry in node["e"]:
        key = key[: entry["p"]] + entry["k"]
        yield key.decode(), entry["v"]
        yield from leaves(blocks, entry["t"])


POSTED = {"activateAccount", "requestAccountDelete", "requestPlcOperationSignature"}


def normal(value: Any) -> Any:
    """Base64 may be padded or not: both are the same bytes."""
    if isinstance(value, dict):
        if set(value) == {"$bytes"}:
            return {"$bytes": value["$bytes"].rstrip("=")}
        return {name: normal(item) for name, item in value.items()}
    return [normal(item) for item in value] if isinstance(value, list) else value


class FollowerProcess:
    def __init__(self, network: Network, workspace: Path, words: list[str]) -> None:
        where = [word for pds in network.pdses for word in ("--pds", pds)]
        self.command = [*PROGRAM, "follow", "-w", str(workspace), *where, *words]
        self.command += ["--plc-url", network.plc, "--allow-private-hosts", *RATES]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.metrics = f"127.0.0.1:{probe.getsockname()[1]}"
        self.command += ["--metrics-address", self.metrics]
        self.events = workspace / "spool" / "repo_events"
        self.first = ["--from-start"]
        self.log = workspace.parent / f"{workspace.name}.stderr"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [*self.command, *self.first]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.first = []

    def written(self) -> int:
        """Bytes of the event log."""
        return sum(path.stat().st_size for path in self.events.glob("*.jsonl"))

    def phase(self) -> Phase:
        """As its metrics tell."""
        try:
            with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=5) as answer:
                rows = [line.rpartition(" ") for line in answer.read().decode().splitlines()]
        except OSError:
            return Phase.STARTING
        figures = {name: float(number) for name, _, number in rows if name.startswith(FIGURES)}
        if figures[IN_FLIGHT]:
            return Phase.BOTH if figures[VERIFIED] else Phase.FETCHING
        return Phase.FOLLOWING if figures[VERIFIED] else Phase.CONNECTING

    def kill(self) -> None:
        assert self.process is not None
        if self.process.poll() is not None:
            raise SystemExit(f"the follower ended with {self.process.returncode}: see {self.log}")
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


IN_FLIGHT = 'trawlnet_in_flight{crawler="repos"}'
VERIFIED = "trawlnet_follow_verified_total"
FIGURES = (IN_FLIGHT, VERIFIED)


def archived(workspace: Path) -> dict[str, Truth]:
    """Records by DID as readers of the archive see them."""
    records: dict[str, Truth] = {}
    if not list((workspace / "archive").glob("*.rca")):
        return records
    for row in open_archive(workspace / "archive").records():
        path = f"{row.collection}/{row.rkey}"
        records.setdefault(row.did, {})[path] = normal(row.value)
    return records


@dataclass
class Folded:
    """What a consumer knows that has applied every event once, by its id."""

    fetched: set[tuple[str, str]]  # DIDs and revs of the repositories that visits brought.
    records: dict[str, Truth] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    time_us: int = 0

    def apply(self, row: dict[str, Any]) -> None:
        kind, did = row["kind"], row["did"]
        if row["time_us"] <= self.time_us and row["id"] not in self.seen:
            self.wrong.append(f"log {did}: {row['id']} is not later than the one before it")
        self.time_us = max(self.time_us, row["time_us"])
        if row["id"] in self.seen:
            self.counts[f"{kind} repeated"] += 1
            if kind == "commit":
                self.wrong.append(f"log {did}: {row['id']} is there twice")
            return
        self.seen.add(row["id"])
        self.counts[f"{kind} {row.get('operation', '')}".rstrip()] += 1
        if kind == "account" and not row["active"]:
            self.records.pop(did, None)
        if kind == "commit":
            is_fetched = (did, row["rev"]) in self.fetched
            self.counts["from visits" if is_fetched else "from commits"] += 1
            self.change(row)

    def change(self, row: dict[str, Any]) -> None:
        mine = self.records.setdefault(row["did"], {})
        path, operation = f"{row['collection']}/{row['rkey']}", row["operation"]
        if (operation == "create") is (path in mine):
            self.wrong.append(f"log {row['did']} {path}: {operation} at {row['rev']} does not fit")
        if operation == "delete":
            mine.pop(path, None)
        else:
            mine[path] = {"cid": row["cid"], "value": normal(row["record"])}


def folded(workspace: Path) -> Folded:
    found = Folded(fetched(workspace))
    for path in sorted((workspace / "spool" / "repo_events").glob("repo_events-*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:  # The last one may be in the making.
            found.apply(json.loads(line))
    return found


def fetched(workspace: Path) -> set[tuple[str, str]]:
    """Of every full block, of those that do not count any more, too."""
    found = set[tuple[str, str]]()
    if not list((workspace / "archive").glob("*.rca")):
        return found
    for path in find_segments(workspace / "archive"):
        segment = open_segment(path)
        with segment.open() as fd:
            for block in segment.blocks(fd, check=False):
                if isinstance(block, FoundBlock) and block.head.form is not rca.Form.DELTA:
                    found.add((block.head.did, block.head.rev))
    return found


def compare(network: Network, workspace: Path) -> tuple[list[str], Counter[str]]:
    events = folded(workspace)
    archive = archived(workspace)
    wrong, counts = events.wrong, events.counts
    for account in network.accounts:
        truth = network.truth(account)
        counts["records"] += len(truth)
        values = {path: one["value"] for path, one in truth.items()}
        wrong += differences("archive", account, values, archive.pop(account.did, {}))
        wrong += differences("events", account, truth, events.records.pop(account.did, {}))
    for what, left in (("archive", archive), ("events", events.records)):
        wrong += [f"{what} {did} is no account of ours" for did, records in left.items() if records]
    return wrong, counts


def tabled(workspace: Path) -> tuple[dict[str, Truth], list[str]]:
    """Records by DID as the table has them, and those that it has twice."""
    sql = "SELECT repo, collection, rkey, record_json FROM repo_records"
    command = [*PROGRAM, "query", "-w", str(workspace), sql, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"the table cannot be read: {ran.stderr}")
    records: dict[str, Truth] = {}
    twice: list[str] = []
    for line in ran.stdout.split("\n")[:-1]:
        row = json.loads(line)
        path, mine = f"{row['collection']}/{row['rkey']}", records.setdefault(row["repo"], {})
        if path in mine:
            twice.append(f"table {row['repo']} {path}: is there twice")
        mine[path] = normal(json.loads(row["record_json"]))
    return records, twice


def compare_table(network: Network, workspace: Path) -> list[str]:
    found, wrong = tabled(workspace)
    for account in network.accounts:
        truth = {path: one["value"] for path, one in network.truth(account).items()}
        wrong += differences("table", account, truth, found.pop(account.did, {}))
    return wrong + [f"table {did} is no account of ours" for did in found]


def lacking(network: Network) -> dict[str, list[str]]:
    """By DID, what servers list and do not serve."""
    found = {one.did: network.lacks(one, network.truth(one)) for one in network.accounts}
    return {did: paths for did, paths in found.items() if paths}


def differences(what: str, account: Account, truth: Truth, found: Truth) -> Iterator[str]:
    who = f"{what} {account.did} ({account.pds}, active: {account.is_active})"
    for path in sorted(truth.keys() - found.keys()):
        yield f"{who} {path}: missing"
    for path in sorted(found.keys() - truth.keys()):
        yield f"{who} {path}: not on the server"
    for path in sorted(truth.keys() & found.keys()):
        if truth[path] != found[path]:
            yield f"{who} {path}: differs"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("manifest", type=Path)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--shortest", type=float, default=0.5, help="seconds, as the next")
    parser.add_argument("--longest", type=float, default=6.0, help="of a life that ends early")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds of any other life")
    parser.add_argument(
        "--settled-within", type=float, default=600.0, help="seconds from the last change"
    )
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two acts")
    parser.add_argument("--seed", type=int, default=1)
    arguments, words = parser.parse_known_args()
    rng = random.Random(arguments.seed)
    network = Network(json.loads(arguments.manifest.read_text()), random.Random(arguments.seed + 1))
    follower = FollowerProcess(network, arguments.workspace, words)
    stop = threading.Event()

    def live() -> None:
        while not stop.wait(arguments.pause):
            network.act()

    acting = threading.Thread(target=live, daemon=True)
    acting.start()

    def quiet() -> None:
        stop.set()
        acting.join()
        network.sign_off()

    try:
        trial(arguments, network, follower, rng, quiet)
    finally:
        if follower.process is not None:
            follower.process.kill()


def trial(
    arguments: argparse.Namespace,
    network: Network,
    follower: FollowerProcess,
    rng: random.Random,
    on_quiet: Callable[[], object],
) -> None:
    phases: Counter[str] = Counter()
    for number in range(arguments.kills):
        follower.start()
        phases[live_once(arguments, follower, rng)] += 1
        follower.kill()
        if number % 10 == 9:
            print(f"{number + 1} kills: {dict(phases)}", file=sys.stderr, flush=True)
    follower.start()
    on_quiet()
    settled, began = False, time.monotonic()
    while not settled and time.monotonic() < began + arguments.settled_within:
        time.sleep(3)
        wrong, counts = compare(network, arguments.workspace)
        wrong = excused(wrong, lacking(network) if wrong else {})
        settled = not wrong
        print(f"{len(wrong)} differences left", file=sys.stderr, flush=True)
    code = follower.stop()
    took = time.monotonic() - began
    wrong, counts = compare(network, arguments.workspace)
    if (arguments.workspace / "tables").exists():
        wrong += compare_table(network, arguments.workspace)
        counts["tables compared"] += 1
    for line in wrong[:50]:
        print(line)
    faults = lacking(network)
    for did, paths in faults.items():
        print(f"{did}: its server's getRepo is not what it lists: {paths}")
    print(f"killed while {dict(phases)}; settled within {took:.0f} s")
    print(f"acts: {dict(network.done)}; refused: {dict(network.failed)}")
    print(f"events: {dict(counts)}; the follower ended with {code}")
    ours = excused(wrong, faults)
    print(f"{counts['records']} records, {arguments.kills} kills, wrong: {len(wrong)}", end=", ")
    print(f"not by a server's fault: {len(ours)}")
    sys.exit(bool(ours))


def live_once(
    arguments: argparse.Namespace, follower: FollowerProcess, rng: random.Random
) -> Phase:
    """Until the follower is to be killed; returns what it is doing then."""
    (life,) = rng.choices(LIVES, OFTEN)
    if life == "early":
        time.sleep(rng.uniform(arguments.shortest, arguments.longest))
        return follower.phase()
    wanted = FOLLOWING if life == "following" else FETCHING
    goal = follower.written() + (rng.randint(1, MOST_EVENTS) if life == "following" else 0)
    end = time.monotonic() + arguments.patience
    while time.monotonic() < end:
        if follower.written() >= goal and follower.phase() in wanted:
            break
        time.sleep(0.02)
    if rng.random() < 0.5:  # Else at once: a fetch takes some hundredths of a second.
        time.sleep(rng.uniform(0.0, INTO))
    return follower.phase()


def excused(wrong: list[str], faults: Mapping[str, list[str]]) -> list[str]:
    """Without the differences of accounts whose servers do not serve what they list: such a
    repository is refused as a whole."""
    return [line for line in wrong if not any(f" {did} (" in line for did in faults)]


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
