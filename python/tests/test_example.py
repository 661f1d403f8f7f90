"""The notebook is the example."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1]


def test_the_notebook_is_made_from_the_example(tmp_path: Path) -> None:
    subprocess.run([sys.executable, PYTHON / "scripts" / "notebook.py", tmp_path], check=True)
    made, kept = (place / "sklearn_audit.ipynb" for place in (tmp_path, PYTHON / "examples"))
    assert made.read_bytes() == kept.read_bytes(), "run python/scripts/notebook.py"


def test_the_cells_are_the_whole_example() -> None:
    cells = json.loads((PYTHON / "examples" / "sklearn_audit.ipynb").read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    script = (PYTHON / "examples" / "sklearn_audit.py").read_text(encoding="utf-8")
    assert ast.dump(ast.parse(code)) == ast.dump(ast.parse(script))
