"""One small simulated network for all tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import started, wait_until


@dataclass(frozen=True, slots=True)
class Network:
    relay: str
    ready: dict[str, Any]
    manifest: dict[str, Any]

    @property
    def repositories(self) -> set[str]:
        """What a crawl that loses nothing has in its archive."""
        return {did for did, row in self.manifest["dids"].items() if row["archivable"]}

    def crawl(self, workspace: Path, *more: object, rps: float = 200) -> tuple[object, ...]:
        """The command line of a crawl of this network."""
        flags = ("--relay", self.relay, "--plc-url", self.ready["plc"], "--allow-private-hosts")
        rates = ("--default-pds-rps", rps, "--small-pds-rps", rps, "--plc-rps", 500)
        return ("repos", "crawl", "-w", workspace, *flags, *rates, *more)


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    arguments = ("sim", "atproto", "--seed", 11, "--scale", 0.2, "--healthy")
    with started(*arguments, folder=folder) as world:
        wait_until(lambda: world.out.endswith("\n"), "the ready line")
        ready = json.loads(world.out)
        manifest = json.loads(Path(ready["manifest"]).read_text())
        yield Network(ready["relay"], ready, manifest)
