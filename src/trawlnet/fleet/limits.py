"""Limits of a whole crawl, which only the command of the fleet can check."""

from __future__ import annotations

from dataclasses import dataclass, field

from trawlnet.engine.ports import Clock
from trawlnet.fleet.supervise import Seen


@dataclass
class RunLimits:
    """Counted from the start of the command, over every term of every shard."""

    clock: Clock
    most_seconds: float | None
    most_tasks: int | None = None
    _started: dict[str, int] = field(default_factory=dict)  # Token of a term -> its tasks.

    def __post_init__(self) -> None:
        self._begun = self.clock.now()

    def out_of_time(self) -> bool:
        return self.most_seconds is not None and self.clock.now() - self._begun >= self.most_seconds

    async def reached(self, seen: Seen) -> bool:
        for row in seen.shards.values():
            self._started[row["token"]] = row["started"]
        spent = self.most_tasks is not None and sum(self._started.values()) >= self.most_tasks
        return spent or self.out_of_time()
