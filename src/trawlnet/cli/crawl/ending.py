"""How a crawl ended: its exit code, and its last lines of output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.output import emit, listed, mute_stdout, say
from trawlnet.cli.common.workspace import Workspace
from trawlnet.cli.crawl.signals import tasks
from trawlnet.cli.crawl.status import status_row
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts
from trawlnet.observe.terminal.render import duration


@dataclass(frozen=True, slots=True)
class CrawlEnded:
    """The result of a crawl on one machine."""

    workspace: Workspace
    ending: Ending
    counts: Counts  # Over all runs.
    control: Control  # Of this run.
    seconds: float
    left_out: Mapping[str, int] = field(default_factory=dict)  # Keys by reason, over all runs.
    left_out_words: Sequence[str] = ()  # The same as text.
    verb: str = "crawl"  # The verb that continues the crawl.
    unread: Exit | None = None  # What it means that a source was not read.
    private: str = ""  # What --allow-private-hosts would let in, if some of it was refused.

    @property
    def code(self) -> Exit:
        if self.unread is not None:
            return self.unread
        match self.ending:
            case Ending.DRAINED:
                return Exit.INTERRUPTED
            case Ending.LIMIT:
                return Exit.LIMIT
            case _:
                is_left = given_up_on(self.counts) or self.counts.failing
                return Exit.GIVEN_UP if is_left or self.is_barred else Exit.DONE

    @property
    def is_barred(self) -> bool:
        """Whether nothing but refusals came of it, for want of a flag."""
        came_of_it = {reason for reason, count in self.counts.settled.items() if count}
        return bool(self.private) and came_of_it == {Reason.REFUSED} and not self.counts.scheduled

    @property
    def story(self) -> str:
        settled = self.control.figures.settled
        came_of_it = listed(settled) if any(settled.values()) else "nothing new"
        return f"{_ENDINGS[self.ending]} after {duration(self.seconds)}: {came_of_it}"


_ENDINGS = {
    Ending.DONE: "done",
    Ending.LIMIT: "stopped at a limit",
    Ending.DRAINED: "interrupted, saved,",
}


def given_up_on(counts: Counts) -> int:
    """The number of keys that were given up: only `retry` reopens them."""
    return counts.blocked + sum(
        count for reason, count in counts.settled.items() if not reason.answer
    )


def sum_up(ended: CrawlEnded) -> None:
    """Print how the crawl ended, and what to type next."""
    say(ended.story)
    what, place = ended.workspace.crawler, ended.workspace.place
    left = ended.counts.open - ended.counts.blocked
    if left and ended.ending is not Ending.DONE:
        again = f"trawlnet {what} {ended.verb} {place}, with the same flags"
        say(f"hint: {tasks(left)} left; continue: {again}")
    verb = f"trawlnet {what} failures {place}"
    if given_up := given_up_on(ended.counts):
        say(f"hint: {tasks(given_up)} given up; list with: {verb}")
    if failing := ended.counts.failing:
        say(f"hint: {tasks(failing)} failed, to be tried again later; list with: {verb}")
    if ended.left_out_words:
        say(f"left out: {', '.join(ended.left_out_words)}")
    if ended.private:
        retry = f"trawlnet {what} retry {place} --reason {Reason.REFUSED}"
        again = "then the same command with --allow-private-hosts"
        say(f"hint: to allow {ended.private}: {retry}, {again}")


def emit_summary(ended: CrawlEnded) -> None:
    """Print how the crawl ended as one JSON object."""
    control, crawler = ended.control, ended.workspace.crawler
    row = {"event": "summary", "ending": ended.ending, "exit_code": ended.code}
    row |= {"seconds": round(ended.seconds, 3), "given_up": given_up_on(ended.counts)}
    row |= {"failing": ended.counts.failing} if ended.counts.failing else {}
    row |= {"left_out": ended.left_out} if ended.left_out else {}
    row |= {
        "fed": control.figures.fed,
        "run": {"attempts": control.figures.tally, "settled": control.figures.settled},
    }
    try:
        emit(row | status_row(crawler, ended.counts))
    except BrokenPipeError:
        mute_stdout()  # The exit code does not depend on the reader of the output.
