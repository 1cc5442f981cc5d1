"""The verbs that look into archives: inspect, tally, cat, compact. They need no workspace."""

from __future__ import annotations

import sys
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import orjson

from trawlnet.archive.compact import Compaction, plan_compaction
from trawlnet.archive.compact import compact as act
from trawlnet.archive.format.rca import RcaError
from trawlnet.archive.lookup import RepoLookup, look_up, records
from trawlnet.archive.reader import MANIFEST, Damage
from trawlnet.archive.tally import inspect as look
from trawlnet.archive.tally import tally as count
from trawlnet.cli.common.archive_location import parse_place, place_shown, reading, total_size
from trawlnet.cli.common.bar import progress_bar
from trawlnet.cli.common.errors import CliError, Exit
from trawlnet.cli.common.flags import Json, argument, flag
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.verb import PLAIN, Verb
from trawlnet.cli.repos.archive_tables import (
    collection_rows,
    collection_table,
    inspection,
    size_shown,
)
from trawlnet.loading import load

_LOG = "trawlnet.observe.logs.writer"

Where = Annotated[
    Any,
    argument("DIR", "Folder of segments, one segment, or s3://BUCKET/FOLDER.", parser=parse_place),
]
OneFile = Annotated[Any, argument("FILE", "A segment (.rca).", parser=parse_place)]
Folder = Annotated[Path, argument("DIR", "Folder of segments.")]
Did = Annotated[str, flag("--did DID", "DID of the repository.")]
Glob = Annotated[str, flag("--collection GLOB", "Only these collections, like app.bsky.feed.*")]
DryRun = Annotated[bool, flag("--dry-run", "Show what would be removed, and remove nothing.")]


def inspect(file: OneFile, json: Json = False) -> int:
    """Show the header, the index and the contents of one segment; unpacks every record.

    Damage is named as file@offset, on stderr; the exit code is then 1.
    """
    with reading(file, "name one segment, such as archive/segment_0001.rca"):
        try:
            with progress_bar("unpacking", total_size(file)) as progress:
                segment, counts = look(file, progress)
        except RcaError as error:
            raise CliError(f"{file}@{error.offset}: {error.what}", _TRY_VERIFY) from None
        about = inspection(segment, counts)
    if json:
        emit(about | {"collections": collection_rows(counts, unpacked=True)} | _damage(counts))
    else:
        for name, value in about.items():
            print(f"{name.replace('_', ' '):<14} {_plain(name, value)}")
        print("\n" + collection_table(counts, unpacked=True))
        say("block checksums and records are not checked here: trawlnet repos verify does")
    return _tell_damage(counts.damage, json)


def tally(place: Where, json: Json = False) -> int:
    """Count repositories and records by collection, without unpacking records.

    Each repository counts once, with its latest block, unless a tombstone covers it. Headers,
    footers and indexes are checked. The numbers are those of each block's table of contents, which
    must add up but are not compared with the data: only verify reads those.
    """
    with reading(place), progress_bar("counting", total_size(place)) as progress:
        counts = count(place, progress)
    fields = ("segments", "unfinalised", "bytes", "repos", "records", "superseded", "tombstoned")
    row = {name: getattr(counts, name) for name in (*fields, "deltas", "torn")}
    if json:
        emit(row | {"collections": collection_rows(counts)} | _damage(counts))
    else:
        print(collection_table(counts))
        print(
            f"\n{counts.repos:,} repos with {counts.records:,} records in {counts.segments:,} "
            f"segments, {size_shown(counts.bytes)}; "
            f"{counts.superseded:,} blocks superseded, {counts.tombstoned:,} tombstoned"
            + (f", {counts.deltas:,} deltas" if counts.deltas else "")
        )
    return _tell_damage(counts.damage, json)


def cat(place: Where, did: Did, collection: Glob = "*", json: Json = False) -> int:
    """Print the records of one repository, one JSON object per line."""
    with reading(place):
        found = look_up(place, did)
        for damage in found.damage:
            say(str(damage))
        if found.damage and (found.block is None or found.segment is None):
            raise CliError(
                f"{did} cannot be read from {place_shown(place)}: it may be in a damaged part",
                _TRY_VERIFY,
            )
        if found.block is None or found.segment is None:
            raise CliError(
                f"{did} is not in {place_shown(place)}", "list its contents: trawlnet repos tally"
            )
        refuse_if_gone(found, did)
        broken = bool(found.damage)
        for one in records(found.segment, found.block, lambda name: fnmatchcase(name, collection)):
            if isinstance(one, Damage):
                say(str(one))
                broken = True
                continue
            # Stored JSON goes out as it is, but a line must stay a line.
            value = orjson.Fragment(one.json) if b"\n" not in one.json else orjson.loads(one.json)
            row = {"did": did, "collection": one.collection, "rkey": one.rkey, "value": value}
            sys.stdout.buffer.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()
    return 1 if broken else 0


def refuse_if_gone(found: RepoLookup, did: str) -> None:
    """What a tombstone covers is not given away, although its bytes are there still."""
    if found.tombstone is not None:
        raise CliError(
            f"{did} is gone: {found.tombstone.reason}",
            "its block stays in the segment until: trawlnet repos compact",
        )


def _refuse_of_fleet(folder: Path) -> None:
    # A URL that was taken for a path has lost one of its slashes.
    if str(folder).startswith("s3:/") or (folder / MANIFEST).is_dir():
        raise CliError(
            "this is the archive of a fleet, which holds each repository once: nothing to drop",
            "an archive that grows by `repos crawl --update` is one of a single machine",
        )


def compact(folder: Folder, dry_run: DryRun = False, json: Json = False) -> int:
    """Remove blocks that later ones replace or that tombstones cover, and fold deltas.

    The deltas behind a full block are folded into it if the result can be proven. Each segment is
    rewritten and then swapped in; a kill at any instant loses nothing.
    """
    _refuse_of_fleet(folder)
    # Of the verbs here only this one takes a clock or warns: the others load neither an event loop
    # nor a log.
    warnings_to, clock = load(f"{_LOG}:warnings_to"), load("trawlnet.net.clock:SystemClock")()
    with warnings_to(say), reading(folder):
        if dry_run:
            done = plan_compaction(folder)
        else:
            with progress_bar("compacting", total_size(folder)) as progress:
                done = act(folder, clock.now, progress)
    if json:
        row: dict[str, Any] = asdict(done) | _damage(done)
        emit(row | {"dry_run": dry_run})
    else:
        say(
            f"{'would drop' if dry_run else 'dropped'} {done.superseded:,} superseded and "
            f"{done.tombstoned:,} tombstoned blocks, "
            f"{_folding(done, dry_run)}{size_shown(done.freed)}: {done.rewritten:,} "
            f"of {done.segments:,} segments rewritten, {done.removed:,} removed"
        )
    return _tell_damage(done.damage, json)


def _folding(done: Compaction, dry_run: bool) -> str:
    if not done.folded:
        return ""
    word = "fold" if dry_run else "folded"
    return f"{word} {done.deltas:,} deltas into {done.folded:,} repositories, "


_TRY_VERIFY = "list all damage: trawlnet repos verify"


def _damage(counts: Any) -> dict[str, Any]:
    return {"damage": [damage_row(damage) for damage in counts.damage]}


def damage_row(damage: Damage) -> dict[str, Any]:
    return {"file": str(damage.path), "offset": damage.offset, "what": damage.what}


def _tell_damage(damage: list[Damage], as_json: bool) -> int:
    if not as_json:
        for one in damage:
            say(f"damaged: {one}")
    return 1 if damage else 0


def _plain(name: str, value: Any) -> str:
    if name in ("bytes", "torn"):
        return size_shown(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


_NEEDS_NO_WORKSPACE = (*PLAIN, Exit.UNREACHABLE)
INSPECT, TALLY, CAT = (
    Verb(verb, f"repos {example}", _NEEDS_NO_WORKSPACE, "repos")
    for verb, example in (
        (inspect, "inspect ./net/archive/segment_0001.rca"),
        (tally, "tally ./net/archive"),
        (cat, "cat ./net/archive --did did:plc:ewvi7nxzyoun6zhxrhs64oiz"),
    )
)
COMPACT = Verb(compact, "repos compact ./net/archive --dry-run", (*PLAIN, Exit.IN_USE), "repos")
