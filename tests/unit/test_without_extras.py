"""What the extra `fast` brings has a plain way beside it, which a process without it takes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.program import environment
from trawlnet.atproto.identity.keys import Curve
from trawlnet.loading import EXTRAS
from trawlnet.sim.private_key import PrivateKey

MESSAGE = b"a commit"


def without_fast(code: str) -> str:
    """What a process prints in which nothing of the extra can be imported."""
    absent = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS['fast']!r}))\n"
    done = subprocess.run(
        [sys.executable, "-c", absent + code], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_python_s_own_loop_serves() -> None:
    code = "import asyncio; from trawlnet.net.loop import new_loop as new\n"
    code += "print(new is asyncio.new_event_loop)"
    assert without_fast(code) == "True"


def test_nobody_is_asked_for_brotli() -> None:
    code = (
        "from trawlnet.net.client.inflate import ACCEPTED, Garbled, inflater_for; print(ACCEPTED)\n"
        "try: inflater_for(['br'])\nexcept Garbled: print('refused')"
    )
    assert without_fast(code).splitlines() == ["gzip, deflate, zstd", "refused"]


def test_signatures_on_p256_are_verified() -> None:
    signer = PrivateKey(Curve.P256, 77_777)
    good = signer.sign(MESSAGE)
    code = (
        "from trawlnet.atproto.identity.keys import parse_did_key\n"
        f"key = parse_did_key({signer.public.did_key!r})\n"
        f"print(key.verifies({good!r}, {MESSAGE!r}), key.verifies({good!r}, b'another'))"
    )
    assert without_fast(code) == "True False"


@pytest.mark.slow
def test_doctor_says_what_that_costs_and_what_to_type() -> None:
    code = (
        "from trawlnet.cli.accelerators import accelerator_findings\n"
        "for one in accelerator_findings():\n"
        "    if 'fast' in one.hint: print(one.what, '|', one.mark, '|', one.hint)"
    )
    hint = "missing | pip install 'trawlnet[fast]'"
    assert without_fast(code).splitlines() == [
        f"P-256 signatures | {hint}",
        f"event loop | {hint}",
        f"brotli | {hint}",
    ]
