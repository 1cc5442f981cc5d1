"""The closed table of reasons, the outcome of one attempt, and its receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Never

from trawlnet.engine.task import Task

if TYPE_CHECKING:
    # Python has defaults from 3.13 on; only the type checker needs them.
    from typing_extensions import TypeVar

    N = TypeVar("N", default=Never)
    N_co = TypeVar("N_co", covariant=True, default=Never)
    N_contra = TypeVar("N_contra", contravariant=True, default=Never)
else:
    from typing import TypeVar

    N = TypeVar("N")
    N_co = TypeVar("N_co", covariant=True)
    N_contra = TypeVar("N_contra", contravariant=True)


class Blame(StrEnum):
    """Whose fault a failure is: only a lane that is to blame is slowed down."""

    NOBODY = "nobody"  # Nothing is wrong.
    TASK = "task"  # This key is the problem; its lane is healthy.
    LANE = "lane"  # The host is the problem, for every key on it.
    US = "us"  # Our bug or our machine; the host is never punished for it.


class Again(StrEnum):
    NEVER = "never"  # Final, until `retry` reopens the key.
    COUNTED = "counted"  # Try again; each try uses one attempt.
    PATIENT = "patient"  # The server asked to wait: no attempt is used; waits are bounded, too.
    QUEUED = "queued"  # Others are asked first: neither an attempt nor a wait is used.
    AT_ONCE = "at_once"  # One step of several: the task continues without a final result.


class Reason(StrEnum):
    """Metric label, `--reason` value, exit summary and failure category: one word for all."""

    OK = "ok"
    NOT_MODIFIED = "not_modified"
    NOT_FOUND = "not_found"
    DEACTIVATED = "deactivated"
    TAKENDOWN = "takendown"
    SUSPENDED = "suspended"
    REFUSED = "refused"
    TOO_LARGE = "too_large"
    PARSE_ERROR = "parse_error"
    LOOP = "loop"
    HTTP_ERROR = "http_error"
    NOT_YET = "not_yet"
    EMBARGOED = "embargoed"
    RATE_LIMITED = "rate_limited"
    PARKED = "parked"
    UNAVAILABLE = "unavailable"
    DNS_ERROR = "dns_error"
    CONNECTION_ERROR = "connection_error"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
    BLOCKED = "blocked"
    NO_SPACE = "no_space"
    UNKNOWN = "unknown"

    @property
    def blame(self) -> Blame:
        """Who is slowed down for it."""
        return MEANING[self].blame

    @property
    def again(self) -> Again:
        """Whether the task is tried again, and what a try costs it."""
        return MEANING[self].again

    @property
    def success(self) -> bool:
        """Whether the visit brought what was asked for, or that nothing has changed."""
        return self in (Reason.OK, Reason.NOT_MODIFIED)

    @property
    def answer(self) -> bool:
        """A result, even when it is "no": it does not make a finished crawl a failed one."""
        return MEANING[self].answer


class Meaning(NamedTuple):
    blame: Blame
    again: Again
    answer: bool
    gloss: str


MEANING: dict[Reason, Meaning] = {
    Reason.OK: Meaning(Blame.NOBODY, Again.NEVER, True, "fetched and stored"),
    Reason.NOT_MODIFIED: Meaning(Blame.NOBODY, Again.NEVER, True, "unchanged since the last visit"),
    Reason.NOT_FOUND: Meaning(
        Blame.TASK, Again.NEVER, True, "the server reports that it does not exist"
    ),
    Reason.DEACTIVATED: Meaning(Blame.TASK, Again.NEVER, True, "switched off by its owner"),
    Reason.TAKENDOWN: Meaning(Blame.TASK, Again.NEVER, True, "taken down by its host"),
    Reason.SUSPENDED: Meaning(Blame.TASK, Again.NEVER, True, "suspended by its host"),
    Reason.REFUSED: Meaning(Blame.TASK, Again.NEVER, True, "our own policy forbids the request"),
    Reason.TOO_LARGE: Meaning(
        Blame.TASK, Again.NEVER, False, "over a size limit, on the wire or decompressed"
    ),
    Reason.PARSE_ERROR: Meaning(
        Blame.TASK, Again.NEVER, False, "the body is not what it claims to be"
    ),
    Reason.LOOP: Meaning(Blame.TASK, Again.NEVER, False, "redirects or cursors form a loop"),
    Reason.HTTP_ERROR: Meaning(
        Blame.TASK, Again.NEVER, False, "a status code that no other reason covers"
    ),
    Reason.NOT_YET: Meaning(Blame.TASK, Again.PATIENT, False, "not published yet"),
    Reason.EMBARGOED: Meaning(Blame.TASK, Again.PATIENT, False, "withheld for now by the server"),
    Reason.RATE_LIMITED: Meaning(
        Blame.LANE, Again.PATIENT, False, "the host asked us to slow down"
    ),
    Reason.PARKED: Meaning(
        Blame.NOBODY, Again.PATIENT, False, "its lane was parked before the request was sent"
    ),
    Reason.UNAVAILABLE: Meaning(
        Blame.LANE, Again.COUNTED, False, "the host answered with a server error"
    ),
    Reason.DNS_ERROR: Meaning(Blame.LANE, Again.COUNTED, False, "the host's name does not resolve"),
    Reason.CONNECTION_ERROR: Meaning(
        Blame.LANE, Again.COUNTED, False, "no connection, or it broke before an answer"
    ),
    Reason.TIMEOUT: Meaning(Blame.LANE, Again.COUNTED, False, "a deadline passed"),
    Reason.TRUNCATED: Meaning(Blame.TASK, Again.COUNTED, False, "the body ended early"),
    Reason.BLOCKED: Meaning(
        Blame.LANE, Again.NEVER, False, "its host failed too often; reopen it with retry"
    ),
    Reason.NO_SPACE: Meaning(Blame.US, Again.COUNTED, False, "the disk of this machine is full"),
    Reason.UNKNOWN: Meaning(
        Blame.US, Again.COUNTED, False, "a bug, or a fault of this machine; see the log"
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome(Generic[N_co]):
    """The result of one attempt at one task, as the handler returns it. `Outcome[Tally]` may carry
    a tally as news for its store; a plain `Outcome` carries none."""

    reason: Reason
    items: Sequence[Any] = ()  # For the sink.
    found: Sequence[Task] = ()  # For the store: new work that this task uncovered.
    wait: float | None = None  # The wait that the server asked for (Retry-After), in seconds.
    again_in: float | None = None  # Visit again after this many seconds.
    again: Again | None = None  # Overrides the retry rule of the reason.
    detail: str = ""  # One line for a human.
    lane: str = ""  # The lane that the outcome counts for, if not the task's: after a redirect.
    lane_is_well: bool = False  # The lane has answered since: the failure is this key's own.
    lane_is_down: bool = False  # No key of the lane can be fetched: suspend it at once.
    news: N_co | None = None  # For a store that knows more than tasks; the engine ignores it.

    def as_given_up(self, what: str) -> Outcome[N_co]:
        """The same outcome for a key that a crawl must have: it fails even if the answer is "no".
        `what` goes into the detail."""
        if not self.reason.answer or self.reason.success:
            return self
        reason = f"{self.reason}: {self.detail}" if self.detail else str(self.reason)
        return replace(self, reason=Reason.HTTP_ERROR, detail=f"{what}: {reason}")


@dataclass(frozen=True, slots=True)
class Receipt(Generic[N_co]):
    """What the store records, in one transaction, about one attempt."""

    task: Task
    reason: Reason
    found: Sequence[Task] = ()
    next: Task | None = None  # None: this key is settled.
    detail: str = ""
    at: float = 0.0
    news: N_co | None = None
    is_step: bool = False  # The task continues: this is no result of its key.
