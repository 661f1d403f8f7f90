"""Fixtures: the programs, and a deployment of three processes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from deployment import Deployment

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "cases"
PROGRAMS = ("cloison", "coordinator", "passive-party", "active-party")


def _directory() -> Path | str:
    """Where the programs are, or why they are not."""
    named = os.environ.get("CLOISON_BIN")
    if named:
        place = Path(named)
    elif found := shutil.which("active-party"):
        place = Path(found).parent
    else:
        place = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    missing = [program for program in PROGRAMS if not os.access(place / program, os.X_OK)]
    return (
        f"no program `{missing[0]}` in {place}: build it with cargo build --release --workspace --bins"
        if missing
        else place.absolute()
    )


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    """The directory of the programs, named in `CLOISON_BIN`. Tests are skipped without them, unless they are required."""
    place = _directory()
    if isinstance(place, str):
        if os.environ.get("CLOISON_REQUIRE_BINARIES") == "1":
            pytest.fail(place)
        pytest.skip(place)
    before = os.environ.get("CLOISON_BIN")
    os.environ["CLOISON_BIN"] = str(place)
    yield place
    if before is None:
        del os.environ["CLOISON_BIN"]
    else:
        os.environ["CLOISON_BIN"] = before


@pytest.fixture(scope="session")
def deployment(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Three parties that serve a model which they trained; not to be stopped by a test."""
    made = Deployment(programs, tmp_path_factory.mktemp("deployment"))
    with made:
        made.run("active-party", "train", "--config", "active.toml")
        yield made


@pytest.fixture
def untrained(programs: Path, tmp_path: Path) -> Iterator[Deployment]:
    """Three parties of a test's own, without a model."""
    with Deployment(programs, tmp_path) as made:
        yield made
