"""`trawlnet`: answers a question about usage by itself, and has everything else dispatched."""

from __future__ import annotations

import gc
import os
import sys

from trawlnet.cli.usage import answer
from trawlnet.loading import load

# Objects made between two looks for cycles. Modules are made of 200,000, and they stay.
_GARBAGE = 300_000


def main() -> None:
    gc.set_threshold(_GARBAGE)
    # None is used, and to find them is to read what every installed package says of itself.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    arguments = arguments or ["--help"]
    try:
        code = answer(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        load("trawlnet.cli.common.output:mute_stdout")()
        return 1
    if code is None:
        code = load("trawlnet.cli.dispatch:dispatch")(arguments)
    return int(code)
