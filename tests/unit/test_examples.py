"""The examples do what their text says."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.frozen.ice import thaw
from tests.support.program import PATIENCE, environment, wait_until
from tests.support.repos.living import LivingArchive, LivingRepo, did_of, pack
from tests.support.repos.made_segments import make_block, write
from tests.support.repos.provable import (
    PROVABLE,
    odd_records,
    provable_block,
    signed_car,
    some_records,
)
from tests.support.repository.reading import read_header
from trawlnet.archive.census import load_tombstones, take_census
from trawlnet.archive.format.content import ExtractOptions
from trawlnet.archive.reader import find_segments
from trawlnet.archive.tally import open_all
from trawlnet.archive.tombstones import Tombstone, append_tombstones
from trawlnet.archive.verify import Proven, prove_folded, verify_segment
from trawlnet.atproto.identity.keys import Curve
from trawlnet.cli.main import run
from trawlnet.sim.private_key import PrivateKey

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> Any:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


API = example("story_api")


def reachable() -> set[int]:
    """What a reader of the API would find by hand: from the stories, over comments that are not
    gone."""
    found, todo = set(), list(range(1, API.STORIES + 1))
    while todo:
        item = API.item(todo.pop())
        if item and item["id"] not in found:
            found.add(item["id"])
            todo += item["kids"]
    return found


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """That a killed client is gone is no news."""


class SlowApi:
    """The API, which answers no more requests than it is allowed to: whoever crawls it cannot be
    done before a test has killed it."""

    def __init__(self) -> None:
        self.allowed, self.asked, self.state = 0, 0, threading.Condition()
        api = self

        class Handler(API.StoryHandler):
            failed: ClassVar[set[str]] = set()

            def count(self) -> None:
                with api.state:
                    api.asked += 1
                    api.state.wait_for(lambda: api.asked <= api.allowed, PATIENCE)

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def allow(self, more: int) -> None:
        """So many answers from now on; those who waited for one, and are gone, count for nobody."""
        with self.state:
            self.allowed, self.asked = more, 0
            self.state.notify_all()

    def close(self) -> None:
        self.allow(1 << 30)
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def api() -> Iterator[SlowApi]:
    served = SlowApi()
    yield served
    served.close()


def run_stories(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, EXAMPLES / "stories.py", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    return said


def published(folder: Path) -> list[int]:
    segments = sorted((folder / "spool" / "items").glob("items-*.jsonl"))
    whole = [line for path in segments for line in path.read_text().split("\n")[:-1]]
    return [json.loads(line)["id"] for line in whole]


@pytest.mark.slow
def test_stories_are_crawled_once_each_however_often_it_is_killed(
    tmp_path: Path, api: SlowApi
) -> None:
    folder = tmp_path / "stories"
    for kills in (1, 2, 3):
        api.allow(60)
        crawling = run_stories("crawl", api.url, folder)
        wait_until(lambda kills=kills: len(set(published(folder))) >= 10 * kills, "more are there")
        assert crawling.poll() is None
        crawling.send_signal(signal.SIGKILL)
        crawling.communicate()
    things = reachable()
    assert len(set(published(folder))) < len(things)
    api.allow(1 << 30)
    said = finished(run_stories("crawl", api.url, folder))
    assert said.startswith("0 open; ") and f" ok {len(things) + 1}" in said  # And the list.
    assert set(published(folder)) == things
    assert finished(run_stories("load", folder)).startswith(f"{len(things)} items in ")
    with sqlite3.connect(folder / "items.db") as database:
        rows = dict(database.execute("SELECT id, json FROM items"))
    assert {number: json.loads(text) for number, text in rows.items()} == {
        number: API.item(number) for number in things
    }


TUTORIAL = (EXAMPLES.parent / "docs/tutorial/a-crawler-of-your-own.md").read_text()


def test_the_tutorial_shows_parts_of_the_program() -> None:
    program = (EXAMPLES / "stories.py").read_text()
    lines = "\n".join(line.strip() for line in program.splitlines())
    blocks = re.findall(r"^```python\n(.*?)^```$", TUTORIAL, re.M | re.S)
    assert len(blocks) >= 7
    for block in blocks:
        assert "\n".join(line.strip() for line in block.splitlines()) in lines, block


@pytest.mark.slow
def test_the_transcript_of_the_tutorial_is_what_is_printed(tmp_path: Path, api: SlowApi) -> None:
    api.allow(1 << 30)
    said = re.findall(r"^\$ \S+ examples/stories\.py .*\n(.*)$", TUTORIAL, re.M)
    folder = tmp_path / "stories"
    printed = [
        finished(run_stories("crawl", api.url, folder)),
        finished(run_stories("load", folder)),
    ]
    assert "".join(printed).replace(str(folder), "./stories").splitlines() == said


@pytest.mark.slow
def test_what_is_crawled_already_is_not_asked_for_again(tmp_path: Path, api: SlowApi) -> None:
    folder = tmp_path / "stories"
    api.allow(1 << 30)
    finished(run_stories("crawl", api.url, folder))
    api.allow(1 << 30)
    finished(run_stories("crawl", api.url, folder))
    assert api.asked == 0
    assert len(published(folder)) == len(reachable())


RCA_READER = EXAMPLES / "read_rca2.py"


def read_rca2(*arguments: object) -> str:
    words = [sys.executable, str(RCA_READER), *map(str, arguments)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return ran.stdout


def test_a_short_reader_proves_repositories(tmp_path: Path) -> None:
    assert len(RCA_READER.read_text().splitlines()) <= 190
    records = [some_records(1, 300), {**odd_records(), **some_records(2)}, {}, some_records(3, 90)]
    globs: list[tuple[str, ...]] = [(), (), (), ("a.b.c",)]
    dids = [f"did:plc:{letter * 24}" for letter in "abcd"]
    keys = [PrivateKey(curve, 5) for curve in (Curve.K256, Curve.P256) * 2]
    blocks = [
        provable_block(signed_car(what, did, key), replace(PROVABLE, collections=some), key)
        for what, did, key, some in zip(records, dids, keys, globs, strict=True)
    ]
    wrong = provable_block(signed_car(some_records(4), "did:plc:" + "e" * 24), key=keys[0])
    write(tmp_path, [*blocks, wrong])
    rows = [line.split() for line in read_rca2(tmp_path).splitlines()]
    assert [row[:2] for row in rows[:4]] == [[did, "proven"] for did in dids]
    assert "not" in rows[4]
    for what, did, key, row in zip(records, dids, keys, rows, strict=False):
        assert row[-1] == str(read_header(signed_car(what, did, key)).roots[0])


def shown_by_cat(archive: Path, dids: Iterable[str], capfd: pytest.CaptureFixture[str]) -> str:
    """Of each in turn; nothing of one that is gone."""
    capfd.readouterr()
    for did in dids:
        run(["repos", "cat", str(archive), "--did", did])
    return capfd.readouterr().out


def proven_now(archive: Path) -> dict[str, str]:
    """The commit of every repository that the real reader proves."""
    proven: list[Proven] = []
    census = take_census(open_all(find_segments(archive), []), load_tombstones(archive))
    for path in find_segments(archive):
        verify_segment(path, tell=proven.append, census=census)
    assert not list(prove_folded(census, proven.append))
    return {one.verdict.did: one.verdict.root for one in proven if one.verdict.proven}


@pytest.mark.slow
def test_a_short_reader_shows_what_deltas_and_tombstones_have_left(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    past = LivingArchive(tmp_path)
    gone, back, raced, again = past.lives[:4]
    append_tombstones(
        tmp_path, [Tombstone(one.did, "takendown", one.now_us) for one in (gone, back, raced)]
    )
    (tmp_path / "tombstones.jsonl").open("a").write('{"did": "cut short')
    back.change()
    again.change()  # Crawled anew: what was followed before is superseded.
    write(tmp_path, [pack(raced.change()), back.signed_block(), pack(back.change())])
    write(tmp_path, [again.signed_block(), pack(again.change())])
    first, upon, lost, lone, filtered = (LivingRepo(50 + n, did=did_of(50 + n)) for n in range(5))
    write(tmp_path, [make_block(first.did), make_block(upon.did), pack(upon.change())])
    lost.change()
    some = ExtractOptions(proof=True, collections=("a.b.c",))
    write(tmp_path, [lost.full, pack(lost.change()), pack(lone.change())])
    write(tmp_path, [filtered.signed_block(some), pack(filtered.change())])
    slow = LivingRepo(60, did=did_of(60))
    late = replace(slow.change(), crawled_at_us=1)  # Its clock was set back.
    write(tmp_path, [slow.full, pack(late)])
    lives = (*past.lives, first, upon, lost, lone, filtered, slow)
    dids = sorted(life.did for life in lives)
    proven = {did: rest for did, *rest in map(str.split, read_rca2(tmp_path).splitlines())}
    assert proven.keys() == set(dids) - {gone.did, raced.did, lone.did}
    for did in dids:
        assert read_rca2(tmp_path, did) == shown_by_cat(tmp_path, [did], capfd), did
    now = {did: rest[1] for did, rest in proven.items() if rest[0] == "proven"}
    assert now == proven_now(tmp_path)
    assert len(now) > len(past.lives) - 2 and filtered.did not in now


def test_a_short_reader_shows_an_archive_of_earlier_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    archive = thaw("rca-2-deltas", tmp_path) / "archive"
    proven = {did: rest for did, *rest in map(str.split, read_rca2(archive).splitlines())}
    now = {did: rest[1] for did, rest in proven.items() if rest[0] == "proven"}
    assert now == proven_now(archive) and len(now) < len(proven)
    assert read_rca2(archive, *proven) == shown_by_cat(archive, proven, capfd)
