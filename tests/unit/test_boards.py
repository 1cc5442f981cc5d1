"""Boards and rules follow from the list of metrics, and do in their stories what they should."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.support.program import PATIENCE
from tests.support.servers import require
from trawlnet.observe.alerts.rules import BEGAN, ENDED, FAILED, HOSTS_BLOCKED, AlertKind
from trawlnet.observe.metrics.catalogue import CATALOGUE, Owner, SeriesKind

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "observe"
BOARDS = sorted((FOLDER / "boards").glob("*.json"))
RULES = yaml.safe_load((FOLDER / "trawlnet.rules.yml").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule]
RECORDED = [rule for group in RULES["groups"] for rule in group["rules"] if "record" in rule]
STORIES = yaml.safe_load((FOLDER / "trawlnet.test.yml").read_text())["tests"]
# What Prometheus and its client library know of any program.
FOREIGN = {"up", *(f"process_{name}" for name in ("open_fds", "max_fds", "cpu_seconds_total"))}
FOREIGN |= {"process_resident_memory_bytes"}
SUFFIXES = {SeriesKind.HISTOGRAM: ("_bucket", "_sum", "_count")}
UNITS = {"s", "ms", "bytes", "Bps", "short", "cps", "percentunit"}


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_boards", ROOT / "scripts/make_boards.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_boards"] = module
    spec.loader.exec_module(module)
    return module


def board(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def panels(path: Path) -> list[dict[str, Any]]:
    return [panel for panel in board(path)["panels"] if panel["type"] != "row"]


def queries(path: Path) -> list[str]:
    return [target["expr"] for panel in panels(path) for target in panel["targets"]]


def known() -> set[str]:
    found = FOREIGN | {rule["record"] for rule in RECORDED}
    for one in CATALOGUE:
        found |= {one.exposed + suffix for suffix in SUFFIXES.get(one.kind, ("",))}
    return found


def series_in(expr: str) -> set[str]:
    """Names of series: words that are no function, no keyword, no label and in no quotes."""
    bare = re.sub(r'"[^"]*"', "", expr)
    bare = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    words = re.findall(r"[a-zA-Z_:][\w:]*(?!\s*\(|[\w:])", bare)
    return set(words) - {"and", "or", "unless", "sum", "max", "min"}


def test_what_is_committed_is_what_the_list_of_metrics_gives() -> None:
    for name, text in generator().files().items():
        where = FOLDER / name
        assert where.exists() and where.read_text() == text, (
            f"{name} is old: run python scripts/make_boards.py"
        )
    made = {f"boards/{path.name}" for path in BOARDS}
    assert made == {name for name in generator().files() if name.startswith("boards/")}


def test_there_is_a_board_for_each_crawler_and_one_for_all() -> None:
    names = {path.stem.removeprefix("trawlnet-") for path in BOARDS}
    assert names == {"overview", *(str(owner) for owner in Owner if owner is not Owner.EVERY)}


def test_every_metric_is_on_a_board_of_its_own_and_the_shared_ones_on_all() -> None:
    shown = {path.stem.removeprefix("trawlnet-"): "\n".join(queries(path)) for path in BOARDS}
    for one in CATALOGUE:
        places = shown if one.owner is Owner.EVERY else [str(one.owner)]
        for place in places:
            assert re.search(rf"\b{one.exposed}(_bucket)?\{{", shown[place]), (one.name, place)


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_board_is_what_grafana_takes(path: Path) -> None:
    whole = board(path)
    assert whole["uid"] == path.stem and len(whole["uid"]) <= 40
    assert whole["title"] and whole["description"] and whole["schemaVersion"] >= 36
    ids = [panel["id"] for panel in whole["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels(path):
        assert panel["title"] and panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        refs = [target["refId"] for target in panel["targets"]]
        assert refs and len(set(refs)) == len(refs)
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_panels_do_not_lie_over_each_other(path: Path) -> None:
    cells: Counter[tuple[int, int]] = Counter()
    for panel in board(path)["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                cells[x, y] += 1
    assert max(cells.values()) == 1


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_every_query_follows_what_the_reader_has_chosen(path: Path) -> None:
    variables = {one["name"] for one in board(path)["templating"]["list"]}
    assert variables >= {"datasource", "workspace", "instance"}
    for expr in queries(path):
        assert '{workspace=~"$workspace",instance=~"$instance"' in expr
        assert set(re.findall(r"\$(\w+)", expr)) <= variables | {"__rate_interval"}
        assert series_in(expr) <= known(), expr


def test_counters_are_shown_as_rates_and_histograms_as_quantiles() -> None:
    text = "\n".join(expr for path in BOARDS for expr in queries(path))
    for one in CATALOGUE:
        if one.kind is SeriesKind.COUNTER:
            uses = re.findall(rf"(\w+)\({one.exposed}\{{", text)
            assert uses and set(uses) == {"rate"}, one.name
        if one.kind is SeriesKind.HISTOGRAM:
            assert f"(rate({one.name}_bucket" in text


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["description"].endswith(".")
    assert series_in(rule["expr"]) <= known()


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_each_alert_has_a_story_in_which_it_fires_and_one_in_which_it_does_not(
    rule: dict[str, Any],
) -> None:
    outcomes = {
        bool(check["exp_alerts"])
        for story in STORIES
        for check in story["alert_rule_test"]
        if check["alertname"] == rule["alert"]
    }
    assert outcomes == {True, False}


def test_the_stories_are_about_series_that_there_are() -> None:
    told = {row["series"].partition("{")[0] for story in STORIES for row in story["input_series"]}
    assert told <= known()


def test_every_alert_is_explained() -> None:
    page = (ROOT / "docs/howto/alerts-and-boards.md").read_text()
    titles = [*AlertKind, HOSTS_BLOCKED, BEGAN, ENDED, FAILED]
    for name in [*titles, *(rule["alert"] for rule in ALERTS)]:
        assert f"`{name}`" in page, name


def test_every_crawler_has_alerts() -> None:
    groups = {group["name"].removeprefix("trawlnet-") for group in RULES["groups"]}
    assert groups == {"recorded", *map(str, Owner)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", "trawlnet.rules.yml"),
        ("test", "rules", "trawlnet.test.yml"),
        ("check", "config", "prometheus.yml"),
        ("check", "config", "prometheus.compose.yml"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_promtool_agrees(words: tuple[str, ...]) -> None:
    command = [require("promtool"), *words]
    ran = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
