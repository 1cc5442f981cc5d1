"""The errors of sinks, each with a message for the user and an exit code."""

from __future__ import annotations

import errno

from trawlnet.hinted import Hinted


class SinkError(Hinted):
    """The run cannot continue: results cannot be written. Durable results are not affected."""

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message


class SinkUnreachable(SinkError):
    """A configured server does not answer."""


class StoppedWaiting(SinkUnreachable):
    """The user has ended the crawl while it waited for the server. What that has not confirmed is
    kept elsewhere, and the next run sends it again."""


class SinkBusy(SinkError):
    """Another process holds a lock that only one may hold."""


def from_os_error(error: OSError, doing: str) -> SinkError:
    """Turn an operating system error into one line for the user."""
    hint = _HINTS.get(error.errno or 0, "check the disk and the directory, then run again")
    return SinkError(f"{doing}: {error.strerror or error}", hint)


_HINTS = {
    errno.ENOSPC: "free some space, then run again: it continues where it stopped",
    errno.EDQUOT: "raise the quota or free some space, then run again",
    errno.EROFS: "the file system is read-only: remount it, or choose another directory",
    errno.EACCES: "give this user write access to the directory, or choose another",
    errno.EPERM: "give this user write access to the directory, or choose another",
    errno.EMFILE: "raise the limit of open files (ulimit -n), then run again",
    errno.EIO: "the disk reports errors: check it before you continue",
}
