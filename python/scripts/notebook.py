#!/usr/bin/env python3
"""Makes the notebook of an example from its cells: `python/scripts/notebook.py [DIR]`, by default beside the example."""

from __future__ import annotations

import json
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "sklearn_audit.py"


def cells(text: str) -> list[dict[str, object]]:
    """The cells of a script in percent format."""
    made: list[dict[str, object]] = []
    for number, cell in enumerate(text.split("# %%")[1:]):
        head, _, body = cell.partition("\n")
        lines = body.strip("\n").split("\n")
        markdown = head.strip() == "[markdown]"
        if markdown:
            lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
        source = [line + "\n" for line in lines[:-1]] + lines[-1:]
        common: dict[str, object] = {"id": f"cell-{number}", "metadata": {}, "source": source}
        if markdown:
            made.append({"cell_type": "markdown", **common})
        else:
            made.append({"cell_type": "code", "execution_count": None, "outputs": [], **common})
    return made


def notebook(text: str) -> str:
    """The notebook of a script."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells(text), "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLE.parent
    (where / EXAMPLE.with_suffix(".ipynb").name).write_text(
        notebook(EXAMPLE.read_text(encoding="utf-8")), encoding="utf-8"
    )
