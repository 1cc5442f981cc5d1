"""The notebook prints what it shows, of an archive that lies frozen here.

`python -m tests.api.test_notebook` runs it and writes down what it prints.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from tests.frozen.ice import thaw

NOTEBOOK = Path(__file__).parents[2] / "examples" / "archive.ipynb"


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(cells: list[Any]) -> Iterator[list[Any]]:
    """What each of them prints, in one namespace, as a notebook keeps it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells, 1):
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        text = out.getvalue().splitlines(keepends=True)
        yield [{"name": "stdout", "output_type": "stream", "text": text}] if text else []


def test_the_notebook_prints_what_it_shows(tmp_path: Path, monkeypatch: Any) -> None:
    thaw("repos-done", tmp_path / "net")
    monkeypatch.chdir(tmp_path)
    cells = code_cells(json.loads(NOTEBOOK.read_text()))
    assert len(cells) == 5
    assert list(printed(cells)) == [cell["outputs"] for cell in cells]


def write() -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    with tempfile.TemporaryDirectory() as folder:
        thaw("repos-done", Path(folder) / "net")
        os.chdir(folder)
        cells = code_cells(notebook)
        for number, (cell, outputs) in enumerate(zip(cells, printed(cells), strict=True), 1):
            cell["execution_count"], cell["outputs"] = number, outputs
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write()
