"""Worlds as a script starts and stops them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import at_once, started, trawlnet, wait_until
from trawlnet.cli.common.errors import explain
from trawlnet.sim.ids import CounterLeap, TimeSpan, read_manifest

SHAPES = {
    "atproto": {"plc", "relay", "pds", "firehose", "manifest"},
    "ids": {"base_url", "manifest"},
    "web": {"seeds", "manifest"},
}


@pytest.mark.parametrize("world", SHAPES)
def test_a_world_says_once_when_it_is_ready_and_ends_on_sigterm(world: str, tmp_path: Path) -> None:
    with started("sim", world, "--seed", 5, "--scale", 0.05, folder=tmp_path) as program:
        wait_until(lambda: program.out.endswith("\n"), "the ready line")
        program.tell(signal.SIGTERM)
        ran = program.ended()
    assert ran.code == 0 and "Traceback" not in ran.err
    (ready,) = ran.rows
    assert set(ready) == SHAPES[world]
    assert Path(ready["manifest"]).stat().st_size > 0  # Still there to compare with.


def test_ids_are_served_with_the_events_that_flags_name(tmp_path: Path) -> None:
    flags = ("--scenario", "steady", "--gap", "5k@1m", "--pause", "30s@30s", "--outage", "9s@30s")
    with started("sim", "ids", "--scale", 0.05, *flags, folder=tmp_path) as program:
        wait_until(lambda: program.out.endswith("\n"), "the ready line")
        program.tell(signal.SIGTERM)
        (ready,) = program.ended().rows
    content, traffic = read_manifest(Path(ready["manifest"]))
    began = content["age"]
    assert traffic.gaps == (CounterLeap(began + 60.0, 5000),)
    assert traffic.pauses == (TimeSpan(began + 30.0, began + 60.0),)
    assert traffic.outages == (TimeSpan(began + 30.0, began + 39.0),)
    assert at_once("sim", "ids", "--scenario", "calm").code == 2


def test_a_port_in_use_is_said(network: Any) -> None:
    port = network.relay.rpartition(":")[2]
    ran = trawlnet("sim", "atproto", "--seed", 11, "--scale", 0.2, "--port", port)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"error: port {port} is in use on loopback\n"
        "hint: choose another with --port, or leave it out\n"
    )


@pytest.mark.parametrize("scale", ["0", "-1", "nan", "1e9", "big"])
def test_a_scale_that_makes_no_world_is_refused(scale: str) -> None:
    ran = at_once("sim", "web", "--scale", scale)
    assert ran.code == 2 and ran.err.startswith("error: ") and "--scale" in ran.err


def test_a_world_without_its_library_says_what_to_type() -> None:
    told = explain(ModuleNotFoundError("No module named 'aiohttp'", name="aiohttp"))
    assert told is not None and told.hint == "pip install 'trawlnet[sim]'"


def test_only_worlds_need_a_second_server() -> None:
    """What no verb of a crawl may import comes with the extra `sim`."""
    code = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from importlib import import_module\n"
        "for name in ('repos.crawler', 'web.crawler', 'ids.crawler', 'pds.crawler', 'pds.serve',"
        " 'dashboard.verb', 'doctor'):\n"
        "    import_module(f'trawlnet.cli.{name}')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
