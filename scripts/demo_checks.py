"""What the demo checks: the archive against the network's own account of itself."""

# ruff: noqa: S310 - Every URL here is one of the simulated network's.
from __future__ import annotations

import hashlib
import json
import urllib.parse
import urllib.request
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from trawlnet.crawlers.repos.check import trouble_with
from trawlnet.sink.records import latest, read_index

INACTIVE = ("deactivated", "takendown", "suspended")
# Servers with these habits answer a client that is patient; of the others nothing is expected.
RELIABLE = ("good", "slow", "flapping", "endless_cursor", "throttle_retry_after", "throttle_date",
            "throttle_reset", "throttle_bare")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Check:
    what: str
    good: bool
    figures: str


@dataclass(frozen=True, slots=True)
class Truth:
    """What a crawl of the network must end up with; keys as the crawler writes them."""

    repos: Mapping[str, tuple[str, str]]  # Key: the DID, and the URL of its server.
    inactive: Mapping[str, str]  # Key: reason.
    accounts: int
    habits: Mapping[str, str]  # Server: its habit.
    unlisted: int  # Servers that the relay does not know.

    @classmethod
    def read(cls, manifest: Path) -> Truth:
        world = json.loads(manifest.read_bytes())
        hosts = world["hosts"]
        habits = {url: host["habit"] for url, host in hosts.items() if host["on_relay"]}
        rows = {did: row for did, row in world["dids"].items() if row["pds"] in habits}
        return cls(
            {_key(did, r): (did, r["pds"]) for did, r in rows.items() if r["archivable"]},
            {
                _key(did, row): row["status"]
                for did, row in rows.items()
                if row["status"] in INACTIVE and habits[row["pds"]] in RELIABLE
            },
            world["accounts"],
            habits,
            len(hosts) - len(habits),
        )

    def summary(self) -> str:
        bad = sorted(habit for habit in self.habits.values() if habit != "good")
        good = len(self.habits) - len(bad)
        return (
            f"{self.accounts} accounts; {good} good servers, {len(bad)} bad ones "
            f"({', '.join(bad) or 'none'}), {self.unlisted} that the relay does not know\n"
            f"  a perfect crawl ends with {len(self.repos)} repositories and the reasons for "
            f"{len(self.inactive)} inactive accounts"
        )


def _key(did: str, row: Mapping[str, Any]) -> str:
    return f"{did}@{row['pds'].removeprefix('http://')}"


def check_archive(workspace: Path, truth: Truth) -> Iterator[Check]:
    """Everything is there once, is a whole repository, and is what the server serves now."""
    index = workspace / "archive" / "index.jsonl"
    held = latest(index)
    missing = truth.repos.keys() - held.keys()
    yield Check(
        "every repository is there",
        not missing,
        f"{len(truth.repos) - len(missing)} of {len(truth.repos)}",
    )
    whole = same = 0
    for key, (did, pds) in truth.repos.items():
        if key in held:
            car = _read(workspace, held[key].bodies[0].sha256)
            whole += car is not None and not trouble_with(car, did)
            same += car is not None and car == _fetch(pds, did)
    there = len(truth.repos)
    yield Check("each is a whole CAR: hashes, tree, owner", whole == there, f"{whole} of {there}")
    yield Check(
        "each is what its server sends when asked again", same == there, f"{same} of {there}"
    )
    yield _once(truth, index)


def _once(truth: Truth, index: Path) -> Check:
    """Under one key only, and every line of that key names the same body."""
    bodies: dict[str, set[str]] = defaultdict(set)
    keys: dict[str, set[str]] = defaultdict(set)
    lines = 0
    for record in read_index(index):
        lines += 1
        bodies[record.key].update(body.sha256 for body in record.bodies)
        keys[record.key.partition("@")[0]].add(record.key)
    once = sum(len(bodies[key]) == 1 == len(keys[did]) for key, (did, _) in truth.repos.items())
    again = lines - len(bodies)
    return Check(
        "each is there once, with one content",
        once == len(truth.repos),
        f"{once} of {len(truth.repos)}; {again} were written a second time, the same",
    )


def _read(workspace: Path, sha256: str) -> bytes | None:
    """The body with this name, if it is there and is what its name says."""
    path = workspace / "archive" / "cars" / sha256[:2] / sha256[2:4] / f"{sha256}.car"
    try:
        body = path.read_bytes()
    except FileNotFoundError:
        return None
    return body if hashlib.sha256(body).hexdigest() == sha256 else None


_TRIES = 10  # Bad servers of the network refuse some requests in a row.


def _fetch(pds: str, did: str) -> bytes | None:
    url = f"{pds}/xrpc/com.atproto.sync.getRepo?did={urllib.parse.quote(did, safe=':')}"
    for _ in range(_TRIES):
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return bytes(answer.read())
        except (OSError, HTTPException):
            continue
    return None


def check_failures(truth: Truth, failures: Mapping[str, str]) -> Iterator[Check]:
    right = sum(failures.get(key) == reason for key, reason in truth.inactive.items())
    words = ", ".join(f"{n} {word}" for word, n in sorted(Counter(truth.inactive.values()).items()))
    yield Check(
        "every inactive account has its reason",
        right == len(truth.inactive),
        f"{right} of {len(truth.inactive)} ({words})",
    )
    wrong = truth.repos.keys() & failures.keys()
    yield Check("no repository is on record as a failure", not wrong, f"{len(wrong)}")


@dataclass(frozen=True, slots=True)
class Kill:
    at: float
    settled: int  # Tasks that the store had settled by then, as the command line told.


def check_manners(requests: Path, rps: float, kill: Kill, until: float) -> list[Check]:
    """From the servers' side, up to `until`: after that we asked ourselves."""
    rows = [json.loads(line) for line in requests.read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["time"] < until]
    return [_rate(rows, rps), _not_again(rows, kill)]


# One process plays all servers, and notes a request when it gets to it. While it builds
# repositories it has been seen to stand still for 0.56 s; what queued up then is noted at once.
_STALL = 0.6


def _rate(rows: Sequence[Mapping[str, Any]], rps: float) -> Check:
    starts: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        starts[row["host"]].append(row["time"])
    busiest = max(_most_within_a_second(sorted(times)) for times in starts.values())
    allowed = int(rps * (1.0 + _STALL)) + 1
    return Check(
        f"servers were asked {rps:g} times a second at most",
        busiest <= allowed,
        f"{busiest} noted in one second; up to {allowed} can be {rps:g} noted late",
    )


def _not_again(rows: Sequence[Mapping[str, Any]], kill: Kill) -> Check:
    """One task is one path on one server. What was asked before the kill and is not settled may be
    asked again; if more than that is, something settled was."""
    before = {(row["host"], row["path"]) for row in rows if row["time"] < kill.at}
    after = {(row["host"], row["path"]) for row in rows if row["time"] >= kill.at}
    open_then, again = len(before) - kill.settled, len(before & after)
    return Check(
        "what was settled before the kill was not asked again",
        again <= open_then,
        f"{again} asked again; {open_then} of {len(before)} were not settled",
    )


def _most_within_a_second(times: Sequence[float]) -> int:
    return max(bisect_right(times, start + 1.0) - at for at, start in enumerate(times))
