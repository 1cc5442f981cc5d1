"""`repos follow` as people type it: what is refused, and with which hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.program import at_once
from trawlnet.archive.segment_file import create_segment

RELAY = ("--relay", "https://relay.example", "--contact", "me@example.org")


@pytest.mark.parametrize(
    ("flags", "error", "hint"),
    [
        (("--contact", "me@example.org"), "no firehose to follow", "--relay"),
        (("--relay", "relay.example"), "is not the URL of a server", "https://relay.example"),
        (("--pds", "ftp://pds.example"), "is not the URL of a server", "https://pds.example"),
        (("--relay", "http://127.0.0.1:1"), "is refused", "--allow-private-hosts"),
        ((*RELAY, "--fleet", "local"), "a fleet cannot follow", "leave out --fleet"),
        ((*RELAY, "--store", "localhost:6379"), "not in Redis", "leave out --store"),
        ((*RELAY, "--dids", "nowhere.txt"), "nowhere.txt", "one DID per line"),
    ],
)
def test_what_cannot_be_followed_is_said_before_anything_is_made(
    tmp_path: Path, flags: tuple[str, ...], error: str, hint: str
) -> None:
    contact = () if "--contact" in flags else ("--contact", "me@example.org")
    ran = at_once("repos", "follow", "-w", tmp_path / "net", *flags, *contact, "--json")
    assert ran.code != 0
    assert error in ran.error["error"]
    assert hint in ran.error["hint"]
    assert not (tmp_path / "net").exists()


def test_an_archive_of_version_1_takes_no_deltas(tmp_path: Path) -> None:
    archive = tmp_path / "net" / "archive"
    archive.mkdir(parents=True)
    create_segment(archive / "segment_0001.rca", 1, version=1).close()
    ran = at_once("repos", "follow", "-w", tmp_path / "net", *RELAY, "--json")
    assert "version 1, which cannot take changes" in ran.error["error"]
    ran = at_once("repos", "crawl", "--follow", "-w", tmp_path / "x", *RELAY, "--rca-version", "1")
    assert ran.code != 0
    assert "version 1" in ran.err
