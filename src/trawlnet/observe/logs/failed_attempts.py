"""Tries that failed, in the log: a wrapper around a handler."""

from __future__ import annotations

import logging

from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Handler
from trawlnet.engine.task import Task

log = logging.getLogger(__name__)


class LoggedTries:
    """An answer is no failure, whatever it says. A parked lane is told of when it is held, and
    what is not published yet is expected. The log bounds how many lines a minute brings."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, task: Task) -> Outcome:
        outcome = await self._handler(task)
        if not outcome.reason.answer and outcome.reason not in _EXPECTED:
            fields = {"key": task.key, "lane": outcome.lane or task.lane, "attempt": task.attempt}
            fields |= {"reason": str(outcome.reason), "detail": outcome.detail}
            log.info("attempt failed", extra=fields)
        return outcome


_EXPECTED = (Reason.PARKED, Reason.NOT_YET)
