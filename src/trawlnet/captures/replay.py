"""Make the page index and a pages CSV again, from the capture log and the stored bodies alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trawlnet.captures.blobs import BlobDamage, read_blob
from trawlnet.captures.files import CaptureFiles, CaptureOptions
from trawlnet.captures.line import CaptureLine
from trawlnet.captures.page import KnownPage

MOST_TOLD = 1_000  # Damaged bodies are told one by one up to here, then only counted.


@dataclass(slots=True)
class CaptureReplay:
    captures: int = 0
    pages: int = 0
    damaged: int = 0
    damage: list[BlobDamage] = field(default_factory=list)
    # The latest content of its page, so that the page can be fetched again.
    lost: list[CaptureLine] = field(default_factory=list)


def replay(
    workspace: Path, run: str, *, check_bodies: bool = True, spreadsheet_safe: bool = False
) -> CaptureReplay:
    """Writes `logs/pages-<run>.csv` with a row for every capture of every run, and the index.

    Blocking. Needs the workspace for itself. Killed half-way, the next opening makes the index.
    """
    options = CaptureOptions(
        run=run, producer="replay", edges=False, spreadsheet_safe=spreadsheet_safe
    )
    files = CaptureFiles(workspace, options)
    told = CaptureReplay()
    try:
        for lines in files.rebuild():
            told.captures += len(lines)
            for line in lines if check_bodies else ():
                _check(workspace, line, told)
        told.pages = files.pages.count()
        told.lost = [line for line in told.lost if _is_latest(files.pages.get(line.url), line)]
    finally:
        files.close()
    return told


def _check(workspace: Path, line: CaptureLine, told: CaptureReplay) -> None:
    if not line.stored_path or line.content_bytes == 0:
        return  # A 304 names a body that an earlier line has brought.
    path = workspace / line.stored_path
    try:
        read_blob(path)
        return
    except FileNotFoundError:
        what = "is not there"
    except (OSError, ValueError) as error:
        what = str(error)
    told.damaged += 1
    told.lost.append(line)
    if len(told.damage) < MOST_TOLD:
        told.damage.append(BlobDamage(path, what))


def _is_latest(page: KnownPage | None, line: CaptureLine) -> bool:
    return page is not None and page.stored_path == line.stored_path
