"""Hostile frames: none is believed, each is refused with its word, and none costs much."""

from __future__ import annotations

import re
import resource
import time

import pytest

from tests.support.atproto.hostile_frames import HostileFrame, hostile_frames
from tests.support.atproto.made_commits import JUDGES, Judge
from tests.support.child import ROOT
from trawlnet.atproto.firehose.refusal import REFUSALS, Refusal

FRAMES = hostile_frames()
CPU_SECONDS = 10  # What a frame of five million bytes may cost the slower twin, many times over.
MEMORY = 300 << 20


@pytest.fixture(params=JUDGES)
def judge(request: pytest.FixtureRequest) -> Judge:
    found: Judge = request.param
    return found


@pytest.mark.parametrize("frame", FRAMES, ids=[frame.name for frame in FRAMES])
def test_a_hostile_frame_is_refused(frame: HostileFrame, judge: Judge) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    assert judge(frame.message) is frame.expected
    assert time.process_time() - start < CPU_SECONDS
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < MEMORY


def test_there_is_a_frame_for_every_word() -> None:
    assert {frame.expected for frame in FRAMES} == set(Refusal)
    assert len({frame.name for frame in FRAMES}) == len(FRAMES) > 40


def test_what_ends_a_connection_is_what_cannot_be_read() -> None:
    assert [word for word in REFUSALS if word.ends_connection] == [
        "frame_too_large",
        "not_cbor",
        "not_json",
        "trailing_bytes",
        "bad_header",
    ]


def test_the_page_has_every_word_in_order() -> None:
    page = (ROOT / "docs" / "reference" / "firehose.md").read_text()
    assert re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE) == list(REFUSALS)
