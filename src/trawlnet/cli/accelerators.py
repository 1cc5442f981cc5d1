"""Optional parts that make a crawl faster, and what their absence costs; for `doctor`."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from trawlnet.atproto.identity import k256, keys
from trawlnet.native import loader
from trawlnet.net import loop
from trawlnet.net.client import inflate
from trawlnet.storage.files import has_syncfs


class DoctorMark(StrEnum):
    OK = "ok"
    MISSING = "missing"  # Absent, and optional.
    BAD = "bad"  # Required, and absent or broken.


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    what: str
    mark: DoctorMark
    detail: str
    hint: str = ""  # What to type.


_REINSTALL = "pip install --force-reinstall trawlnet, which has it compiled for Linux"
_COMPILE = f"{_REINSTALL}; from source: apt install gcc python3-dev, then pip install ."
_ZSTD = f"{_REINSTALL}; from source: apt install libzstd-dev, then pip install ."
_FAST = "pip install 'trawlnet[fast]'"
_NONE = "nothing to install: this system does not have it"


@dataclass(frozen=True, slots=True)
class Accelerator:
    what: str
    found: Callable[[], str]  # A description of what is installed; empty if nothing is.
    costs: str
    hint: str


def _core() -> str:
    return "compiled" if loader.native is not None else ""


def _zstd() -> str:
    version = getattr(loader.native, "ZSTD_VERSION", "")
    return f"{version}, linked" if version else ""


def _pages() -> str:
    return "compiled, over selectolax's Lexbor" if loader.page_reader() else ""


def _signatures() -> str:
    return "coincurve" if k256.is_available else ""


def _other_signatures() -> str:
    return "cryptography" if keys.openssl() is not None else ""


def _event_loop() -> str:
    return "uvloop" if loop.is_uvloop else ""


def _has(owner: object, name: str) -> Callable[[], str]:
    return lambda: name if hasattr(owner, name) else ""


def _batch_threads() -> str:
    """musl has the call, and answers each that it is not implemented."""
    try:
        os.sched_getscheduler(0)
    except (AttributeError, OSError):
        return ""
    return "sched_setscheduler"


ACCELERATORS = (
    Accelerator(
        "native core",
        _core,
        "reading a repository takes twenty times the CPU",
        _COMPILE,
    ),
    Accelerator("native zstd", _zstd, "packing a repository takes up to 7 % more CPU", _ZSTD),
    Accelerator(
        "native pages", _pages, "reading the links of a page takes about thrice the CPU", _COMPILE
    ),
    Accelerator(
        "signatures",
        _signatures,
        "verifying a signature takes eight times the CPU",
        "pip install coincurve",
    ),
    Accelerator(
        "P-256 signatures",
        _other_signatures,
        "verifying one of the few on this curve takes 2 ms instead of 0.07",
        _FAST,
    ),
    Accelerator("event loop", _event_loop, "Python's own serves: more CPU for each request", _FAST),
    Accelerator(
        "brotli",
        lambda: "brotli" if inflate.has_brotli else "",
        "servers are asked for gzip and zstd alone: more bytes on the wire",
        _FAST,
    ),
    Accelerator(
        "syncfs",
        lambda: "syncfs" if has_syncfs() else "",
        "each stored page is synced by itself: more waiting for the disk",
        _NONE,
    ),
    Accelerator(
        "batch threads",
        _batch_threads,
        "reading threads may hold up the event loop",
        _NONE,
    ),
    Accelerator(
        "low-water marks",
        _has(socket, "TCP_INFO"),
        "a long body wakes the event loop more often",
        _NONE,
    ),
)


def accelerator_findings() -> Iterator[DoctorFinding]:
    if os.environ.get("TRAWLNET_NATIVE") == "0":
        yield DoctorFinding(
            "native core", DoctorMark.OK, "not used: TRAWLNET_NATIVE=0 switches compiled code off"
        )
        return
    yield from map(_finding, ACCELERATORS)
    for module, trouble in loader.troubles.items():
        yield DoctorFinding(module, DoctorMark.BAD, f"does not load: {trouble}", _REINSTALL)


def _finding(one: Accelerator) -> DoctorFinding:
    if found := one.found():
        return DoctorFinding(one.what, DoctorMark.OK, found)
    return DoctorFinding(one.what, DoctorMark.MISSING, f"absent: {one.costs}", one.hint)
