"""`repos verify --proofs` and `repos car`, as one types them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.cli.conftest import Network
from tests.support.program import Ran, environment, trawlnet
from tests.support.repos.living import LivingRepo, did_of, pack
from tests.support.repos.made_repos import DID
from tests.support.repos.made_segments import make_block, write
from tests.support.repos.provable import forged, provable_block, signed_car, some_records
from tests.support.repository.reading import read_header
from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.format import rca
from trawlnet.archive.reader import Segment, open_segment
from trawlnet.atproto.dagcbor import encode
from trawlnet.cli.main import run

CAR = signed_car({**some_records(1), "a.b.c/it": encode({"text": "as it was"})})


Ask = Callable[..., Ran]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    def call(*arguments: object, cwd: Path) -> Ran:
        monkeypatch.chdir(cwd)
        capsys.readouterr()
        code = run([str(one) for one in arguments])
        return Ran(code, *capsys.readouterr())

    return call


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path / "archive", [provable_block(CAR)])
    return tmp_path


def test_a_proven_archive_says_whose_word_the_keys_are(home: Path, ask: Ask) -> None:
    ran = ask("repos", "verify", "archive", "--proofs", cwd=home)
    assert (ran.code, ran.out) == (0, "")
    assert "1 repositories proven, 0 not; their keys were taken from the archive" in ran.err
    ran = ask("repos", "verify", "archive", "--proofs", "--json", cwd=home)
    repo, total = map(json.loads, ran.out.splitlines())
    assert repo == {
        "did": DID,
        "rev": repo["rev"],
        "root": str(read_header(CAR).roots[0]),
        "proven": True,
        "reason": "",
    }
    assert (total["proven"], total["unproven"]) == (1, 0)


def test_the_record_that_does_not_fit_is_named(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path / "archive", [forged(provable_block(CAR), {b"as it was": b"as it is!"})])
    ran = ask("repos", "verify", "archive", "--proofs", cwd=tmp_path)
    assert ran.code == 1
    place = "archive/segment_0001.rca@64"
    assert ran.out == f"{place}: {DID} a.b.c/it: is not the record that was archived\n"
    assert ask("repos", "verify", "archive", cwd=tmp_path).code == 0
    assert ask("repos", "car", "archive", "--did", DID, cwd=tmp_path).code == 1


def test_version_1_is_sound_and_unproven(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path / "archive", [make_block(DID), provable_block(CAR, at_us=0)])
    ran = ask("repos", "verify", "archive", "--proofs", cwd=tmp_path)
    assert ran.code == 1
    assert "a block of version 1 holds no proof" in ran.out
    assert ask("repos", "tally", "archive", cwd=tmp_path).code == 0


def test_a_car_comes_back(home: Path, ask: Ask) -> None:
    ran = ask("repos", "car", "archive", "--did", DID, "-o", "repo.car", cwd=home)
    assert ran.code == 0
    assert read_header((home / "repo.car").read_bytes()).roots == read_header(CAR).roots
    ran = ask("repos", "car", "archive", "--did", "did:plc:" + "z" * 24, cwd=home)
    assert ran.code == 1
    assert "is not in ./archive" in ran.err


def test_keys_are_compared_only_for_proofs(home: Path, ask: Ask) -> None:
    assert ask("repos", "verify", "archive", "-w", ".", cwd=home).code == 2
    words = ("--proofs", "-w", ".", "--plc-url", "https://plc.directory")
    assert ask("repos", "verify", "archive", *words, cwd=home).code == 2


def test_what_was_crawled_is_proven_by_the_logs_of_the_directory(
    network: Network, tmp_path: Path
) -> None:
    assert trawlnet(*network.crawl(tmp_path, "--contact", "a@example.org")).code == 0
    archive = tmp_path / "archive"
    asked = ("--proofs", "--plc-url", network.ready["plc"], "--json")
    allowed = {"TRAWLNET_REPOS_ALLOW_PRIVATE_HOSTS": "1", "TRAWLNET_REPOS_PLC_RPS": "500"}
    ran = trawlnet("repos", "verify", archive, *asked, **allowed)
    rows = ran.rows
    assert open_segment(archive / "segment_0001.rca").header.version == 2
    assert {row["did"] for row in rows[:-1] if row["proven"]} == network.repositories, rows


def test_version_1_can_still_be_written(network: Network, tmp_path: Path) -> None:
    more = ("--contact", "a@example.org", "--rca-version", 1)
    assert trawlnet(*network.crawl(tmp_path, *more)).code == 0
    assert open_segment(tmp_path / "archive" / "segment_0001.rca").header.version == 1
    assert trawlnet("repos", "verify", tmp_path / "archive").code == 0


def test_a_thousand_flips_of_an_archive_with_deltas_are_named(tmp_path: Path, ask: Ask) -> None:
    """By the command: the file, and within a block the place of it or whose it is."""
    archive = tmp_path / "archive"
    lives = [LivingRepo(n, 6, did_of(n)) for n in range(2)]
    write(archive, [life.full for life in lives])
    write(archive, [pack(life.change()) for life in (*lives, lives[0])])
    assert ask("repos", "verify", "archive", "--proofs", cwd=tmp_path).code == 0
    segments = [open_segment(path) for path in sorted(archive.glob("*.rca"))]
    sound = {segment.path: segment.file.read_bytes() for segment in segments}
    starts = {segment.path: list(block_starts(segment)) for segment in segments}
    dice = Random(18)
    for _ in range(1000):
        segment = dice.choice(segments)
        bad = bytearray(sound[segment.path])
        at = dice.randrange(len(bad))
        bad[at] ^= dice.randrange(1, 256)
        segment.file.write_bytes(bad)
        ran = ask("repos", "verify", "archive", "--proofs", cwd=tmp_path)
        assert ran.code == 1 and segment.path.name in ran.out, f"byte {at} of {segment.path.name}"
        if rca.HEADER_SIZE <= at < segment.blocks_end:
            start, did = max(one for one in starts[segment.path] if one[0] <= at)
            assert did in ran.out or f"{segment.path.name}@{start}" in ran.out, f"byte {at}"
        segment.file.write_bytes(sound[segment.path])


def block_starts(segment: Segment) -> Iterator[tuple[int, str]]:
    with segment.open() as fd:
        for block in segment.blocks(fd, check=True):
            assert isinstance(block, FoundBlock)
            yield block.offset, block.head.did


def test_a_car_has_its_name_when_it_is_whole(
    home: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed amid writing, what was there before stays."""
    (home / "repo.car").write_bytes(b"before")

    class Killed(BaseException):
        pass

    def die(fd: int) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", die)
        with pytest.raises(Killed):
            ask("repos", "car", "archive", "--did", DID, "-o", "repo.car", cwd=home)
    assert (home / "repo.car").read_bytes() == b"before"
    assert ask("repos", "car", "archive", "--did", DID, "-o", "repo.car", cwd=home).code == 0
    assert (home / "repo.car").read_bytes().startswith(CAR[: read_header(CAR).end])
    assert (home / "repo.car").stat().st_size == len(CAR)
    assert sorted(path.name for path in home.iterdir()) == ["archive", "repo.car"]


def test_a_proof_loads_no_event_loop_and_no_second_library_for_signatures() -> None:
    code = "import sys, trawlnet.cli.repos.verify\n"
    code += "print(sorted({'asyncio', 'cryptography'} & sys.modules.keys()))"
    start = [sys.executable, "-c", code]
    done = subprocess.run(start, capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout == "[]\n"
