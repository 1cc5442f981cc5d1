"""The pilot of the adaptive law: combines head, speed, ceiling, concurrency and retries."""

from __future__ import annotations

from collections.abc import Sequence

from trawlnet.crawlers.ids.adaptive.ceiling import Ceiling, EvenPace, SendRate
from trawlnet.crawlers.ids.adaptive.concurrency import Concurrency
from trawlnet.crawlers.ids.adaptive.embargo import Embargo
from trawlnet.crawlers.ids.adaptive.gap_search import probe_says
from trawlnet.crawlers.ids.adaptive.head import HeadModel
from trawlnet.crawlers.ids.adaptive.outage import Outage
from trawlnet.crawlers.ids.adaptive.speed import Speed
from trawlnet.crawlers.ids.adaptive.stall_detector import StallDetector
from trawlnet.crawlers.ids.adaptive.survey import survey_rate
from trawlnet.crawlers.ids.adaptive.walk import Walk
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.model import (
    Answer,
    AnswerVerdict,
    Ask,
    Decision,
    LedgerEntry,
    LedgerMark,
    PilotStart,
    Purpose,
)
from trawlnet.crawlers.ids.retries import (
    AFTER_ERROR,
    AFTER_THROTTLE,
    ENOUGH_FOR_OLD,
    Tries,
    Waiting,
    jittered,
    waits,
)

_LEAST_WAKE = 0.05  # Seconds between two looks at the head, so that several ids leave together.
_REPORT_EVERY = 10.0
_AHEAD = 5.0  # Seconds; an id that the line expects later than this was requested blindly.


class AdaptivePilot:
    def __init__(self, controls: Controls, start: PilotStart) -> None:
        self._controls = controls
        self._head = HeadModel(controls.freshness)
        self._speed = Speed(controls, self._head)
        self._ceiling = Ceiling(controls.max_rps)
        self._pace = EvenPace(controls.max_rps)
        self._crew = Concurrency(controls)
        self._walk = Walk(start.cursor, controls.step, start.pending)
        self._waiting = Waiting()
        self._waits = waits(controls.patience)
        self._stalls = StallDetector(self._head, self._walk, start.unsurveyed)
        self._outage = Outage()
        self._embargo = Embargo(start.embargoed)
        self._settled = 0
        self._sent = SendRate()
        self._report_at = float("-inf")
        self._said = ""

    @property
    def workers(self) -> int:
        return self._crew.size

    @property
    def crew(self) -> int:
        return self._crew.size

    @property
    def unsurveyed_from(self) -> int | None:
        return self._stalls.crossings.ground.lowest

    # --- Requests ---

    def asks(self, now: float, room: int) -> Sequence[Ask]:
        count = min(room, self._pace.ready(now))
        if count <= 0 or now < self._ceiling.held_until:
            return ()
        made = self._canary(now) if self._outage.on else self._gather(now, count)
        self._pace.spend(len(made))
        self._embargo.sent(len(made))
        self._sent.more(len(made))
        return made

    def _canary(self, now: float) -> list[Ask]:
        if not self._outage.take_canary(now):
            return []
        i = next(self._waiting.take(float("inf")), None)
        if i is None:
            i = self._walk.next_new()
        return [Ask(i, Purpose.CANARY, self._waiting.tries(i).total)]

    def _gather(self, now: float, count: int) -> list[Ask]:
        """Requests in the order of their priorities."""
        made = [self._retry(i) for i in self._embargo.take_share(now, count)]
        probes = self._stalls.probes(now, count - len(made))
        made.extend(self._stalls.crossings.ask(i) for i in probes)
        if self._waiting.next_at() <= now:
            self._again(now, count, made)
        if len(made) < count and self._walk.behind:
            made.extend(self._retry(i) for i in self._walk.old(count - len(made)))
        if self._stalls.stalled:
            made.extend(self._retry(i) for i in self._stalls.sentinels(now, count - len(made)))
        elif len(made) < count:
            fresh = self._walk.new(count - len(made), self._head.newest(now))
            made.extend(Ask(i, Purpose.FIRST) for i in fresh)
        if len(made) < count and len(self._embargo):
            made.extend(self._retry(i) for i in self._embargo.take(now, count - len(made)))
        return made

    def _again(self, now: float, count: int, made: list[Ask]) -> None:
        if len(made) >= count:
            return
        for i in self._waiting.take(now):
            if not self._stalls.holds(i):
                made.append(self._retry(i))
                if len(made) >= count:
                    return

    def _retry(self, i: int) -> Ask:
        return Ask(i, Purpose.RETRY, self._waiting.tries(i).total)

    def wake_at(self, now: float) -> float:
        if self._outage.on:
            return max(self._outage.canary_at, self._pace.next_at(now), self._ceiling.held_until)
        at = min(self._waiting.next_at(), self._stalls.next_at(now), self._embargo.next_at(now))
        if self._walk.behind:
            at = now
        elif not self._stalls.stalled:
            at = min(at, max(self._head.due(self._walk.cursor), now + _LEAST_WAKE))
        return max(at, self._pace.next_at(now), self._ceiling.held_until)

    def recall(self, seen: Sequence[tuple[int, float]]) -> None:
        """The last ids of the previous crawl, with their times: without them, a crawl that starts
        at the edge of a gap would not know how far to look."""
        for i, happened_at in seen:
            self._head.saw(i, happened_at, happened_at)
            self._stalls.highest = max(self._stalls.highest, i)
        self._head.refresh()

    def anchor_wanted(self) -> bool:
        """Whether an id that is known to exist, the higher the better, would help now."""
        return self._stalls.anchor_wanted()

    def anchored(self, now: float, newest: int) -> None:
        self._stalls.anchored(now, newest)

    # --- Answers ---

    def answered(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        ask, verdict = answer.ask, answer.verdict
        self._crew.took(answer.took)
        if verdict is AnswerVerdict.DISABLED:
            self._outage.disabled(now)
            return self._put_back(now, ask, now)
        if verdict is AnswerVerdict.THROTTLED:
            # Refusals alone are an outage, with any status; and if this was the canary, another
            # must follow.
            self._outage.failed(now)
            return self._throttled(now, answer)
        if verdict is AnswerVerdict.FAILED:
            self._outage.failed(now)
            if self._outage.on:
                return self._put_back(now, ask, now)  # Not the id's fault.
        else:
            self._outage.answered(now - answer.took)
        if ask.purpose.looks:
            return self._probed(now, answer)
        if ask.purpose is Purpose.FIRST:
            self._learn(now, answer)
        elif (
            left := self._walk.walked(ask.id, missing=verdict is AnswerVerdict.NOT_FOUND)
        ) is not None:
            self._stalls.crossings.cross(*left)
        if verdict.exists:
            return self._exists(now, answer)
        if verdict is AnswerVerdict.NOT_FOUND:
            return self._not_found(now, ask.id)
        return self._went_wrong(now, ask.id)

    def _learn(self, now: float, answer: Answer) -> None:
        """First requests show where the head is; retries are too few and too old for that."""
        missing = answer.verdict is AnswerVerdict.NOT_FOUND
        self._stalls.first_ask(now, missing=missing)
        if self._learns(now):
            self._head.first_ask(now, early=missing)

    def _learns(self, now: float) -> bool:
        """Whether an absent id now says anything about the delay."""
        if self._head.rate is None or self._stalls.stalled:
            return False
        return not self._head.timed or self._speed.at_head(now, self._walk.cursor)

    def _exists(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        i = answer.ask.id
        self._waiting.forget(i)
        self._stalls.exists(now, i, answer.happened_at)
        self._free(now)
        if answer.verdict in _SEEN:
            self._head.saw(i, now, answer.happened_at)
        if answer.verdict is AnswerVerdict.EMBARGOED:
            again = self._embargo.knows(i)
            self._embargo.hold(now, i)
            return () if again else (LedgerEntry(i, i + 1, LedgerMark.EMBARGOED),)
        if self._embargo.knows(i):
            self._embargo.let_go(i)
        self._settled += 1
        return self._entries(i, LedgerMark.DONE)

    def _entries(self, i: int, mark: LedgerMark) -> Sequence[LedgerEntry]:
        entry = LedgerEntry(i, i + 1, mark)
        if self._controls.step == 1:
            return (entry,)
        return (
            entry,
            LedgerEntry(i + 1, i + self._controls.step, LedgerMark.GAP, "left out on purpose"),
        )

    def _not_found(self, now: float, i: int) -> Sequence[LedgerEntry]:
        if i in self._embargo:
            self._embargo.again(i)
            return ()
        tries = self._waiting.tries(i)
        if self._stalls.missing(now, i):
            self._free(now)
            return ()
        if self._never_comes(now, i, tries):
            self._waiting.forget(i)
            return self._entries(i, LedgerMark.HOLE)
        if (due := min(self._head.due(i), now + self._waits[-1])) > now + _AHEAD:
            # Requested before anything was known of the ids: this is no try, and the line says
            # when to request it again.
            self._waiting.put(i, due, tries)
            return ()
        if tries.not_found == 1 and self._learns(now):
            self._head.still_absent()
        nth = min(tries.not_found, len(self._waits) - 1)
        wait = jittered(self._waits[nth], i, tries.total)
        self._waiting.put(i, now + wait, Tries(tries.not_found + 1, tries.errors))
        return ()

    def _never_comes(self, now: float, i: int, tries: Tries) -> bool:
        """Whether the id is a hole: later ids must exist and still be coming, or it may be late."""
        if i >= self._stalls.highest or self._stalls.stalled:
            return False
        if tries.not_found >= len(self._waits):
            return True
        # In a backlog, the id has had all the time that it would get at the head.
        out = self._head.out_since(i)
        old = out is not None and out + self._controls.patience < now
        return old and tries.not_found + 1 >= ENOUGH_FOR_OLD

    def _went_wrong(self, now: float, i: int) -> Sequence[LedgerEntry]:
        if i in self._embargo:
            self._embargo.again(i)
            return ()
        self._stalls.untold(now, i)
        self._free(now)
        tries = self._waiting.tries(i)
        if tries.errors >= len(AFTER_ERROR):
            self._waiting.forget(i)
            return (LedgerEntry(i, i + 1, LedgerMark.MISSED, "errors used up its attempts"),)
        wait = jittered(AFTER_ERROR[tries.errors], i, tries.total)
        self._waiting.put(i, now + wait, Tries(tries.not_found, tries.errors + 1))
        return ()

    def _throttled(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        sent = now - answer.took
        rate = self._sent.rate(now, self._pace.rate)
        if self._ceiling.refused(now, sent=sent, rate=rate, wait=answer.wait):
            self._pace.retune(now, min(self._pace.rate, self._ceiling.value(now)))
        return self._put_back(now, answer.ask, now + jittered(AFTER_THROTTLE, answer.ask.id, 0))

    def _put_back(self, now: float, ask: Ask, due: float) -> Sequence[LedgerEntry]:
        """The answer is inconclusive: request the id again, and count no try."""
        i = ask.id
        if ask.purpose.looks:
            self._stalls.probed(now, i, None, None)
        elif i in self._embargo:
            self._embargo.again(i)
        else:
            self._stalls.untold(now, i)
            self._free(now)
            self._waiting.put(i, due, self._waiting.tries(i))
        return ()

    def _probed(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        i, verdict = answer.ask.id, answer.verdict
        fetched = verdict.exists and self._walk.fetched_ahead(i)
        self._stalls.probed(now, i, probe_says(verdict), answer.happened_at)
        self._free(now)
        entries = self._stalls.crossings.entries()
        if fetched and verdict is AnswerVerdict.EMBARGOED:
            self._embargo.hold(now, i)
            entries.append(LedgerEntry(i, i + 1, LedgerMark.EMBARGOED))
        elif fetched:
            self._settled += 1
            entries.append(LedgerEntry(i, i + 1, LedgerMark.DONE))
        return entries

    def _free(self, now: float) -> None:
        """Request ids again that were held back during a stall."""
        if self._stalls.freed:
            for i in self._stalls.freed:
                self._waiting.put(i, now, self._waiting.tries(i))
            self._stalls.freed.clear()
        if self._stalls.over:
            self._stalls.over = False
            self._waiting.hurry(now)

    def allow(self, now: float, max_rps: float) -> None:
        self._ceiling.allow(max_rps)
        self._speed.allow(max_rps)

    # --- Once a second ---

    def decide(self, now: float) -> Decision | None:
        blind = self._head.rate is None
        self._head.refresh()
        if blind and self._head.rate is not None:
            self._waiting.hurry(now)
        wanted = self._speed.wanted(
            now,
            self._walk.cursor,
            stalled=self._stalls.stalled,
            embargoed=len(self._embargo),
        )
        ground = self._stalls.crossings.ground
        if ground:
            wanted += survey_rate(wanted)
        rate = min(wanted, self._ceiling.value(now))
        self._stalls.pace = rate
        ground.retune(now, survey_rate(rate))
        self._pace.retune(now, rate)
        self._sent.tick(now)
        state = self._state(now)
        if state != self._said:
            self._crew.forget()
        measured = self._crew.measure(now, self._settled)
        frozen = measured is not None and state in _PREDICTABLE and self._crew.judge(now)
        changed = state in _PREDICTABLE and self._crew.fit(now, rate)
        predicted = self._predicted(state, rate)
        self._crew.predict(now, predicted, self._settled)
        if not (changed or frozen or state != self._said or now >= self._report_at):
            return None
        self._said, self._report_at = state, now + _REPORT_EVERY
        why = f"{state}; prediction was off, workers unchanged" if frozen else state
        return Decision(now, "adaptive", self._crew.size, rate, predicted, measured, why)

    def _state(self, now: float) -> str:
        if self._outage.on:
            return "outage: one probe at a time"
        if self._stalls.stalled:
            return "nothing new: a stall or a gap"
        if self._head.rate is None:
            return "starting"
        return "at the head" if self._speed.at_head(now, self._walk.cursor) else "catching up"

    def _predicted(self, state: str, rate: float) -> float:
        if state == "at the head":
            return min(rate, self._head.rate or rate)
        return rate if state in _PREDICTABLE else 0.0


_SEEN = (AnswerVerdict.STORED, AnswerVerdict.FILTERED)
_PREDICTABLE = ("at the head", "catching up")
