"""`trawlnet web` with a fleet, before anything is started: what goes together, what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.program import at_once

FLEET = ("--fleet", "local", "--store", "redis://127.0.0.1:1/0", "--archive", "a")
SEED = "http://127.0.0.1:1/"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("crawl", SEED, *FLEET[:2], "--allow-private-hosts"), "--store redis://"),
        (("crawl", SEED, *FLEET[:4], "--allow-private-hosts"), "--archive s3://"),
        (("crawl", SEED, *FLEET), "--user-agent"),
        (("crawl", SEED, *FLEET, "--set", "revisit.enabled=true"), "revisit.enabled"),
        (("crawl", SEED, *FLEET, "--shards", "0"), "--shards"),
        (("run", SEED, *FLEET), "discovery spool"),
        (("scrape", *FLEET), "discovery spool"),
    ],
    ids=["redis", "archive", "agent", "revisit", "shards", "run", "scrape"],
)
def test_what_a_fleet_lacks_or_cannot_do_is_said_before_there_is_a_workspace(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    verb, *rest = arguments
    ran = at_once("web", verb, "-w", tmp_path / "w", *rest)
    assert ran.code == 2 and told in ran.err
    assert not (tmp_path / "w").exists()


def test_replaying_an_archive_needs_both_places_and_makes_neither(tmp_path: Path) -> None:
    there, out = tmp_path / "there", tmp_path / "out"
    assert at_once("web", "replay", "--archive", there).code == 2
    assert at_once("web", "replay", "-o", out).code == 2
    ran = at_once("web", "replay", "--archive", there, "-o", out)
    assert ran.code == 1 and "no captures of a fleet" in ran.err
    assert not there.exists() and not out.exists()
    ran = at_once("web", "report", "-w", tmp_path, "--archive", there)
    assert ran.code == 1 and "no captures of a fleet" in ran.err
