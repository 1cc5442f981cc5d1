"""What the `report` verbs share: one HTML file about a crawl, or its figures as JSON."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from trawlnet.cli.common.errors import CliError
from trawlnet.cli.common.flags import flag
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.workspace import Workspace, shown
from trawlnet.observe.reports.page import Report, render

Output = Annotated[Path, flag("--output, -o FILE", "Write the page to this file.")]

PAGE = Path("report.html")


def publish(
    as_json: bool,
    output: Path,
    figures: Callable[[], Mapping[str, Any]],
    report: Callable[[float], Report],
) -> int:
    if as_json:
        emit(figures())
    else:
        write_report(report(time.time()), output)
    return 0


def nothing(place: Workspace, verb: str = "crawl") -> CliError:
    where = shown(place.path)
    what = f"{where} has no results of {place.crawler} to report on"
    return CliError(what, f"begin with: trawlnet {place.crawler} {verb} {place.place}")


def write_report(report: Report, output: Path) -> None:
    save_report(report, output)
    print(output)
    say(f"open it in a browser: {output.resolve().as_uri()}")


def save_report(report: Report, output: Path) -> None:
    """Replace the file as a whole: a browser may be reading the previous page."""
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        beside.write_text(render(report), "utf-8")
        beside.replace(output)
    except OSError as error:
        beside.unlink(missing_ok=True)
        what = f"cannot write {output}: {error.strerror}"
        raise CliError(what, "choose another: -o FILE") from None
