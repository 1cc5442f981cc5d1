"""`trawlnet`: answers questions about usage directly, and dispatches everything else."""

from __future__ import annotations

import gc
import os
import sys

from trawlnet.cli.usage import answer
from trawlnet.loading import load

# Objects between two garbage collections. Importing makes 200,000 objects, which all stay.
_GARBAGE = 300_000


def main() -> None:
    gc.set_threshold(_GARBAGE)
    # We use none, and finding them would read the metadata of every installed package.
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
