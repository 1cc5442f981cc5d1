"""The archiver's flags as people type them: accepted, checked, and found in variables too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.program import at_once, trawlnet
from tests.support.repos.run import blocks_written
from trawlnet.crawlers.repos.config import ReposConfig, SourceKind, limits


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("--zstd-level", "20", "at most 19"),
        ("--zstd-level", "0", "at least 1"),
        ("--source", "firehose", "'plc', 'relay' or 'file'"),
        ("--verify", "some", "'full', 'hashes' or 'off'"),
        ("--segment-size", "big", "a size such as"),
        ("--memory-limit", "1KB", "at least 1048576"),
        ("--redis-address", "not an address", "an address such as localhost:6379"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(
    flag: str, value: str, words: str, tmp_path: Path
) -> None:
    ran = at_once("repos", "crawl", "-w", tmp_path / "net", flag, value, "--json")
    assert ran.code == 2
    assert ran.error["error"].startswith(f"{flag}: expected ")
    assert words in ran.error["error"]
    assert not (tmp_path / "net").exists()


def test_every_flag_of_a_crawl_is_accepted_together(network: Any, tmp_path: Path) -> None:
    dids = tmp_path / "dids"
    dids.write_text("\n".join(sorted(network.repositories)[:5]))
    words = (
        "--workers 50 --default-pds-rps 5 --segment-size 2GB --zstd-level 19 --page-size 50000 "
        "--skip-pds skipped.example --resume --source file --max-repo-size 100MB --verify full "
        "--memory-limit 512MB --collections app.bsky.* --collections com.* --keep-cids --update"
    )
    ran = trawlnet(*network.crawl(tmp_path / "net", *words.split(), "--dids", dids))
    assert ran.code == 0, ran.err
    assert blocks_written(tmp_path / "net").keys() == set(sorted(network.repositories)[:5])


def test_the_source_follows_from_what_is_given() -> None:
    assert ReposConfig().chosen_source is SourceKind.PLC
    assert ReposConfig(relay="https://r").chosen_source is SourceKind.RELAY  # type: ignore[arg-type]
    assert ReposConfig(dids="f", relay=("https://r",)).chosen_source is SourceKind.FILE
    assert ReposConfig(dids="f", source=SourceKind.PLC).chosen_source is SourceKind.PLC


def test_back_pressure_is_counted_in_pages() -> None:
    most = limits(ReposConfig(page_size=100))
    assert (most.high_water, most.few_lanes, most.highest_water) == (1000, 50, 5000)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("localhost:6379", "redis://localhost:6379"),
        ("10.0.0.1", "redis://10.0.0.1"),
        ("host:1/3", "redis://host:1/3"),
        ("[::1]:6379", "redis://[::1]:6379"),
        ("rediss://u:p@h:1/2", "rediss://u:p@h:1/2"),
        ("", ""),
    ],
)
def test_a_redis_address_may_be_short(given: str, url: str) -> None:
    assert ReposConfig(redis_address=given).redis_address == url


def test_a_value_may_come_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "redis_url"
    secret.write_text("redis://:hush@redis.example:6379/0\n")
    rows = trawlnet("config", "repos", "--json", TRAWLNET_REPOS_STORE_FILE=str(secret)).rows
    (row,) = [row for row in rows if row["key"] == "repos.redis_address"]
    assert row["source"] == "TRAWLNET_REPOS_STORE_FILE"
    assert "redis.example" in row["value"] and "hush" not in row["value"]
    missing = trawlnet("config", "repos", TRAWLNET_REPOS_STORE_FILE=str(tmp_path / "none"))
    assert missing.code == 2 and "TRAWLNET_REPOS_STORE_FILE" in missing.err
