"""What can go wrong with tables, each with what to do about it."""

from __future__ import annotations

import re

from trawlnet.hinted import Hinted


class TablesError(Hinted):
    """ClickHouse refuses, or cannot go on; nothing that it had confirmed is lost."""


class TablesUnreachable(TablesError):
    """The server does not answer, or does not let us in."""


class TablesBusy(TablesError):
    """Another process has the embedded tables: only one at a time can."""


class TablesFull(TablesError):
    """There is no room on the disk that they are on."""


class TablesRefused(TablesError):
    """The values of one row cannot be stored there; those of others can."""


class LeaseLost(Exception):
    """Another process has the claim now. What was about to be written is not."""


class TablesMissing(TablesError):
    """The package that this needs is not installed."""


_LONGEST = 400  # Characters of ClickHouse's words that are passed on.
_PREFIX = re.compile(r"^.*?DB::Exception: ", re.DOTALL)
_SPACE = re.compile(r"\s+")


def said(error: BaseException) -> str:
    """ClickHouse's message on one line, without its codes and stack traces."""
    words = _PREFIX.sub("", str(error)).split("Stack trace:")[0]
    return _SPACE.sub(" ", words).strip()[:_LONGEST] or type(error).__name__
