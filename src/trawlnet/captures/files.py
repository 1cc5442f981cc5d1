"""The files of a workspace's captures: writes them in a fixed order, and repairs them after a kill.

Bodies come first, then WARC records, then the log that names both. The index and the CSV files are
derived from the log: they are synced only at checkpoints, and after a crash are rebuilt from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from trawlnet.captures.blobs import Blob, BlobStore
from trawlnet.captures.capture import Capture
from trawlnet.captures.derived import Derived
from trawlnet.captures.line import CaptureLine, Content, line_of, visit_of
from trawlnet.captures.log import SEGMENT_BYTES, CaptureLog, read_chunks
from trawlnet.captures.page_index import Checkpoint, PageIndex, Scopes
from trawlnet.captures.role import (
    CRAWL,
    INDEX,
    ROLES,
    Progress,
    Role,
    is_stale,
    latest_visits,
    read_all,
    role_of,
)
from trawlnet.captures.warc.cdxj import merge_tail
from trawlnet.captures.warc.files import WarcFiles, recover
from trawlnet.engine.durable import make_directory
from trawlnet.engine.task import Task
from trawlnet.queues.acks import SpoolPosition
from trawlnet.storage.files import FileLock, disk_errors, is_held, taking_turns

LOG = CRAWL.log
CDXJ = "index.cdxj"  # In the folder of the WARC files, like the next one.
_CDXJ_TAIL = "index.cdxj.tail"  # Unsorted; merged into the index on opening and closing.
_CDXJ_LOCK = "state/web/cdxj.lock"
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_VISITS = 4_096  # Remembered visits, to recognise those that a crash made us repeat.


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    run: str  # Part of file names.
    producer: str = "crawl"  # Or "scrape", a role with visits of its own; or "replay".
    html_folder: str = "store/html"  # In the workspace, like all names here.
    zstd_level: int | None = None  # None: bodies are stored uncompressed.
    permissions: int = 0o644  # Of stored bodies.
    pages_csv: str = ""  # Empty: `logs/pages-<run>.csv`.
    edges_csv: str = "logs/edges.csv"
    edges: bool = True
    csv_bytes: int = 1 << 30  # Size at which a table continues in a new part.
    spreadsheet_safe: bool = False  # Escape formulas in tables.
    warc: bool = False
    warc_folder: str = "warc"
    warc_zstd_level: int | None = None  # None: gzip.
    warc_bytes: int = 1 << 30
    scopes: Scopes = field(default_factory=Scopes)  # The counters of the index.
    about: Mapping[str, str] = field(default_factory=dict)  # For the WARC's own description.
    log_bytes: int = SEGMENT_BYTES
    checkpoint_captures: int = 1_000  # At most this many are derived again after a crash.
    checkpoint_every: float = 10.0  # Seconds, by the times of the captures.

    def __post_init__(self) -> None:
        if not _RUN.fullmatch(self.run):
            raise ValueError(f"run {self.run[:80]!r}: expected letters, digits, '.', '_' and '-'")


class CaptureFiles:
    """Blocking; for one thread, except that any thread may read `pages`. One process in each role
    at a time; a replay takes all roles."""

    def __init__(self, workspace: Path, options: CaptureOptions) -> None:
        self._workspace = workspace
        self._options = options
        self._role = role_of(options.producer)
        self._others = [role for role in ROLES if role is not self._role]
        self._locks = ExitStack()
        self._batch = 0
        self._visits: tuple[str, ...] = ()  # Of the last batch, and others that may be repeated.
        self._warc_end: tuple[str, int] | None = None
        try:
            with disk_errors(f"opening the captures of {workspace}"):
                make_directory((workspace / self._role.lock).parent)
                self._lock(self._locks, self._role)
                for role in self._others if options.producer == "replay" else ():
                    self._lock(self._locks, role)
            self._open()
        except BaseException:
            self._locks.close()
            raise

    def write(self, found: Sequence[tuple[Task, Capture]]) -> list[Capture]:
        """Durable on return. Returns the new captures, without visits repeated after a crash."""
        with disk_errors(f"writing captures to {self._workspace}"):
            lines, new = self._lines(found)
            self._whole = False
            if lines:
                self._log.append(lines)
                if self._warc:
                    self._warc.commit()
                self._derive(lines)
            self._whole = True
            if self._due():
                self._checkpoint(self._visits, self._log.end)
        return new

    def rebuild(self) -> Iterator[Sequence[CaptureLine]]:
        """Rebuild the index and this run's files from all logs; yields their lines. After a crash
        there is no checkpoint, and the next opening rebuilds again."""
        self.pages.clear()
        progress: dict[Role, Progress] = {}
        for lines in read_all(self._workspace, progress):
            self._derive(lines)
            self.pages.commit(None)
            yield lines
        mine = progress[self._role]
        self._batch, self._warc_end, self._visits = mine.batch, mine.warc, tuple(mine.visits)
        for role in self._others:
            read = progress[role]
            known = Checkpoint(read.log, read.batch, {}, read.visits, read.warc)
            self.pages.commit(known, role.checkpoint)
        self._checkpoint(self._visits, mine.log)

    def close(self) -> None:
        try:
            with disk_errors(f"closing the captures of {self._workspace}"):
                if self._warc:
                    self._warc.close()
                if self._whole:
                    self._merge_cdxj()
                    # A clean end: every receipt is settled.
                    self._checkpoint((), self._log.end)
                self._derived.close()
                if self._whole:
                    (self._workspace / self._cdxj_tail).unlink(missing_ok=True)
        finally:
            self._log.close()
            self.pages.close()
            self.blobs.close()
            self._locks.close()

    def _open(self) -> None:
        workspace, options = self._workspace, self._options
        self._warc_folder = workspace / options.warc_folder
        self._cdxj_tail = self._role.name(f"{options.warc_folder}/{_CDXJ_TAIL}")
        self.blobs = BlobStore(
            workspace / options.html_folder, ".html", options.zstd_level, options.permissions
        )
        with disk_errors(f"opening the captures of {workspace}"):
            self._log = CaptureLog(workspace / self._role.log, options.log_bytes)
            self.pages = PageIndex(workspace / INDEX, scopes=options.scopes)
            self._derived = Derived(
                workspace, options.csv_bytes, spreadsheet_safe=options.spreadsheet_safe
            )
            self._newest = self._saved = 0.0
            if is_stale(workspace, self.pages):
                self._make_anew()
            self._recover()
            recover(self._warc_folder, self._warc_end, self._role.suffix)
            self._merge_cdxj()
            self._derived.begin(self._names())
            self._warc: WarcFiles | None = None
            if options.warc:
                self._warc = WarcFiles(
                    self._warc_folder,
                    f"{options.run}{self._role.suffix}",
                    options.about,
                    options.warc_bytes,
                    options.warc_zstd_level,
                )
            self._whole = True
            self._suspects = dict.fromkeys(self._done_before())
            self._checkpoint(self._visits, self._log.end)

    def _names(self) -> dict[str, str]:
        options = self._options
        pages = options.pages_csv or f"logs/pages-{options.run}.csv"
        names = {"pages": self._role.name(pages)}
        if options.edges:
            names["edges"] = self._role.name(options.edges_csv)
        if options.warc:
            names["cdxj"] = self._cdxj_tail
        return names

    def _lock(self, stack: ExitStack, role: Role) -> None:
        lock = FileLock(self._workspace / role.lock, f"workspace {self._workspace}")
        stack.callback(lock.release)

    def _make_anew(self) -> None:
        """Rebuild the index and the CDXJ, while no other process runs."""
        with ExitStack() as stack:
            for role in self._others if self._options.producer != "replay" else ():
                self._lock(stack, role)
            if self._warc_folder.is_dir():
                self._derived.begin({"cdxj": self._cdxj_tail})
            for _ in self.rebuild():
                pass

    def _recover(self) -> None:
        """Bring the index and the files up to the end of our log."""
        known = self.pages.checkpoint(self._role.checkpoint) or Checkpoint()
        self._derived.resume(known.files)
        self._batch, self._warc_end = known.batch, known.warc
        read = Progress(known.log, known.batch)
        for lines, end in read_chunks(self._workspace / self._role.log, known.log):
            for line in lines:
                read.add(line, end)
            self._derive(lines)
            self._checkpoint((*known.visits, *read.visits), end)
        self._visits = (*known.visits, *read.visits)[-_MOST_VISITS:]

    def _done_before(self) -> Sequence[str]:
        """Visits that may be repeated, because their receipts were perhaps not settled."""
        if most := self._role.remembered:
            return latest_visits(self._workspace / self._role.log, most)
        return self._visits

    def _lines(
        self, found: Sequence[tuple[Task, Capture]]
    ) -> tuple[list[CaptureLine], list[Capture]]:
        """Store the bodies and the WARC records; returns the lines for the log."""
        bodies = [c.body for _, c in found if c.stored and c.body is not None]
        blobs = iter(self.blobs.put_many_blocking(bodies))
        self._batch += 1
        lines: list[CaptureLine] = []
        new: list[Capture] = []
        visits = []
        for task, came in found:
            capture, content = self._resolved(came, blobs)
            visit = visit_of(self._options.producer, task, capture.http_status, content.sha256)
            visits.append(visit)
            if visit in self._suspects:
                del self._suspects[visit]
                continue
            new.append(came)
            lines.append(self._line(capture, content, visit))
        if self._warc:
            self._warc.flush()
        if not self._role.remembered:
            self._visits = (*self._suspects, *visits)[-_MOST_VISITS:]
        return lines, new

    def _resolved(self, capture: Capture, blobs: Iterator[Blob]) -> tuple[Capture, Content]:
        if capture.stored:
            blob = next(blobs)
            shards = f"{blob.sha256[:2]}/{blob.sha256[2:4]}"
            path = f"{self._options.html_folder}/{shards}/{blob.file.rpartition('/')[2]}"
            return capture, Content(blob.sha256, blob.size, path)
        before = self.pages.get(capture.url) if capture.http_status == 304 else None
        if before is None:
            return capture, Content()
        # A 304 may omit the validators that it confirms.
        etag = capture.etag or before.etag
        last_modified = capture.last_modified or before.last_modified
        capture = replace(capture, etag=etag, last_modified=last_modified)
        return capture, Content(before.sha256, 0, before.stored_path)

    def _line(self, capture: Capture, content: Content, visit: str) -> CaptureLine:
        warc = None
        if self._warc:
            original = self.pages.original(content.sha256) if content.sha256 else None
            warc = self._warc.add(capture, content.sha256, original)
        return line_of(capture, content, self._batch, self._options.run, visit, warc)

    def _derive(self, lines: Sequence[CaptureLine]) -> None:
        self.pages.apply(lines)
        self._derived.add(lines)
        self._batch = lines[-1].batch
        self._newest = max(self._newest, lines[-1].timestamp)
        for line in lines:
            if line.warc:
                self._warc_end = (line.warc.file, line.warc.end)

    def _due(self) -> bool:
        waiting = self.pages.uncommitted
        if waiting >= self._options.checkpoint_captures:
            return True
        return waiting > 0 and (
            self._newest - self._saved >= self._options.checkpoint_every
            # The other process sees only what is committed.
            or any(is_held(self._workspace / role.lock) for role in self._others)
        )

    def _checkpoint(self, visits: Sequence[str], log: SpoolPosition) -> None:
        files = self._derived.sync()
        known = Checkpoint(log, self._batch, files, visits, self._warc_end)
        self.pages.commit(known, self._role.checkpoint)
        self._saved = self._newest

    def _merge_cdxj(self) -> None:
        with taking_turns(self._workspace / _CDXJ_LOCK):
            merge_tail(self._warc_folder / CDXJ, self._workspace / self._cdxj_tail)
        self._derived.empty("cdxj")
