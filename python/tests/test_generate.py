"""The generated modules are those of the contract."""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1]


def test_generating_again_gives_the_same_bytes(tmp_path: Path) -> None:
    subprocess.run(
        [PYTHON / "scripts" / "generate.sh", tmp_path], check=True, env={**os.environ, "PYTHON": sys.executable}
    )
    committed = PYTHON / "src" / "cloison" / "_pb"
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(path.name for path in committed.iterdir() if path.is_file())
    same, different, failed = filecmp.cmpfiles(committed, tmp_path, names, shallow=False)
    assert (sorted(same), different, failed) == (names, [], []), "run python/scripts/generate.sh"
