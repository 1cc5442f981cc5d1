"""Draws what bench/web.py measured: names to [pages per CPU second, MB] on stdin, PNG to FILE."""

from __future__ import annotations

import json
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

rows = json.load(sys.stdin)
names = list(rows)
figure, (speed, memory) = pyplot.subplots(1, 2, figsize=(9, 2.6), sharey=True)
for axes, column, title in ((speed, 0, "pages per CPU second"), (memory, 1, "peak RSS, MB")):
    bars = axes.barh(names, [rows[name][column] for name in names], color="#4477aa")
    axes.bar_label(bars, fmt="%.0f", padding=3)
    axes.set_title(title)
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
speed.invert_yaxis()
figure.tight_layout()
figure.savefig(sys.argv[1], dpi=120)
