"""Which version of trawlnet a workspace is for: a word beside the state of each crawler."""

from __future__ import annotations

from pathlib import Path

from trawlnet.hinted import UnknownFormat
from trawlnet.storage.files import replace_file

VERSION = 1
_FILE = "format"
_FAMILY = "trawlnet workspace "


def check_format(state: Path) -> None:
    """Refuse state that a newer version wrote; state without a number is of version 1."""
    try:
        text = (state / _FILE).read_text("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return
    number = text.removeprefix(_FAMILY)
    known = text.startswith(_FAMILY) and number.isascii() and number.isdigit()
    if not known:
        raise UnknownFormat(
            f"{state / _FILE} does not say {_FAMILY + str(VERSION)!r}",
            "restore that file, or name another workspace with -w",
        )
    if int(number[:9]) > VERSION:
        raise UnknownFormat(
            f"the workspace has format {number[:9]}, this version of trawlnet reads {VERSION}",
            "use the newer trawlnet that wrote it, or name another workspace with -w",
        )


def check_formats(workspace: Path) -> None:
    """The same of every crawler, for what is not the work of one of them."""
    for path in sorted((workspace / "state").glob(f"*/{_FILE}")):
        check_format(path.parent)


def stamp_format(state: Path) -> None:
    """Record the format version for later versions of trawlnet."""
    if not (state / _FILE).exists():
        replace_file(state / _FILE, f"{_FAMILY}{VERSION}\n".encode())
