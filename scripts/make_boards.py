"""Write deploy/observe: Grafana boards, Prometheus rules and their tests, from the catalogue.

`python scripts/make_boards.py` writes them; a test fails when they are old.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent))

from alert_rules import RECORDED, RULES, Rule  # noqa: E402 - Needs the path set above.
from board_panels import Board, Panel, boards, chosen  # noqa: E402
from rule_cases import CASES, Case  # noqa: E402

FOLDER = ROOT / "deploy" / "observe"
_NOTE = "# Written by scripts/make_boards.py; change that, not this.\n"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _ACROSS = 8, 8, 24  # In units of Grafana's grid.


def files() -> Mapping[str, str]:
    """Every generated file by its path below the folder."""
    made = {
        f"boards/{board.uid}.json": json.dumps(board_json(board), indent=1) + "\n"
        for board in boards()
    }
    made["trawlnet.rules.yml"] = _NOTE + _yaml(rules_yaml())
    made["trawlnet.test.yml"] = _NOTE + _yaml(tests_yaml())
    return made


def board_json(board: Board) -> dict[str, Any]:
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.text,
        "tags": ["trawlnet"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables(board))},
        "panels": list(_laid_out(board)),
    }


def _variables(board: Board) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "source"}
    series = board.told_by
    yield _variable("workspace", f"label_values({series}, workspace)")
    within = 'workspace=~"$workspace"'
    narrowed = f"{series[:-1]},{within}}}" if series.endswith("}") else f"{series}{{{within}}}"
    yield _variable("instance", f"label_values({narrowed}, instance)")
    if board.crawler is None:
        yield _variable("crawler", f"label_values({series}{chosen()}, crawler)")


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        # A target without the label matches this, too.
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _laid_out(board: Board) -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for section in board.sections:
        number += 1
        place = {"x": 0, "y": top, "w": _ACROSS, "h": 1}
        yield {"id": number, "type": "row", "title": section.title, "gridPos": place, "panels": []}
        top += 1
        for index, panel in enumerate(section.panels):
            number += 1
            row, column = divmod(index, _ACROSS // _WIDTH)
            yield _panel_json(panel, number, column * _WIDTH, top + row * _HEIGHT)
        top += -(-len(section.panels) // (_ACROSS // _WIDTH)) * _HEIGHT


def _panel_json(panel: Panel, number: int, left: int, top: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": {"x": left, "y": top, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10}},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": query.expr,
                "legendFormat": query.legend,
                "datasource": _SOURCE,
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def rules_yaml() -> dict[str, Any]:
    recorded = [{"record": name, "expr": expr} for name, expr in RECORDED.items()]
    groups = [{"name": "trawlnet-recorded", "rules": recorded}]
    for owner in dict.fromkeys(rule.owner for rule in RULES):
        rules = [_rule_yaml(rule) for rule in RULES if rule.owner is owner]
        groups.append({"name": f"trawlnet-{owner}", "rules": rules})
    return {"groups": groups}


def _rule_yaml(rule: Rule) -> dict[str, Any]:
    return {
        "alert": rule.name,
        "expr": rule.expr,
        "for": rule.lasting,
        "labels": {"severity": rule.severity},
        "annotations": {"summary": rule.summary, "description": rule.what_to_do},
    }


def tests_yaml() -> dict[str, Any]:
    return {
        "rule_files": ["trawlnet.rules.yml"],
        "evaluation_interval": "1m",
        "tests": [_case_yaml(case) for case in CASES],
    }


def _case_yaml(case: Case) -> dict[str, Any]:
    rule = next(rule for rule in RULES if rule.name == case.alert)
    fired = {
        "exp_labels": {"severity": rule.severity, **case.labels},
        "exp_annotations": {"summary": rule.summary, "description": rule.what_to_do},
    }
    return {
        "name": case.story,
        "interval": "1m",
        "input_series": [{"series": s, "values": v} for s, v in case.series.items()],
        "alert_rule_test": [
            {
                "alertname": case.alert,
                "eval_time": case.at,
                "exp_alerts": [fired] if case.fires else [],
            }
        ],
    }


def _yaml(value: Any) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, width=110, allow_unicode=True))


def main() -> None:
    for name, text in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
