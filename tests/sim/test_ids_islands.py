"""Blocks of ids between two gaps: a gap is none before it was asked for finely enough."""

from __future__ import annotations

from itertools import pairwise

from trawlnet.cli.ids.worlds import SimulatedApi
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, Ask
from trawlnet.crawlers.ids.pilot_factory import make_pilot
from trawlnet.crawlers.ids.rehearsal import Rehearsal
from trawlnet.sim.ids import CounterLeap, Traffic, scenario

CALM = Traffic(seed=1, rate=20.0, hole_share=0.0, blemish_share=0.0, late_share=0.0)


class Server:
    """The world's answers, and which ids were asked for in vain."""

    def __init__(self, traffic: Traffic) -> None:
        self.absent: set[int] = set()
        self.served: list[int] = []
        self._world = SimulatedApi(traffic)

    def reply(self, ask: Ask, at: float) -> Answer:
        answer = self._world.reply(ask, at)
        if answer.verdict is AnswerVerdict.NOT_FOUND:
            self.absent.add(ask.id)
        elif answer.verdict in (AnswerVerdict.STORED, AnswerVerdict.FILTERED):
            self.served.append(ask.id)
        return answer


def crawl(traffic: Traffic, start: float, end: float, cap: float = 200.0) -> Rehearsal:
    server = Server(traffic)
    rehearsal = Rehearsal(server.reply, cap, start)
    rehearsal.run(make_pilot("adaptive", Controls(max_rps=cap), traffic.first_id), start, end)
    assert len(server.served) == len(set(server.served)), "an id was fetched twice"
    for low, high in rehearsal.journal.gaps:
        teeth = sorted({low - 1, high, *(i for i in server.absent if low <= i < high)})
        assert max(b - a for a, b in pairwise(teeth)) <= 64, "a gap is no guess"
    return rehearsal


def unfetched(traffic: Traffic, rehearsal: Rehearsal, before: float) -> list[int]:
    fetched, left, start = rehearsal.journal.fetched, [], traffic.first_id
    for low, high in (*traffic.gap_ranges(), (traffic.head(before), 0)):
        left += [i for i in range(start, low) if i not in fetched and not traffic.is_hole(i)]
        start = high
    return left


def test_blocks_between_old_gaps_are_fetched_by_a_crawl_that_catches_up() -> None:
    """The block between the first two gaps was written down as a part of one."""
    traffic = scenario("mixed", 1, 20.0)
    rehearsal = crawl(traffic, 960.0, 1500.0)
    assert unfetched(traffic, rehearsal, 900.0) == []


def test_small_islands_of_a_large_gap_are_found_in_time() -> None:
    leaps = (
        CounterLeap(100.0, 90_000),
        CounterLeap(107.0, 3000),
        CounterLeap(120.0, 70_000),
        CounterLeap(127.0, 9000),
    )
    traffic = Traffic(**{**vars(CALM), "gaps": leaps})
    rehearsal = crawl(traffic, 400.0, 2000.0)
    assert unfetched(traffic, rehearsal, 300.0) == []
