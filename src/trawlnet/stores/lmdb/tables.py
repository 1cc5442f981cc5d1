"""The tables of an LMDB store, and the check that a folder is one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec

from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.stores.errors import StoreError

FORMAT: Final = b"trawlnet store 1"
_FORMAT_FAMILY: Final = b"trawlnet store "
_MOST_TABLES: Final = 16


@dataclass(frozen=True, slots=True)
class LmdbTables:
    """One handle per table; the field's name is the name on disk."""

    rows: Any  # Digest of a key -> SETTLED_ENTRY, or Place.entry() while it is pending.
    ready: Any  # Position by score -> digest of the key + Row.
    later: Any  # Position by due time -> digest of the key + Row.
    failed: Any  # Reason + digest of the key -> order of arrival + Row.
    lanes: Any  # Number of a lane -> LaneRecord.
    lane_numbers: Any  # Digest of a lane's name -> its number.
    active: Any  # Numbers of the lanes that have pending keys.
    holds: Any  # Number of a lane -> the end of its hold.
    meta: Any  # "format", "cursor", "counters".


class LaneRecord(msgspec.Struct, array_like=True, frozen=True):
    name: str
    open: int = 0
    scheduled: int = 0  # Leased or not: leases are not on disk.


class StoredCounters(msgspec.Struct, array_like=True):
    seq: int = 0  # Number of keys that were ever added.
    scheduled: int = 0
    attempts: dict[str, int] = msgspec.field(default_factory=dict)
    settled: dict[str, int] = msgspec.field(default_factory=dict)


encode = msgspec.msgpack.Encoder().encode
decode_lane = msgspec.msgpack.Decoder(LaneRecord).decode
decode_counters = msgspec.msgpack.Decoder(StoredCounters).decode


def read_counters(txn: Any, tables: LmdbTables) -> StoredCounters:
    packed = txn.get(b"counters", db=tables.meta)
    return StoredCounters() if packed is None else decode_counters(packed)


def open_environment(path: Path, map_size: int) -> Any:
    try:
        make_directory(path)
        environment = lmdb.open(str(path), map_size=map_size, max_dbs=_MOST_TABLES)
        fsync_path(path)  # LMDB syncs its files, but not their names.
        return environment
    except (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError) as error:
        raise _foreign(path, str(error)) from error
    except (lmdb.Error, OSError) as error:
        raise StoreError(
            f"cannot open the store in {path}: {error}",
            "check that this is a folder you may write to and that its disk has space",
        ) from error


def look_at(path: Path) -> tuple[Any, LmdbTables] | None:
    """Open a store for reading without waiting for its writer, which may be frozen in the middle
    of a write. None if there are no tables."""
    environment = lmdb.open(str(path), readonly=True, max_dbs=_MOST_TABLES)
    try:
        names = [each.name.encode() for each in fields(LmdbTables)]
        tables = LmdbTables(*(environment.open_db(name, create=False) for name in names))
        with environment.begin(db=tables.meta) as txn:
            is_ours = txn.get(b"format") == FORMAT
    except lmdb.Error:
        is_ours = False
    if is_ours:
        return environment, tables
    environment.close()
    return None  # Opening it for writing reports what is wrong.


def open_tables(environment: Any, path: Path) -> LmdbTables:
    """The tables of a store; created in an empty environment, refused in a foreign one."""
    names = [each.name.encode() for each in fields(LmdbTables)]
    # One transaction: a kill while a store is created leaves none, not half of one.
    with environment.begin(write=True) as txn:
        empty = txn.stat()["entries"] == 0
        if not empty:
            _check_format(environment, txn, path)
        tables = LmdbTables(*(environment.open_db(name, txn=txn, create=empty) for name in names))
        if empty:
            txn.put(b"format", FORMAT, db=tables.meta)
    return tables


def _check_format(environment: Any, txn: Any, path: Path) -> None:
    try:
        meta = environment.open_db(b"meta", txn=txn, create=False)
        found = txn.get(b"format", db=meta) or b""
    except lmdb.Error as error:
        raise _foreign(path, str(error)) from error
    if found == FORMAT:
        return
    if found.startswith(_FORMAT_FAMILY):
        raise StoreError(
            f"the store in {path} has format {found.decode()!r}, this program writes "
            f"{FORMAT.decode()!r}",
            "use the version of trawlnet that made it, or another workspace",
        )
    raise _foreign(path, "it holds other data")


def _foreign(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path} does not hold a trawlnet store: {why}",
        "choose another workspace, or move data.mdb and lock.mdb out of this one",
    )
