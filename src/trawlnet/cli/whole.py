"""Every command there is, in one tree: for the first page of help, and for whoever lists them."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from trawlnet import __version__
from trawlnet.cli import config, dashboard, doctor, fleet, ids, logs, pds, repos, sim, web


class _InOrder(TyperGroup):
    """Lists the crawlers first; typer would list groups after commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: name in _ABOUT)


_ABOUT = ("dashboard", "logs", "config", "doctor", "version")

app = typer.Typer(
    name="trawlnet",
    cls=_InOrder,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="""Crawl whole networks: find everything, fetch it politely, store it durably,
    and carry on after being killed.""",
    epilog="Example: trawlnet repos crawl -w ./net --contact you@example.org",
)
app.add_typer(repos.app)
app.add_typer(pds.app)
app.add_typer(ids.app)
app.add_typer(web.app)
app.add_typer(fleet.app)
app.add_typer(sim.app)
app.command("logs", epilog="Example: trawlnet logs -w ./net --reason timeout --since 2h")(logs.logs)
app.command("dashboard", epilog="Example: trawlnet dashboard -w ./net --port 8080")(
    dashboard.dashboard
)
app.command("config", epilog="Example: trawlnet config repos -w ./net")(config.show)
app.command("doctor", epilog="Example: trawlnet doctor")(doctor.examine)


@app.command(epilog="Example: trawlnet version")
def version() -> int:
    """Print the version."""
    print(__version__)
    return 0
