"""`--dashboard` on a crawl: runs the dashboard as a child process that ends with the crawl."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from pydantic import BaseModel

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.common.settings import variable_of
from trawlnet.cli.common.workspace import Workspace

_PATIENCE = 10.0  # Seconds that it has to end.


@contextmanager
def with_dashboard(
    address: str, workspace: Workspace, variables: Mapping[str, str]
) -> Iterator[None]:
    """Serve the page from a process of its own, so that it takes no time of the crawl. `variables`
    pass the crawl's flags on to it."""
    if not address:
        yield
        return
    host, port = _parsed(address)
    command = [sys.executable, "-m", "trawlnet", "dashboard", "-w", str(workspace.path)]
    command += ["--host", host, "--port", str(port), "--while-pid", str(os.getpid())]
    # stdout belongs to the crawl. A Ctrl-C goes to the crawl, which then ends the child.
    child = subprocess.Popen(  # noqa: S603 - our own program.
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **variables},
    )
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def variables_for(crawler: str, config: BaseModel, keys: Iterable[str]) -> dict[str, str]:
    """Keys of a config that have a value, as the variables that set them."""
    values = config.model_dump(include=set(keys), mode="json")
    return {
        variable_of(crawler, key): str(value).lower() if value is True else str(value)
        for key, value in values.items()
        if value
    }


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise UsageTrouble(
            f"--dashboard {address}: not HOST:PORT", "write it like --dashboard :8080"
        )
    return host.strip("[]") or "127.0.0.1", int(port)
