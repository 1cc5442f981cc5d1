"""What must hold in every world: judged by the servers' own log and by who lives where."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Set
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.random_worlds.globs import fits_any
from tests.random_worlds.repos_world import (
    MALFORMED,
    MISSIGNED,
    TAMPERED,
    Account,
    Row,
    World,
)
from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.lookup import FoundRecord, records
from trawlnet.archive.reader import open_segment
from trawlnet.archive.tombstones import read_tombstones
from trawlnet.archive.verify import verify_segment
from trawlnet.crawlers.repos.config import ReposConfig, Verify

Records = dict[str, dict[str, Any]]  # By path.

ROUNDING = 1e-5  # Seconds.
FAILED = (0, 503)  # Statuses for which a host is to blame.
LARGE_BYTES = 300_000  # A repository of a large account has more.
DEAD_WORDS = {"connection_error", "unavailable", "timeout", "blocked"}


def check_manners(world: World, config: ReposConfig) -> None:
    by_place: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in world.log:
        by_place[row.host, row.run].append(row)
    for (host, run), rows in by_place.items():
        where = f"{host}, run {run}"
        rows.sort(key=lambda row: row.start)
        check_gaps(world, host, rows, config, where)
        check_in_flight(rows, config.pds_concurrency, where)
        check_waits(rows, where)
        check_blocked(rows, config.block_after, where)


def check_gaps(world: World, host: str, rows: list[Row], config: ReposConfig, where: str) -> None:
    """The rate of its true size. While little is known of it a lesser class may apply; before the
    first answer nothing is known, and it is taken for a middling one."""
    known_from = min((row.end for row in rows if row.status == 200), default=float("inf"))
    for before, after in pairwise(rows):
        most = fastest(world, host, config)
        if before.start < known_from:
            most = max(most, config.default_pds_rps)
        gap = after.start - before.start
        assert gap >= 1.0 / most - ROUNDING, f"{where}: {gap} s at {most}/s: {before} {after}"


def fastest(world: World, host: str, config: ReposConfig) -> float:
    if host.startswith("plc"):
        return config.plc_rps
    if not host.startswith("pds"):
        return config.default_pds_rps
    size = world.size_of(int(host.partition(".")[0].removeprefix("pds")))
    rates = [config.small_pds_rps]
    rates += [config.default_pds_rps] if size >= 100 else []
    rates += [config.large_pds_rps] if size >= 1000 else []
    return max(rates)


def check_in_flight(rows: list[Row], most: int, where: str) -> None:
    for row in rows:
        inside = sum(one.start <= row.start < one.end for one in rows)
        assert inside <= most, f"{where}: {inside} requests at once, {most} allowed"


def check_waits(rows: list[Row], where: str) -> None:
    for told in rows:
        if told.wait:
            early = [r for r in rows if told.end < r.start < told.end + told.wait - ROUNDING]
            assert not early, f"{where}: told to wait {told.wait} s at {told.end}: {early[:3]}"


def check_blocked(rows: list[Row], block_after: int, where: str) -> None:
    failures, since = 0, float("inf")
    for row in sorted(rows, key=lambda row: row.end):
        if row.status in FAILED:
            failures += 1
        elif row.status != 429:
            failures = 0
        if failures == block_after:
            since = min(since, row.end)
    late = [row for row in rows if row.start > since + ROUNDING]
    assert not late, f"{where}: asked after {block_after} failures in a row: {late[:3]}"


def check_listed(world: World) -> None:
    """Every server that can be listed was listed to its end."""
    hosts = enumerate(world.spec.hosts)
    alive = {number for number, host in hosts if host.on_relay and not host.dead}
    assert world.told_whole == alive, (world.told_whole, alive)


def archive_of(folder: Path, world: World, *, killed: bool) -> dict[str, Records]:
    """The records of every repository, in sound and finalised segments, once for each version; but
    of those that have been withdrawn since."""
    found: dict[str, Records] = {}
    fetched: dict[str, int] = {}
    written: Counter[str] = Counter()
    for path in sorted(folder.glob("*.rca")):
        verdict = verify_segment(path)
        assert verdict.sound and verdict.finalised, verdict.damage
        segment = open_segment(path)
        with segment.open() as fd:
            for block in segment.blocks(fd, check=True):
                assert isinstance(block, FoundBlock)
                did = block.head.did
                written[did] += 1
                fetched[did] = block.head.crawled_at_us
                found[did] = {
                    f"{one.collection}/{one.rkey}": json.loads(one.json)
                    for one in records(segment, block, lambda name: True)
                    if isinstance(one, FoundRecord)
                }
    for did, times in written.items():
        # What was in flight when it was killed may be there twice.
        most = max(1, len(world.accounts[did].served))
        assert killed or times <= most, f"{did} is there {times} times, {most} versions were sent"
    for stone in read_tombstones(folder) if folder.exists() else ():
        if stone.at_us >= fetched.get(stone.did, stone.at_us + 1):
            found.pop(stone.did, None)
    return found


def check_archive(
    world: World, config: ReposConfig, found: Mapping[str, Records], wanted: Set[str]
) -> None:
    """Every repository that can be had, with every wanted record as its owner wrote it."""
    assert found.keys() == set(wanted), (wanted - found.keys(), found.keys() - wanted)
    for did in wanted:
        one = world.accounts[did]
        versions = {one.version} if config.update else one.served
        truths = [truth(one, config, version) for version in versions]
        assert found[did] in truths, (did, versions, found[did])


def truth(one: Account, config: ReposConfig, version: int) -> Records:
    """What there is to be archived of one version."""
    told = one.records_of(version)
    if one.malformed == TAMPERED:  # As its server tells it, to whoever does not check.
        told = {path: value | {"text": value["text"].replace(" of ", " by ")}
                for path, value in told.items()}  # fmt: skip
    globs = config.collections or ("*",)
    return {path: told[path] for path in told if fits_any(path.partition("/")[0], globs)}


def check_reasons(expected: Mapping[str, set[str]], found: Mapping[str, str]) -> None:
    """Each account that cannot be had is on record under its reason, and nobody else is."""
    assert found.keys() == expected.keys(), (
        f"missing {sorted(expected.keys() - found.keys())[:3]}, "
        f"too many {sorted(found.keys() - expected.keys())[:3]}"
    )
    for did, words in expected.items():
        assert found[did] in words, (did, found[did], words)


def may_be_had(world: World, one: Account, config: ReposConfig, source: str) -> bool:
    """Whether it may be in the archive, although there is a reason why it need not be."""
    if one.malformed:
        return False
    if one.is_changed and not config.update:
        return bool(one.served)  # Nobody comes back to what is archived.
    if one.document:
        return source == "plc"  # From the mirror all of it is known.
    # It moved while the crawl went on, to a dead host: it may have been fetched in time.
    if one.moves_to is None:
        return False
    return world.spec.hosts[one.moves_to].dead and not world.spec.hosts[one.home].dead


def reasons_of(world: World, one: Account, config: ReposConfig, source: str) -> set[str]:
    """What a failure may be called; empty for an account that can be had."""
    home = world.spec.hosts[one.home if one.moves_to is None else one.moves_to]
    if one.tombstoned:
        return {"not_found"}
    if home.dead:
        return DEAD_WORDS
    if one.malformed:
        return _words_for_bytes(one, config)
    if one.document and (words := _words_for_document(one, config, source)):
        return words
    if one.is_large and config.max_repo_size < LARGE_BYTES:
        return {"too_large"}
    if one.status == "active":
        return set()
    return {"not_found" if one.status == "deleted" else one.status}


def _words_for_bytes(one: Account, config: ReposConfig) -> set[str]:
    if one.malformed == TAMPERED:
        return set() if config.verify is Verify.OFF else {"parse_error"}
    if one.malformed == MISSIGNED:
        return {"parse_error"} if config.verify is Verify.FULL else set()
    return MALFORMED[one.malformed]


def _words_for_document(one: Account, config: ReposConfig, source: str) -> set[str]:
    if source == "plc":
        return set()
    if one.document == "no key":
        return {"parse_error"} if config.verify is Verify.FULL else set()
    return {"not_found"} if one.document == "no service" else {"parse_error"}
