"""The workflow of hosted CI runs the one script that says what must hold."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def test_every_push_runs_the_script_of_the_repository() -> None:
    # YAML takes the word `on` for a truth value.
    told = yaml.safe_load(TEXT)
    assert set(told[True]) == {"push", "pull_request"}
    (job,) = told["jobs"].values()
    assert job["steps"][-1] == {"run": ".ci/run"}
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert any(step.get("uses", "").startswith("actions/checkout@") for step in job["steps"])


def test_it_may_read_and_no_more_and_ends_at_some_time() -> None:
    told = yaml.safe_load(TEXT)
    assert told["permissions"] == {"contents": "read"}
    assert "secrets." not in TEXT
    assert all(job["timeout-minutes"] <= 120 for job in told["jobs"].values())
