"""The manifest of a simulated world: its true contents, to check a crawl against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from trawlnet.sim.atproto.accounts import Account, AccountStatus, Story
from trawlnet.sim.atproto.history import endpoint_of
from trawlnet.sim.atproto.lies import lie_about
from trawlnet.sim.atproto.plan import SimHost
from trawlnet.sim.atproto.population import Population
from trawlnet.sim.atproto.records import record_counts
from trawlnet.sim.habits import Habit

Counted = Callable[[Account], Mapping[str, int]]  # Records by collection.


def write_manifest(
    path: Path, population: Population, plc: str, relay: str, counted: Counted = record_counts
) -> None:
    """One JSON object, written account by account and one line each: `dids` maps every DID to its
    PDS, status and records per collection; `hosts` every PDS to its habit."""
    plan = population.plan
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        world = {"seed": plan.seed, "accounts": len(population), "plc": plc, "relay": relay}
        file.write(orjson.dumps(world)[:-1])
        hosts = {host.url: _host_row(population, host) for host in plan.hosts}
        file.write(b',\n"hosts": ' + orjson.dumps(hosts) + b',\n"dids": {')
        for number, (did, row) in enumerate(_rows(population, counted)):
            file.write(
                (b",\n" if number else b"\n") + orjson.dumps(did) + b": " + orjson.dumps(row)
            )
        file.write(b"\n}}\n")


def _rows(population: Population, counted: Counted) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, did in enumerate(population.dids):
        yield did, _row(population, population.account(index), counted)


def _row(population: Population, account: Account, counted: Counted) -> dict[str, Any]:
    plan = population.plan
    host = plan.hosts[account.host]
    is_listed = account.story is not Story.UNLISTED
    named = endpoint_of(plan, account) if account.status is AccountStatus.JUNK else host.url
    row: dict[str, Any] = {
        "pds": None if account.status is AccountStatus.TOMBSTONED else named,
        "status": account.status.value,
        "records": counted(account) if account.lives_on_host else {},
        "in_plc": is_listed,
        "archivable": is_archivable(host, account),
    }
    if account.former_host is not None:
        row["former_pds"] = plan.hosts[account.former_host].url
    if host.habit is Habit.LYING and account.status is AccountStatus.ACTIVE:
        row["lie"] = lie_about(account).value
    return row


def is_archivable(host: SimHost, account: Account) -> bool:
    """Whether a patient crawler must end up with this repository; of the others it may get some."""
    serves_repos = host.habit.recovers or host.habit is Habit.ENDLESS_CURSOR
    return account.status is AccountStatus.ACTIVE and serves_repos


def _host_row(population: Population, host: SimHost) -> dict[str, Any]:
    return {
        "habit": host.habit.value,
        "accounts": len(population.members[host.index]),
        "on_relay": host.on_relay,
        "nameless_errors": host.nameless_errors,
    }
