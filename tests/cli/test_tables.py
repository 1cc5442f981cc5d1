"""plc, replay and query as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.clickhouse_front import clickhouse_front
from tests.support.program import started, trawlnet

PRIVATE = "--allow-private-hosts"


@pytest.fixture(scope="module")
def workspace(network, tmp_path_factory) -> Path:
    """A workspace with the directory mirrored and every repository archived."""
    path = tmp_path_factory.mktemp("tables") / "w"
    plc = network.ready["plc"]
    ran = trawlnet("repos", "plc", "-w", path, "--plc-url", plc, PRIVATE, "--json")
    assert ran.code == 0, ran.err
    summary = ran.rows[-1]
    in_plc = {did for did, row in network.manifest["dids"].items() if row["in_plc"]}
    assert summary["dids"] == len(in_plc) and summary["up_to_date"]
    ran = trawlnet(*network.crawl(path))
    assert ran.code in (0, 3), ran.err
    return path


def answer(workspace: Path, sql: str, *flags: object) -> list[dict]:
    ran = trawlnet("repos", "query", sql, "-w", workspace, "--json", *flags)
    assert ran.code == 0, ran.err
    return ran.rows


COUNTS = "SELECT repo, collection, count() AS n FROM repo_records GROUP BY repo, collection"


def test_replay_fills_the_table_exactly_and_repeating_it_changes_nothing(workspace, network):
    first = trawlnet("repos", "replay", "-w", workspace, "--json")
    assert first.code == 0, first.err
    found = {(row["repo"], row["collection"]): row["n"] for row in answer(workspace, COUNTS)}
    truth = network.manifest["dids"]
    for did in network.repositories:
        for collection, count in truth[did]["records"].items():
            assert found[did, collection] == count
    assert first.rows[-1]["records"] == sum(found.values())
    again = trawlnet("repos", "replay", "-w", workspace)
    assert again.code == 0 and "0 records" in again.err and "already replayed" in again.err
    only = trawlnet(
        *("repos", "replay", "-w", workspace, "--truncate", "--collections", "app.bsky.feed.*")
    )
    assert only.code == 0
    rows = answer(workspace, COUNTS)
    assert rows and all(row["collection"].startswith("app.bsky.feed.") for row in rows)


def test_query_prints_a_table_for_people_and_says_what_is_wrong(workspace):
    shown = trawlnet("repos", "query", "SELECT 1 AS one, 'x' AS two;", "-w", workspace)
    assert shown.code == 0 and "one" in shown.out and "┌" in shown.out
    described = trawlnet("repos", "query", "DESCRIBE TABLE repo_records", "-w", workspace)
    assert described.code == 0 and "record_json" in described.out  # The example of --help.
    wrong = trawlnet("repos", "query", "SELECT nonsense", "-w", workspace, "--json")
    assert wrong.code == 1 and "nonsense" in wrong.error["error"]
    assert "SHOW TABLES" in wrong.error["hint"]


def test_a_damaged_segment_is_named_and_the_exit_code_is_1(workspace, tmp_path):
    segment = next((workspace / "archive").glob("*.rca"))
    body = bytearray(segment.read_bytes())
    body[200] ^= 0xFF
    broken = tmp_path / "broken" / segment.name
    broken.parent.mkdir()
    broken.write_bytes(body)
    ran = trawlnet("repos", "replay", "-w", tmp_path / "w", "--input-dir", broken.parent)
    assert ran.code == 1
    assert f"damaged: {broken}@" in ran.err
    assert "replayed: " in ran.err and "replayed: 0 records" not in ran.err


def test_tables_in_use_can_be_queried_and_are_code_11_to_who_writes(network, workspace, tmp_path):
    plc = network.ready["plc"]
    mirror = ("repos", "plc", "-w", tmp_path / "w", "--plc-url", plc, PRIVATE, "--follow")
    with started(*mirror, folder=tmp_path / "out") as running:
        running.says("up to date")
        rows = answer(tmp_path / "w", "SELECT count() AS n FROM plc_did_state")
        assert rows == [{"n": sum(row["in_plc"] for row in network.manifest["dids"].values())}]
        ran = trawlnet(
            *("repos", "replay", "-w", tmp_path / "w", "--input-dir", workspace / "archive"),
            "--json",
        )
        assert ran.code == 11 and str(running.pid) in ran.error["error"]
        running.process.terminate()
        ended = running.ended()
    assert ended.code == 130 and "continue: trawlnet repos plc" in ended.err


def test_what_is_missing_is_said(tmp_path, network):
    for verb in (("replay",), ("query", "SELECT 1")):
        ran = trawlnet("repos", *verb, "-w", tmp_path / "none", "--json")
        assert ran.code == 10 and not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    assert trawlnet("repos", "query", "SELECT 1", "-w", tmp_path / "empty").code == 1
    assert trawlnet("repos", "replay", "-w", tmp_path / "empty").code == 1
    no_contact = trawlnet("repos", "plc", "-w", tmp_path / "w")
    assert no_contact.code == 2 and "--contact" in no_contact.err
    nobody = ("--plc-url", "nonsense://", PRIVATE)
    assert trawlnet("repos", "plc", "-w", tmp_path / "w", *nobody).code == 2


def test_a_server_is_used_by_address_and_its_password_is_never_shown(network, tmp_path):
    plc = ("--plc-url", network.ready["plc"], PRIVATE)
    with clickhouse_front(tmp_path / "engine", "s3cret") as front:
        known = {
            "CLICKHOUSE_ADDRESS": front.address,
            "CLICKHOUSE_PASSWORD": "s3cret",
            "CLICKHOUSE_DATABASE": "mirror",
        }
        ran = trawlnet("repos", "plc", "-w", tmp_path / "w", *plc, "--json", **known)
        assert ran.code == 0, ran.err
        assert not (tmp_path / "w" / "tables").exists()
        count = "SELECT count() AS n FROM plc_did_state"
        rows = trawlnet("repos", "query", count, "-w", tmp_path / "w", "--json", **known).rows
        assert rows == [{"n": ran.rows[-1]["dids"]}]
        flags = ("--clickhouse-address", front.address, "--clickhouse-password", "wr0ng")
        refused = trawlnet("repos", "query", count, "-w", tmp_path / "w", *flags, "--json")
        assert refused.code == 12 and "refused the login" in refused.error["error"]
        for text in (ran.out, ran.err, refused.out, refused.err):
            assert "s3cret" not in text and "wr0ng" not in text
        config = trawlnet("config", "repos", "-w", tmp_path / "w", "--json", **known)
        assert "s3cret" not in config.out
        for log in (tmp_path / "w").rglob("*.log*"):
            assert "s3cret" not in log.read_text()
    gone = trawlnet("repos", "query", count, "-w", tmp_path / "w", "--json", **known)
    assert gone.code == 12 and front.address in json.loads(gone.err)["error"]
