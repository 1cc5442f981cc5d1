"""How fast a PDS is asked, by its accounts: as pages add them, and after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from trawlnet.crawlers.repos.config import ReposConfig, manners
from trawlnet.crawlers.repos.rates import PdsRates, rate_for
from trawlnet.engine.gate import Gate
from trawlnet.net.clock import SystemClock
from trawlnet.store.lmdb_notes import open_notes

CONFIG = ReposConfig(default_pds_rps=5)


@pytest.mark.parametrize(
    ("accounts", "rate"), [(0, 2), (99, 2), (100, 5), (999, 5), (1000, 10), (500_000, 10)]
)
def test_size_decides(accounts: int, rate: float) -> None:
    assert rate_for(accounts, CONFIG) == rate


def test_rates_follow_the_pages_and_outlive_the_process(tmp_path: Path) -> None:
    notes, gate = open_notes(tmp_path), Gate(SystemClock(), manners(CONFIG))
    rates = PdsRates(notes, gate, CONFIG)
    seen = []
    for _ in range(12):
        rates.add({"big": 100, "own": 1})
        seen.append(gate.manners("big").rate)
    assert seen == [5.0] * 9 + [10.0] * 3
    assert gate.manners("own").rate == 2.0 and rates.pdses == 2
    rates.close()

    again = Gate(SystemClock(), manners(CONFIG))
    kept = PdsRates(notes, again, CONFIG)
    assert (again.manners("big").rate, again.manners("own").rate) == (10.0, 2.0)
    kept.begin()
    kept.add({"big": 150})
    assert again.manners("big").rate == 5.0, "a new sweep counts anew, not on top"
    kept.close()
    assert PdsRates(notes, Gate(SystemClock(), manners(CONFIG)), CONFIG).pdses == 1
    notes.close()


def test_halving_and_blocking_work_on_the_rate_of_its_size(tmp_path: Path) -> None:
    notes, gate = open_notes(tmp_path), Gate(SystemClock(), manners(CONFIG))
    PdsRates(notes, gate, CONFIG).add({"big": 5000})
    polite = gate.manners("big")
    assert (polite.rate, polite.halve_every, polite.floor, polite.block_at) == (10.0, 5, 0.5, 10)
    notes.close()
