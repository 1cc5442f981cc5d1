"""Every way a command can end badly: one line, what to type next, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from dataclasses import dataclass
from enum import IntEnum

import typer

from trawlnet.cli.common.complaint import complain
from trawlnet.crawlers.errors import NotReady, PartlyRead, Unanswered
from trawlnet.hinted import Hinted, UnknownFormat
from trawlnet.loading import extra_of
from trawlnet.net.redact import redact
from trawlnet.storage.errors import SinkBusy, SinkError, SinkUnreachable
from trawlnet.storage.s3 import ObjectsError
from trawlnet.stores.errors import StoreError, StoreUnreachable
from trawlnet.tables.errors import TablesBusy, TablesError, TablesMissing, TablesUnreachable


class Exit(IntEnum):
    """The exit codes; docs/reference/cli.md has the same table."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    GIVEN_UP = 3
    LIMIT = 4
    NO_WORKSPACE = 10
    IN_USE = 11
    UNREACHABLE = 12
    INTERRUPTED = 130


EXITS = {
    Exit.DONE: "done",
    Exit.ERROR: "an error; stderr has one line about it, and a hint",
    Exit.USAGE: "a wrong flag, variable or config key",
    Exit.GIVEN_UP: "finished, but some tasks were given up: see failures",
    Exit.LIMIT: "stopped at a limit; the same command continues",
    Exit.NO_WORKSPACE: "there is no such workspace",
    Exit.IN_USE: "another process is using the workspace",
    Exit.UNREACHABLE: "a server does not answer",
    Exit.INTERRUPTED: "interrupted; everything is saved",
}


class CliError(Hinted):
    """An error that the user can fix."""

    code = Exit.ERROR


class UsageTrouble(CliError):
    """A flag, a variable or a line of trawlnet.yaml is wrong."""

    code = Exit.USAGE


class NoWorkspace(CliError):
    code = Exit.NO_WORKSPACE


class InUse(CliError):
    code = Exit.IN_USE


class Interrupted(CliError):
    """The user interrupted the command; everything is saved."""

    code = Exit.INTERRUPTED


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    message: str
    hint: str
    code: Exit


# The same class whether typer carries its own click (from 0.20 on) or uses the real one.
_UsageError = typer.BadParameter.__base__ or typer.BadParameter


def explain(error: BaseException) -> ErrorMessage | None:
    """The message for the user; None for an error that only a bug can cause."""

    match error:
        case CliError():
            return ErrorMessage(error.message, error.hint, error.code)
        case NotReady():
            return ErrorMessage(error.message, error.hint, Exit.USAGE)
        case PartlyRead():
            return ErrorMessage(error.message, error.hint, Exit.GIVEN_UP)
        case StoreUnreachable() | SinkUnreachable() | TablesUnreachable() | Unanswered():
            return ErrorMessage(error.message, error.hint, Exit.UNREACHABLE)
        case ObjectsError():
            return ErrorMessage(error.message, error.hint, Exit.UNREACHABLE)
        case TablesMissing():
            return ErrorMessage(error.message, error.hint, Exit.USAGE)
        case SinkBusy() | TablesBusy():
            return ErrorMessage(error.message, error.hint, Exit.IN_USE)
        case StoreError() | SinkError() | TablesError() | UnknownFormat():
            return ErrorMessage(error.message, error.hint, Exit.ERROR)
        case typer.Abort() | KeyboardInterrupt():
            return ErrorMessage("interrupted", "", Exit.INTERRUPTED)
        case ModuleNotFoundError() if not (error.name or "").startswith("trawlnet"):
            what = f"the Python package {error.name} is not installed"
            hint = f"pip install 'trawlnet[{extra_of(error.name or '')}]'"
            return ErrorMessage(what, hint, Exit.ERROR)
        case OSError() if error.errno is not None:
            return _of_the_system(error)
        case _ if isinstance(error, _UsageError):
            return _of_the_command_line(error)
        case _:
            return None


def report_error(error: BaseException, *, as_json: bool) -> int:
    """Print the error on stderr and return the exit code."""
    known = explain(error)
    if known is None:
        print(redact("".join(traceback.format_exception(error))), file=sys.stderr, end="")
        what = f"this is a bug in trawlnet: {type(error).__name__}: {error}"
        known = ErrorMessage(
            what, "nothing saved is lost; report it with the lines above", Exit.ERROR
        )
    complain(known.message, known.hint, as_json=as_json)
    return known.code


def _of_the_system(error: OSError) -> ErrorMessage:
    where = f"{error.filename}: " if error.filename is not None else ""
    hint = _HINTS.get(error.errno or 0, "see the message; nothing that was saved is lost")
    # asyncio puts the address into strerror; the system's own text is enough then.
    words = os.strerror(error.errno or 0).lower()
    if error.errno == errno.EADDRINUSE and error.strerror and "address" in error.strerror:
        words = error.strerror
    return ErrorMessage(where + words, hint, Exit.ERROR)


_HINTS = {
    errno.ENOENT: "check the name and the folder that it is in",
    errno.EISDIR: "name a file, not a directory",
    errno.ENOTDIR: "a part of this path is a file; name a directory",
    errno.ENOSPC: "free some space, then run the same command again: it continues",
    errno.EDQUOT: "free some space or raise the quota, then run the same command again",
    errno.EROFS: "the file system is read-only; choose another directory with -w",
    errno.EACCES: "give this user access to it, or choose another directory with -w",
    errno.EPERM: "give this user access to it, or choose another directory with -w",
    errno.EADDRINUSE: "choose another port, or 0 for any free one",
    errno.EADDRNOTAVAIL: "choose an address of this machine, such as 127.0.0.1",
    errno.EMFILE: "raise the limit of open files (ulimit -n), then run again",
    errno.ENFILE: "close other programs: this machine has no open files left",
}


def _of_the_command_line(error: BaseException) -> ErrorMessage:
    message = getattr(error, "format_message", error.__str__)()
    context = getattr(error, "ctx", None)
    program = context.command_path if context is not None else "trawlnet"
    return ErrorMessage(message.rstrip("."), f"{program} --help", Exit.USAGE)
