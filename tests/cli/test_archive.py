"""The verbs that read archives, as their users see them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.program import Ran, environment, trawlnet
from tests.support.repos.living import LivingRepo
from tests.support.repos.made_segments import make_block, write, writer_of
from trawlnet.archive.format import rca
from trawlnet.archive.segment_file import check
from trawlnet.archive.tombstones import Tombstone, append_tombstones
from trawlnet.cli.main import run

SEGMENT = "archive/segment_0001.rca"
# How well records compress is for the library to say, and differs between its versions.
BLOCK = rca.parse_block(make_block("did:plc:a", 10))
PROFILE, POST = (one.end - one.start for one in BLOCK.collections)
ENTRY = 2 + len("did:plc:a") + 16  # In the index.
FIRST = 64 + 3 * BLOCK.size + 4 + 3 * ENTRY + 32
SECOND = 64 + BLOCK.size + 4 + ENTRY + 32

Ask = Callable[..., Ran]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """The program within this process: starting it anew for each line takes far longer."""

    def call(*arguments: object, cwd: Path | None = None) -> Ran:
        if cwd is not None:
            monkeypatch.chdir(cwd)
        capsys.readouterr()
        code = run([str(one) for one in arguments])
        return Ran(code, *capsys.readouterr())

    monkeypatch.setattr(os, "fsync", lambda fd: None)
    yield call


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of two segments: a twice, b, c."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    write(tmp_path / "archive", [make_block(f"did:plc:{name}", 10) for name in "abc"])
    write(tmp_path / "archive", [make_block("did:plc:a", 20)])
    return tmp_path


def damage(home: Path) -> int:
    """Flip a byte in the data of the first block; returns its offset."""
    data = bytearray((home / SEGMENT).read_bytes())
    data[64 + 200] ^= 0x01
    (home / SEGMENT).write_bytes(data)
    return 64


def test_inspect_shows_header_index_and_collections(home: Path, ask: Ask) -> None:
    ran = ask("repos", "inspect", SEGMENT, cwd=home)
    assert ran.code == 0
    assert (
        ran.err == "block checksums and records are not checked here: trawlnet repos verify does\n"
    )
    assert ran.out == (
        "segment        archive/segment_0001.rca\n"
        "version        1\n"
        "created        2023-11-14T22:13:20.000Z\n"
        "finalised      yes\n"
        "repo count     3\n"
        f"index offset   {64 + 3 * BLOCK.size}\n"
        "index entries  3\n"
        "index          sound\n"
        "repos          3\n"
        "records        9\n"
        "deltas         0\n"
        f"bytes          {FIRST} bytes\n"
        "torn           0 bytes\n"
        "\n"
        "collection              repos  records  compressed  unpacked\n"
        f"app.bsky.actor.profile      3        3         {3 * PROFILE}        87\n"
        f"app.bsky.feed.post          3        6         {3 * POST}       174\n"
    )
    row = ask("repos", "inspect", SEGMENT, "--json", cwd=home).rows[0]
    assert row["repos"] == row["index_entries"] == 3 and row["finalised"] is True
    assert row["collections"][1] == {
        "collection": "app.bsky.feed.post",
        "repos": 3,
        "records": 6,
        "compressed_bytes": 3 * POST,
        "unpacked_bytes": 174,
    }
    assert row["damage"] == []


def test_inspect_tells_the_version_of_what_is_there(tmp_path: Path, ask: Ask) -> None:
    """Also of a segment that nobody has finished yet."""
    life = LivingRepo(3)
    write(tmp_path / "archive", [life.full])
    open_one = writer_of(tmp_path / "open")
    open_one.append([check(life.full)])
    for folder, is_finished in (("archive", True), ("open", False)):
        path = f"{folder}/segment_0001.rca"
        assert "version        2\n" in ask("repos", "inspect", path, cwd=tmp_path).out
        row = ask("repos", "inspect", path, "--json", cwd=tmp_path).rows[0]
        assert (row["version"], row["finalised"]) == (2, is_finished)
    open_one.close()


def test_inspect_names_what_is_wrong_with_header_index_and_footer(home: Path, ask: Ask) -> None:
    index = 64 + 3 * BLOCK.size
    for flipped, place, what in (
        (20, 20, "repos, in the footer 3"),
        (24, None, "an index at"),
        (index + 8, index, "index CRC differs from the one in the footer"),
        (FIRST - 5, None, "no footer: the magic bytes are missing"),
    ):
        sound = (home / SEGMENT).read_bytes()
        damaged = bytearray(sound)
        damaged[flipped] ^= 0x01
        (home / SEGMENT).write_bytes(damaged)
        for verb in ("inspect", "tally"):
            ran = ask("repos", verb, SEGMENT, cwd=home)
            assert ran.code == 1 and what in ran.err, (flipped, ran)
            assert f"damaged: {SEGMENT}@{'' if place is None else place}" in ran.err
            ran = ask("repos", verb, SEGMENT, "--json", cwd=home)
            assert ran.code == 1 and what in ran.rows[0]["damage"][0]["what"]
        (home / SEGMENT).write_bytes(sound)


def test_tally_counts_each_repository_once(home: Path, ask: Ask) -> None:
    ran = ask("repos", "tally", "archive", cwd=home)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "collection              repos  records  compressed\n"
        f"app.bsky.actor.profile      3        3         {3 * PROFILE}\n"
        f"app.bsky.feed.post          3        6         {3 * POST}\n"
        "\n"
        f"3 repos with 9 records in 2 segments, {FIRST + SECOND} bytes; "
        "1 blocks superseded, 0 tombstoned\n"
    )
    row = ask("repos", "tally", "archive", "--json", cwd=home).rows[0]
    assert (row["segments"], row["repos"], row["records"], row["superseded"]) == (2, 3, 9, 1)
    one = ask("repos", "tally", SEGMENT, "--json", cwd=home).rows[0]
    assert (one["segments"], one["repos"], one["superseded"]) == (1, 3, 0)


def test_verify_is_silent_about_sound_bytes_and_names_damaged_ones(home: Path, ask: Ask) -> None:
    ran = ask("repos", "verify", "archive", cwd=home)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == (
        f"2 segments, {FIRST + SECOND} bytes, 4 blocks (1 superseded, 0 tombstoned), "
        "12 records: sound\n"
    )
    offset = damage(home)
    ran = ask("repos", "verify", "archive", cwd=home)
    assert ran.code == 1
    assert ran.out.startswith(f"archive/segment_0001.rca@{offset}: block CRC ")
    assert ran.err.endswith(": 1 damaged places\n")
    ran = ask("repos", "verify", "archive", "--json", cwd=home)
    assert ran.code == 1
    assert ran.rows[0]["file"] == SEGMENT and ran.rows[0]["offset"] == offset
    assert ran.rows[-1]["damaged"] == 1 and ran.rows[-1]["blocks"] == 3


def test_verify_tells_of_a_segment_that_a_killed_crawl_left(home: Path, ask: Ask) -> None:
    path = home / "archive" / "segment_0002.rca"
    data = path.read_bytes()
    path.write_bytes(data[:20] + bytes(12) + data[32:200])
    ran = ask("repos", "verify", "archive", cwd=home)
    assert ran.code == 0
    assert "segment_0002.rca: unfinalised, 136 bytes torn; a crawl continues in it\n" in ran.err
    assert ask("repos", "tally", "archive", "--json", cwd=home).rows[0]["unfinalised"] == 1


def test_cat_prints_the_latest_records_of_one_repository(home: Path) -> None:
    ran = trawlnet("repos", "cat", "archive", "--did", "did:plc:a", cwd=home)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        '{"did":"did:plc:a","collection":"app.bsky.actor.profile","rkey":"self",'
        '"value":{"displayName":"x"}}\n'
        '{"did":"did:plc:a","collection":"app.bsky.feed.post","rkey":"3ka",'
        '"value":{"text":"did:plc:a at 20"}}\n'
        '{"did":"did:plc:a","collection":"app.bsky.feed.post","rkey":"3kb",'
        '"value":{"text":"two"}}\n'
    )
    flags = ("--did", "did:plc:a", "--collection", "app.bsky.actor.*")
    rows = trawlnet("repos", "cat", "archive", *flags, cwd=home).rows
    assert [row["collection"] for row in rows] == ["app.bsky.actor.profile"]
    rows = trawlnet("repos", "cat", SEGMENT, "--did", "did:plc:a", cwd=home).rows
    assert rows[1]["value"] == {"text": "did:plc:a at 10"}


def test_cat_of_a_repository_that_is_not_there_says_so(home: Path, ask: Ask) -> None:
    ran = ask("repos", "cat", "archive", "--did", "did:plc:nobody", cwd=home)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "error: did:plc:nobody is not in ./archive\nhint: list its contents: trawlnet repos tally\n"
    )
    ran = ask("repos", "cat", "archive", "--did", "did:plc:nobody", "--json", cwd=home)
    assert ran.error["error"] == "did:plc:nobody is not in ./archive"
    assert ask("repos", "cat", "archive", cwd=home).code == 2


def test_cat_tells_of_damage_and_falls_back_on_the_block_before(home: Path, ask: Ask) -> None:
    path = home / "archive" / "segment_0002.rca"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    ran = ask("repos", "cat", "archive", "--did", "did:plc:a", cwd=home)
    assert ran.code == 1 and "segment_0002.rca@64: block CRC" in ran.err
    assert ran.rows[1]["value"] == {"text": "did:plc:a at 10"}
    for damaged in (home / "archive").glob("*.rca"):
        data = bytearray(damaged.read_bytes())
        data[200] ^= damaged != path
        damaged.write_bytes(data)
    ran = ask("repos", "cat", "archive", "--did", "did:plc:a", cwd=home)
    assert ran.code == 1 and "is not in" not in ran.err
    assert "did:plc:a cannot be read from ./archive" in ran.err


def test_what_is_gone_is_neither_printed_nor_counted(home: Path, ask: Ask) -> None:
    append_tombstones(home / "archive", [Tombstone("did:plc:b", "takendown", 11)])
    ran = ask("repos", "cat", "archive", "--did", "did:plc:b", cwd=home)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: did:plc:b is gone: takendown\nhint: ")
    copy = ask("repos", "car", "archive", "--did", "did:plc:b", "-o", "b.car", cwd=home)
    assert copy.code == 1 and copy.err == ran.err and not (home / "b.car").exists()
    row = ask("repos", "tally", "archive", "--json", cwd=home).rows[0]
    assert (row["repos"], row["tombstoned"]) == (2, 1)


def test_compact_drops_what_no_longer_counts(home: Path, ask: Ask) -> None:
    ran = ask("repos", "compact", "archive", "--dry-run", cwd=home)
    assert ran.code == 0
    assert ran.err == (
        f"would drop 1 superseded and 0 tombstoned blocks, {BLOCK.size} bytes: "
        "1 of 2 segments rewritten, 0 removed\n"
    )
    ran = ask("repos", "compact", "archive", "--json", cwd=home)
    assert ran.code == 0
    assert ran.rows == [
        {
            "segments": 2,
            "rewritten": 1,
            "removed": 0,
            "superseded": 1,
            "tombstoned": 0,
            "folded": 0,
            "deltas": 0,
            "freed": BLOCK.size + ENTRY,
            "damage": [],
            "dry_run": False,
        }
    ]
    row = ask("repos", "tally", "archive", "--json", cwd=home).rows[0]
    assert (row["repos"], row["superseded"]) == (3, 0)


def test_compact_leaves_the_archive_of_a_fleet_alone(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "shared" / "manifest").mkdir(parents=True)
    for place in ("shared", "s3://bucket/archive"):
        ran = ask("repos", "compact", place, cwd=tmp_path)
        assert ran.code != 0 and "archive of a fleet" in ran.err


def test_compact_finishes_what_a_killed_crawl_left_and_prints_only_data(
    home: Path, ask: Ask
) -> None:
    path = home / "archive" / "segment_0002.rca"
    data = path.read_bytes()
    path.write_bytes(data[:20] + bytes(12) + data[32 : 64 + BLOCK.size] + b"torn")
    ran = ask("repos", "compact", "archive", "--json", cwd=home)
    assert ran.code == 0 and len(ran.rows) == 1 and ran.rows[0]["superseded"] == 1
    assert ask("repos", "tally", "archive", "--json", cwd=home).rows[0]["unfinalised"] == 0


def test_compact_waits_its_turn(home: Path, ask: Ask) -> None:
    writer = writer_of(home / "archive")
    ran = ask("repos", "compact", "archive", cwd=home)
    writer.close()
    assert ran.code == 11 and "in use by pid" in ran.err


@pytest.mark.parametrize("verb", ["tally", "verify", "cat", "compact", "inspect"])
def test_a_place_without_an_archive_is_said(verb: str, tmp_path: Path, ask: Ask) -> None:
    more = ("--did", "did:plc:a") if verb == "cat" else ()
    ran = ask("repos", verb, tmp_path / "none", *more)
    assert ran.code == 1 and ran.err.startswith("error: ") and "Traceback" not in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_workspace_in_place_of_its_archive_is_understood(home: Path, ask: Ask) -> None:
    ran = ask("repos", "tally", ".", cwd=home)
    assert ran.code == 1 and ran.err.endswith("\nhint: try ./archive\n")


def test_a_file_that_is_no_archive_is_said(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "x.rca").write_bytes(b"hello")
    ran = ask("repos", "inspect", "x.rca", cwd=tmp_path)
    assert ran.code == 1 and ran.err.startswith("error: x.rca@0: a header of 5 bytes")
    ran = ask("repos", "verify", "x.rca", cwd=tmp_path)
    assert ran.code == 1 and ran.out.startswith("x.rca@0: a header of 5 bytes")


def test_a_name_from_a_stranger_reaches_a_terminal_only_when_harmless(
    tmp_path: Path, ask: Ask
) -> None:
    write(tmp_path, [make_block("did:plc:a", 1, {"\x1b[31mred": {"k": b"{}"}})])
    assert "\x1b" not in ask("repos", "tally", tmp_path).out


def test_on_a_terminal_sizes_are_for_people(home: Path) -> None:
    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "trawlnet", "repos", "tally", "archive"],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=home,
        env=environment(),
    )
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 4096):
            seen += piece
    except OSError:
        pass  # The other end is closed.
    os.close(ours)
    assert program.wait(60) == 0
    assert b"1.2 KB" in seen and b"%d bytes" % (3 * POST) in seen
