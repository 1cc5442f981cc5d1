"""What the demo checks: the archive against the network's own account of itself."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.reader import find_segments, open_segment
from trawlnet.archive.verify import verify_segment

# Servers with these habits answer a client that is patient; of the others nothing is expected.
RELIABLE = ("good", "slow", "flapping", "endless_cursor", "throttle_retry_after", "throttle_date",
            "throttle_reset", "throttle_bare")  # fmt: skip
# What a server says about an account in each state that has no repository to show.
REASONS = {
    "deactivated": "deactivated",
    "takendown": "takendown",
    "suspended": "suspended",
    "deleted": "not_found",
}
MOST_TWICE = 50  # Workers: so many repositories can be written and not yet settled at a kill.


@dataclass(frozen=True, slots=True)
class Check:
    what: str
    good: bool
    figures: str


@dataclass(frozen=True, slots=True)
class Truth:
    """What a crawl of the directory's accounts must end up with, by DID."""

    repos: Mapping[str, Mapping[str, int]]  # Records by collection.
    inactive: Mapping[str, str]  # Reasons.
    liars: frozenset[str]  # Accounts whose server makes their repository up.
    accounts: int
    habits: Sequence[str]  # One for each server.

    @classmethod
    def read(cls, manifest: Path) -> Truth:
        world = json.loads(manifest.read_bytes())
        habits = {url: host["habit"] for url, host in world["hosts"].items()}
        rows = {did: row for did, row in world["dids"].items() if row["in_plc"]}
        return cls(
            {did: row["records"] for did, row in rows.items() if row["archivable"]},
            {
                did: REASONS[row["status"]]
                for did, row in rows.items()
                if row["status"] in REASONS and habits[row["pds"]] in RELIABLE
            },
            frozenset(did for did, row in rows.items() if "lie" in row),
            len(rows),
            list(habits.values()),
        )

    @property
    def records(self) -> int:
        return sum(sum(counts.values()) for counts in self.repos.values())

    def summary(self) -> str:
        bad = sorted(habit for habit in self.habits if habit != "good")
        return (
            f"{self.accounts} accounts; {len(self.habits) - len(bad)} good servers, "
            f"{len(bad)} bad ones ({', '.join(bad) or 'none'})\n"
            f"  a perfect crawl ends with {len(self.repos)} repositories, {self.records:,} records "
            f"in them, and the reasons for {len(self.inactive)} inactive accounts"
        )


def archived(workspace: Path) -> list[FoundBlock]:
    """Every block of the archive in the order written, also while it is being written."""
    blocks = []
    for path in find_segments(workspace / "archive"):
        segment = open_segment(path)
        with segment.open() as fd:
            found = segment.blocks(fd, check=False)
            blocks += [block for block in found if isinstance(block, FoundBlock)]
    return blocks


def check_archive(workspace: Path, truth: Truth) -> Iterator[Check]:
    """Everything is there, whole, and true."""
    blocks = archived(workspace)
    held = {
        block.head.did: {entry.name: entry.records for entry in block.head.collections}
        for block in blocks
    }
    there = truth.repos.keys() & held.keys()
    of = f"of {len(truth.repos)}"
    yield Check("every repository is there", len(there) == len(truth.repos), f"{len(there)} {of}")
    right = [did for did in there if held[did] == truth.repos[did]]
    records = sum(sum(held[did].values()) for did in right)
    yield Check(
        "each has exactly its records, collection by collection",
        len(right) == len(truth.repos),
        f"{len(right)} {of}, {records:,} records",
    )
    again = len(blocks) - len(held)
    yield Check(
        "only what the kill interrupted was written twice",
        again <= MOST_TWICE,
        f"{again} of {len(blocks)} blocks",
    )
    believed = truth.liars & held.keys()
    yield Check(
        "no made-up repository was believed",
        not believed,
        f"{len(truth.liars) - len(believed)} of {len(truth.liars)} refused"
        if truth.liars
        else "nobody makes one up here",
    )
    yield _sound(workspace)


def _sound(workspace: Path) -> Check:
    verdicts = [verify_segment(path) for path in find_segments(workspace / "archive")]
    damage = [str(one) for verdict in verdicts for one in verdict.damage]
    whole = bool(verdicts) and all(verdict.sound and verdict.finalised for verdict in verdicts)
    size = sum(verdict.bytes for verdict in verdicts)
    figures = damage[0] if damage else f"{size:,} bytes in {len(verdicts)} segment(s)"
    return Check("every byte of the archive is as it was written", whole, figures)


def check_table(truth: Truth, rows: Sequence[Mapping[str, Any]]) -> Check:
    """What was replayed, by collection; numbers may come as text."""
    held = {row["collection"]: int(row["records"]) for row in rows}
    wanted: Counter[str] = Counter()
    for counts in truth.repos.values():
        wanted.update(counts)
    return Check(
        "the table has every record once",
        held == wanted,
        f"{sum(held.values()):,} of {truth.records:,} in {len(held)} collections",
    )


def check_failures(truth: Truth, failures: Mapping[str, str]) -> Iterator[Check]:
    right = sum(failures.get(did) == reason for did, reason in truth.inactive.items())
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


def check_manners(requests: Path, rps: float, kill: Kill) -> list[Check]:
    """From the servers' side."""
    rows = [json.loads(line) for line in requests.read_text("utf-8").splitlines()]
    visits = [row for row in rows if "getRepo" in row["path"]]
    return [_rate(visits, rps), _not_again(visits, kill)]


def _rate(rows: Sequence[Mapping[str, Any]], rps: float) -> Check:
    """One process plays all servers, and notes a request when it gets to it: requests are taken to
    have been as far apart as they can have been."""
    came: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        came[row["host"]].append((row["time"], row["since"]))
    busiest = max(_most_within_a_second(sorted(times)) for times in came.values())
    allowed = int(rps * _NETWORK) + 1
    return Check(
        f"servers were asked {rps:g} times a second at most",
        busiest <= allowed,
        f"{busiest} in the busiest second; up to {allowed} can be {rps:g} that met on their way",
    )


_NETWORK = 1.1  # A request may wait between its instant and the socket, and the next one not.


def _not_again(rows: Sequence[Mapping[str, Any]], kill: Kill) -> Check:
    """One task is one path on one server. What was asked before the kill and is not settled may be
    asked again; if more than that is, something settled was."""
    before = {(row["host"], row["path"]) for row in rows if row["time"] < kill.at}
    after = {(row["host"], row["path"]) for row in rows if row["time"] >= kill.at}
    open_then, again = len(before) - kill.settled, len(before & after)
    return Check(
        "what was settled before the kill was not asked again",
        again <= open_then,
        f"{again} of {len(before)} requests made again; {open_then} were not settled",
    )


def _most_within_a_second(came: Sequence[tuple[float, float]]) -> int:
    times = [time for time, _ in came]
    return max(bisect_right(times, since + 1.0) - at for at, (_, since) in enumerate(came))
