"""Print what an extra of pyproject.toml asks for, a line each, to install nothing else."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in PROJECT["optional-dependencies"][sys.argv[1]])
