"""The page index: an entry for each URL, fingerprints of texts, and checkpoints of the logs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import lmdb
import msgspec
from msgspec.structs import replace

from trawlnet.captures.line import CaptureLine
from trawlnet.captures.log import BEGINNING
from trawlnet.captures.near_duplicates import Near, bands, differ
from trawlnet.captures.page import KnownPage, digest_of, page_after
from trawlnet.captures.warc.format import Original
from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.queues.acks import SpoolPosition
from trawlnet.storage.errors import SinkError

T = TypeVar("T")

FORMAT: Final = b"trawlnet pages 2"
CHECKPOINT: Final = b"checkpoint"  # The name of a checkpoint, or its prefix.
_FIRST_MAP_BYTES: Final = 64 << 20  # Address space, not disk; doubled whenever it is full.
_BUCKET: Final = 2_000  # Texts compared per band; with more, a duplicate may be missed.


class Checkpoint(msgspec.Struct, array_like=True, frozen=True):
    """The position in the log up to which all derived files are durable, and their sizes."""

    log: SpoolPosition = BEGINNING
    batch: int = 0
    files: Mapping[str, tuple[str, int]] = {}  # By kind: name in the workspace, size.
    visits: Sequence[str] = ()  # The latest visits, whose receipts a crash may lose.
    warc: tuple[str, int] | None = None  # The last file, and the end of its records.


@dataclass(frozen=True, slots=True)
class Scopes:
    """Counters of pages, chosen by a page's URL and type."""

    rules: str = ""  # When this text changes, all pages are counted again.
    of: Callable[[str, str], Sequence[bytes]] = lambda url, page_type: ()


class _Payload(msgspec.Struct, array_like=True, frozen=True):
    url: str
    timestamp: float
    digest: str


_encode = msgspec.msgpack.Encoder().encode
_decode_page = msgspec.msgpack.Decoder(KnownPage).decode
_decode_payload = msgspec.msgpack.Decoder(_Payload).decode
_decode_checkpoint = msgspec.msgpack.Decoder(Checkpoint).decode


class PageIndex:
    """One thread applies and commits; others may read meanwhile. Applied changes are visible at
    once, and durable after the next commit: until then they are in the log.

    Several processes may share an index, each with its own log: a commit merges the commits of the
    others since the last one, and the checkpoint of each log has a name."""

    def __init__(
        self, folder: Path, *, readonly: bool = False, scopes: Scopes | None = None
    ) -> None:
        self._folder = folder
        self._scopes = scopes or Scopes()
        self._counted: Counter[bytes] = Counter()  # Not committed yet.
        self._counting = threading.Lock()  # So that a page counts once while it is committed.
        self._growing = threading.Lock()  # No read may run while the map grows.
        self._pages: dict[bytes, KnownPage] = {}
        self._near = Near()
        self._payloads: dict[bytes, _Payload] = {}
        self._last_change = 0  # The number of our last transaction.
        if not readonly:
            make_directory(folder)
        self._environment, self._tables = _opened(folder, readonly)
        if not readonly:
            fsync_path(folder)  # LMDB syncs its files, but not their names.
        if not readonly and self._get("meta", b"scopes") != self._scopes.rules.encode():
            self._change(self._count_anew)

    def get(self, url: str) -> KnownPage | None:
        digest = digest_of(url)
        page = self._pages.get(digest)
        if page is not None:
            return page
        packed = self._get("pages", digest)
        return None if packed is None else _decode_page(packed)

    def original(self, sha256: str) -> Original | None:
        """The record in a WARC file that holds this content."""
        raw = bytes.fromhex(sha256)
        found = self._payloads.get(raw)
        if found is None:
            packed = self._get("payloads", raw)
            if packed is None:
                return None
            found = _decode_payload(packed)
        return Original(found.url, found.timestamp, found.digest)

    def near(self, simhash: int, within: int, besides: str) -> bool:
        """Whether a page other than `besides` has a fingerprint that differs in at most `within`
        bits (up to 3)."""
        mine = digest_of(besides)
        if self._near.has(simhash, within, mine):
            return True
        return self._look(lambda txn: self._near_on_disk(txn, simhash, within, mine))

    def pages(self) -> Iterator[KnownPage]:
        """All committed entries, in no useful order. A long read delays the reuse of space, so do
        not use it beside a running crawl."""
        with self._environment.begin(db=self._tables["pages"]) as txn:
            for packed in txn.cursor().iternext(keys=False):
                yield _decode_page(packed)

    def count_in(self, scope: bytes) -> int:
        """The number of pages in this scope that were fetched successfully."""
        with self._counting:
            return _number(self._get("scopes", scope)) + self._counted[scope]

    def count(self) -> int:
        """The number of committed pages."""
        entries: int = self._look(lambda txn: txn.stat(self._tables["pages"])["entries"])
        return entries

    def checkpoint(self, name: bytes = CHECKPOINT) -> Checkpoint | None:
        packed = self._get("meta", name)
        return None if packed is None else _decode_checkpoint(packed)

    def apply(self, lines: Sequence[CaptureLine]) -> None:
        digests = [digest_of(line.url) for line in lines]
        committed = self._look(lambda txn: self._committed(txn, digests))
        for digest, line in zip(digests, lines, strict=True):
            before = self._pages.get(digest) or committed.get(digest)
            page = self._pages[digest] = page_after(before, line)
            if page.fetched and not (before is not None and before.fetched):
                for scope in self._scopes.of(page.url, page.page_type):
                    self._counted[scope] += 1
            if line.simhash is not None:
                self._near.add(line.simhash, digest)
            if line.warc and line.content_bytes and not line.warc.revisit:
                where = _Payload(line.final_url or line.url, line.timestamp, line.warc.digest)
                self._payloads.setdefault(bytes.fromhex(line.content_sha256), where)

    @property
    def uncommitted(self) -> int:
        return len(self._pages)

    def commit(self, checkpoint: Checkpoint | None, name: bytes = CHECKPOINT) -> None:
        """Durable on return. Without a checkpoint, the next opening after a crash rebuilds all."""
        with self._counting:
            self._change(lambda txn: self._write(txn, checkpoint, name))
            self._counted.clear()
        self._pages, self._near, self._payloads = {}, Near(), {}

    def clear(self) -> None:
        """Delete everything, to be rebuilt."""

        def drop(txn: Any) -> None:
            for name in ("pages", "near", "payloads", "scopes"):
                txn.drop(self._tables[name], delete=False)
            for key in [*txn.cursor(self._tables["meta"]).iternext(values=False)]:
                if key.startswith(CHECKPOINT):
                    txn.delete(key, db=self._tables["meta"])

        self._change(drop)

    def close(self) -> None:
        self._environment.close()

    def _committed(self, txn: Any, digests: Iterable[bytes]) -> dict[bytes, KnownPage]:
        found = ((one, txn.get(one, db=self._tables["pages"])) for one in digests)
        return {digest: _decode_page(packed) for digest, packed in found if packed is not None}

    def _write(self, txn: Any, checkpoint: Checkpoint | None, name: bytes) -> None:
        tables, pages, counted = self._tables, self._pages, self._counted
        if txn.id() != self._last_change + 1:  # Another process has written meanwhile.
            pages, counted = self._beside_others(txn)
        for digest, page in sorted(pages.items()):
            txn.put(digest, _encode(page), db=tables["pages"])
        for key, owner in sorted(self._near.entries()):
            txn.put(key, owner, db=tables["near"], overwrite=False)
        for raw, where in self._payloads.items():
            txn.put(raw, _encode(where), db=tables["payloads"], overwrite=False)
        self._add_counts(txn, counted)
        if checkpoint is not None:
            txn.put(name, _encode(checkpoint), db=tables["meta"])

    def _beside_others(self, txn: Any) -> tuple[dict[bytes, KnownPage], Counter[bytes]]:
        """Our pages and counts, applied again on top of the commits of other processes."""
        committed, counted = self._committed(txn, self._pages), Counter[bytes]()
        pages = dict(self._pages)
        for digest, page in self._pages.items():
            theirs = committed.get(digest)
            if theirs is not None and theirs.content == page.content:
                pages[digest] = replace(page, changed_at=min(theirs.changed_at, page.changed_at))
            if page.fetched and not (theirs is not None and theirs.fetched):
                counted.update(self._scopes.of(page.url, page.page_type))
        return pages, counted

    def _add_counts(self, txn: Any, counted: Mapping[bytes, int]) -> None:
        for scope, count in counted.items():
            count += _number(txn.get(scope, db=self._tables["scopes"]))
            txn.put(scope, count.to_bytes(8, "big"), db=self._tables["scopes"])

    def _count_anew(self, txn: Any) -> None:
        counted: Counter[bytes] = Counter()
        for packed in txn.cursor(self._tables["pages"]).iternext(keys=False):
            page = _decode_page(packed)
            if page.fetched:
                counted.update(self._scopes.of(page.url, page.page_type))
        txn.drop(self._tables["scopes"], delete=False)
        self._add_counts(txn, counted)
        txn.put(b"scopes", self._scopes.rules.encode(), db=self._tables["meta"])

    def _near_on_disk(self, txn: Any, simhash: int, within: int, mine: bytes) -> bool:
        cursor = txn.cursor(self._tables["near"])
        for prefix in bands(simhash):
            if not cursor.set_range(prefix):
                continue
            for count, (key, owner) in enumerate(cursor.iternext()):
                if not key.startswith(prefix) or count >= _BUCKET:
                    break
                if owner != mine and differ(key, simhash) <= within:
                    return True
        return False

    def _get(self, table: str, key: bytes) -> bytes | None:
        found: bytes | None = self._look(lambda txn: txn.get(key, db=self._tables[table]))
        return found

    def _look(self, look: Callable[[Any], T]) -> T:
        try:
            with self._growing:
                return self._read(look)
        except lmdb.Error as error:
            raise self._trouble(error) from error

    def _read(self, look: Callable[[Any], T]) -> T:
        try:
            with self._environment.begin() as txn:
                return look(txn)
        except lmdb.MapResizedError:
            # Another process has grown the map; zero adopts the size on disk.
            self._environment.set_mapsize(0)
            with self._environment.begin() as txn:
                return look(txn)

    def _change(self, change: Callable[[Any], None]) -> None:
        while True:
            try:
                with self._environment.begin(write=True) as txn:
                    change(txn)
                    number: int = txn.id()
                self._last_change = number
                return
            except lmdb.MapResizedError:
                with self._growing:
                    self._environment.set_mapsize(0)
            except lmdb.MapFullError:
                self._environment.reader_check()
                with self._growing:
                    self._environment.set_mapsize(2 * self._environment.info()["map_size"])
            except lmdb.Error as error:
                raise self._trouble(error) from error

    def _trouble(self, error: lmdb.Error) -> SinkError:
        return _trouble(self._folder, error)


def _opened(folder: Path, readonly: bool) -> tuple[Any, dict[str, Any]]:
    """The environment and its tables; created if it is empty, refused if it is foreign."""
    try:
        environment = lmdb.open(
            str(folder), map_size=_FIRST_MAP_BYTES, max_dbs=8, readonly=readonly
        )
    except lmdb.Error as error:
        raise _trouble(folder, error) from error
    try:
        return environment, _tables(environment, readonly)
    except lmdb.Error as error:
        environment.close()
        raise _trouble(folder, error) from error


def _tables(environment: Any, readonly: bool) -> dict[str, Any]:
    names = ("pages", "near", "payloads", "scopes", "meta")
    if not readonly:
        # One transaction: a kill while an index is created leaves none, not half of one.
        with environment.begin(write=True) as txn:
            if txn.stat()["entries"] == 0:
                made = {name: environment.open_db(name.encode(), txn=txn) for name in names}
                txn.put(b"format", FORMAT, db=made["meta"])
                return made
    tables = {name: environment.open_db(name.encode(), create=False) for name in names}
    with environment.begin() as txn:
        if txn.get(b"format", db=tables["meta"]) != FORMAT:
            raise lmdb.InvalidError("it has another format")
    return tables


def _number(packed: bytes | None) -> int:
    return int.from_bytes(packed or b"", "big")


def _trouble(folder: Path, error: lmdb.Error) -> SinkError:
    return SinkError(
        f"the page index in {folder} cannot be read or written: {error}",
        "check the disk; if the index is damaged, remove the folder: it is made again from the "
        "capture log",
    )
