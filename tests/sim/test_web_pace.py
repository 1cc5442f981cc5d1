"""How much of the ideal pace the crawl reaches in virtual time, where only its own rules can cost.

Each page leads to the next few, as on a site: a host's work is known only as it is settled.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

from tests.support.worlds import DictSink, ListSource
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.plan import engine_limits, manners_of
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Feed, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.stores.memory import MemoryStore

HOSTS, PAGES = 200, 20
DELAY, LATENCY = 1.0, 0.05  # Seconds.


def test_nothing_but_the_margin_costs_pace_and_no_gap_is_short() -> None:
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)

    async def main() -> Ending:
        config = WebConfig.model_validate(
            {"limits": {"req_per_sec": 1.0 / DELAY, "global_concurrency": HOSTS}}
        )
        clock = SimClock()
        gate = Gate(clock, manners_of(config))

        async def visit(task: Task) -> Outcome:
            async with gate.turn(task.lane):
                begun = clock.now()
                await clock.sleep(LATENCY)
                spans[task.lane].append((begun, clock.now()))
            number = int(task.key.rpartition("/")[2])
            more = range(2 * number + 1, min(2 * number + 3, PAGES))
            found = [Task(f"{task.lane}/{n}", task.lane, score=n) for n in more]
            return Outcome(Reason.OK, items=[number], found=found)

        seeds = [Task(f"host{n}/0", f"host{n}") for n in range(HOSTS)]
        source = ListSource([Page(seeds, "all")])
        store = MemoryStore()
        parts = Parts(Feed(source, store), store, visit, DictSink(), gate, clock)
        return await crawl(parts, engine_limits(config), Control(HOSTS))

    assert run_sim(main()) is Ending.DONE
    assert {len(one) for one in spans.values()} == {PAGES}
    gaps = [b[0] - a[1] for one in spans.values() for a, b in pairwise(one)]
    assert min(gaps) >= DELAY
    busy = math.fsum(one[-1][0] - one[0][0] for one in spans.values())
    ideal = HOSTS * (PAGES - 1) * (DELAY + LATENCY)
    assert ideal / busy > 0.995
