"""The picture of a simulation: lag, workers, rate and 404s over time, a line for each law."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from trawlnet.cli.common.errors import CliError, UsageTrouble
from trawlnet.cli.ids.trials import Result
from trawlnet.loading import load

_PANELS = (
    ("lag", "lag, s (median)"),
    ("workers", "workers"),
    ("rate", "requests a second"),
    ("not_found", "404s a second"),
)
_COLOURS = {"adaptive": "#1b6ca8", "classic": "#d1495b"}
_MINUTE = 60.0


def check_plotting(file: Path) -> None:
    """Refuse a plot that cannot be drawn, before the simulation starts."""
    if find_spec("matplotlib") is None:
        raise CliError("a plot needs matplotlib", "pip install 'trawlnet[plot]'")
    if file.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UsageTrouble(f"--plot: {file} is not a picture file", "name it like plot.png")
    if not file.parent.is_dir():
        raise UsageTrouble(f"--plot: there is no directory {file.parent}", "make it first")


def save_plot(file: Path, results: Sequence[Result]) -> None:
    figure = load("matplotlib.figure:Figure")(figsize=(10, 9), dpi=110)
    load("matplotlib.backends.backend_agg:FigureCanvasAgg")(figure)
    axes = figure.subplots(len(_PANELS), 1, sharex=True)
    for axis, (name, label) in zip(axes, _PANELS, strict=True):
        for result in results:
            series, law = result.series, result.plan.scaling
            minutes = [at / _MINUTE for at in series.at]
            values = [float("nan") if v is None else v for v in getattr(series, name)]
            axis.plot(minutes, values, label=law, color=_COLOURS.get(law), linewidth=1.1)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_yscale("log")
    axes[0].legend(loc="upper right")
    axes[-1].set_xlabel("minutes")
    plan = results[0].plan
    figure.suptitle(f"{plan.scenario}, seed {plan.seed}: {plan.rate:g} ids a second")
    figure.tight_layout()
    figure.savefig(file)
