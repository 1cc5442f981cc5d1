"""The history is bounded, survives a torn line, and tells of any span."""

from __future__ import annotations

from pathlib import Path

from trawlnet.observe.history import TIERS, History, last_sample, read_history


def fill(folder: Path, seconds: float, begin: float = 1e9) -> History:
    history = History(folder)
    for n in range(int(seconds / 10)):
        history.add(begin + 10.0 * n, {"done": n})
    return history


def test_the_last_hour_is_fine_and_a_day_is_coarser(tmp_path: Path):
    fill(tmp_path, 86_400)
    end = 1e9 + 86_400
    hour = read_history(tmp_path, end - 3600)
    assert 355 <= len(hour) <= 361 and hour[1].at - hour[0].at == 10.0
    day = read_history(tmp_path, end - 80_000, most=10_000)
    assert day[0].at - (end - 80_000) < 120 and 1300 <= len(day) <= 1440
    assert hour[-1].values["done"] == 8639


def test_disk_is_bounded_however_long_it_runs(tmp_path: Path):
    fill(tmp_path, 40_000)
    for tier in TIERS:
        lines = (tmp_path / f"{tier.name}.jsonl").read_bytes().count(b"\n")
        assert lines < 2 * tier.length


def test_a_restart_goes_on_and_a_torn_line_costs_itself(tmp_path: Path):
    fill(tmp_path, 600)
    hour = tmp_path / "hour.jsonl"
    hour.write_bytes(hour.read_bytes()[:-5])
    fill(tmp_path, 600, begin=1e9 + 700)
    samples = read_history(tmp_path, 0)
    assert [s.at for s in samples] == sorted(s.at for s in samples)
    assert len(samples) == 119 and samples[-1].at == 1e9 + 700 + 590


def test_few_enough_are_returned_and_the_newest_is_among_them(tmp_path: Path):
    fill(tmp_path, 3600)
    some = read_history(tmp_path, 0, most=50)
    assert len(some) <= 50 and some[-1].at == 1e9 + 3590


def test_nothing_was_noted_yet(tmp_path: Path):
    assert read_history(tmp_path / "none", 0) == []


def test_a_clock_that_was_set_back_does_not_stop_it(tmp_path: Path):
    history = fill(tmp_path, 600)
    history.add(1e9 - 5000, {"done": 1})
    assert read_history(tmp_path, 0)[-1].at == 1e9 - 5000


def test_the_newest_sample_is_found_behind_a_torn_line(tmp_path: Path):
    assert last_sample(tmp_path) is None
    fill(tmp_path, 6000)
    with (tmp_path / "hour.jsonl").open("ab") as file:
        file.write(b'{"at":1e9,"do')
    newest = last_sample(tmp_path)
    assert newest is not None and newest.values == {"done": 599}
