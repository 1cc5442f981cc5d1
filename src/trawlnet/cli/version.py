"""`trawlnet version`."""

from __future__ import annotations

from trawlnet import __version__
from trawlnet.cli.common.verb import Verb


def version() -> int:
    """Print the version."""
    print(__version__)
    return 0


VERSION = Verb(version, "version")
