"""One line of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DoctorMark(StrEnum):
    OK = "ok"
    MISSING = "missing"  # Not there, and not needed unless you want it.
    BAD = "bad"  # Needed, and not in order.


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    what: str
    mark: DoctorMark
    detail: str
    hint: str = ""  # What to type.
