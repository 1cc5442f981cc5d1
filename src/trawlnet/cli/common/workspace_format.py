"""The version of a workspace's files: one number for all that have none of their own."""

from __future__ import annotations

from pathlib import Path

from trawlnet.cli.common.errors import CliError
from trawlnet.storage.files import replace_file

VERSION = 1
_FILE = "format"
_FAMILY = "trawlnet workspace "


def check_format(state: Path) -> None:
    """Refuse what a newer version has written; what has no number is of the first."""
    try:
        text = (state / _FILE).read_text("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return
    number = text.removeprefix(_FAMILY)
    known = text.startswith(_FAMILY) and number.isascii() and number.isdigit()
    if not known:
        raise CliError(
            f"{state / _FILE} does not say {_FAMILY + str(VERSION)!r}",
            "restore that file, or name another workspace with -w",
        )
    if int(number[:9]) > VERSION:
        raise CliError(
            f"the workspace has format {number[:9]}, this version of trawlnet reads {VERSION}",
            "use the newer trawlnet that wrote it, or name another workspace with -w",
        )


def stamp_format(state: Path) -> None:
    """Say for later versions which one has written here."""
    if not (state / _FILE).exists():
        replace_file(state / _FILE, f"{_FAMILY}{VERSION}\n".encode())
