"""Offline attacks: arrays in and out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN

import cloison
from cloison import _attack


def golden(name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((GOLDEN / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("method", ["least_squares", "half_star", "rcc1", "rcc2"])
@pytest.mark.parametrize("name", ["attack_robot_k0_03_d06", "attack_satellite_k0_00_d12"])
def test_estimates_are_the_golden_ones(programs: Path, name: str, method: str) -> None:
    case = golden(name)
    expected = np.array(case["expected"][method], dtype=np.float64)  # type: ignore[index]
    found = cloison.attack(case, method)
    assert found.attack == method
    np.testing.assert_allclose(found.estimates, expected, atol=1e-6)
    # The same from the file, to the last bit.
    again = cloison.attack(GOLDEN / f"{name}.json", method)
    assert again.estimates.tobytes() == found.estimates.tobytes()


def test_a_model_in_arrays_comes_back_as_it_was(programs: Path) -> None:
    # Fewer passive features than classes and exact scores: the reconstruction is exact, and not by our own arithmetic.
    rng = np.random.default_rng(5)
    w_act, w_pas, b = rng.normal(size=(4, 3)), rng.normal(size=(4, 2)), rng.normal(size=4)
    y, x = rng.random((20, 3)), rng.random((20, 2))
    logits = y @ w_act.T + x @ w_pas.T + b
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    made = cloison.case(w_act, w_pas, b, y, scores, ids=[f"c-{n}" for n in range(20)], truth=x)
    found = cloison.attack(made, "least_squares")
    np.testing.assert_allclose(found.estimates, x, atol=1e-9)
    assert found.status == "unique"
    assert found.details["errors"]["mse"] < 1e-20
    assert found.to_frame(["age", "income"]).loc["c-3", "income"] == found.estimates[3, 1]
    assert (found.per_record["residual"] < 1e-9).all()


def test_settings_and_seeds_reach_the_program(programs: Path) -> None:
    case = golden("attack_robot_k0_03_d06")
    one = cloison.attack(case, "random", seed=3)
    assert one.estimates.tobytes() == cloison.attack(case, "random", seed=3).estimates.tobytes()
    assert one.estimates.tobytes() != cloison.attack(case, "random", seed=4).estimates.tobytes()
    few = cloison.attack(case, "gradient_inversion", steps=3, projected=True, loss="mse", learning_rate=0.5)
    assert few.per_record["iterations"].max() <= 3
    assert cloison.attack(case, "half", lower=[0.2] * 6, upper=0.4).estimates == pytest.approx(0.3)


def test_other_kinds_of_cases_are_read(programs: Path) -> None:
    shadow = golden("shadow_model_00")
    found = cloison.attack(shadow, "shadow_model")
    assert found.estimates.shape == (len(shadow["b"]), len(shadow["auxiliary"][0]["x_pas"]))  # type: ignore[arg-type, index]
    one = golden("one_feature_00")
    assert cloison.attack(one, "one_feature").estimates.shape == (len(one["v"]), 1)  # type: ignore[arg-type]


def test_what_the_program_does_not_take_is_told_in_its_words(programs: Path) -> None:
    case = golden("attack_robot_k0_03_d06")
    with pytest.raises(cloison.InputError, match="no_such_attack") as refused:
        cloison.attack(case, "no_such_attack")
    assert refused.value.exit_code == 2
    with pytest.raises(cloison.InputError, match="wheel"):
        cloison.attack(case | {"wheel": 1}, "rcc1")
    with pytest.raises(cloison.InputError, match="cannot read the case file"):
        cloison.attack("missing.json", "rcc1")
    with pytest.raises(ValueError, match="not JSON compliant"):
        cloison.attack(case | {"b": [float("nan")]}, "rcc1")
    with pytest.raises(cloison.CommandError, match="was not done within"):
        cloison.attack(
            golden("attack_satellite_k0_07_d30"), "gradient_inversion", steps=1_000_000, stop_loss=0, timeout=0.2
        )


def test_shapes_that_do_not_fit_are_named() -> None:
    good: dict[str, Any] = {
        "w_act": np.zeros((3, 2)),
        "w_pas": np.zeros((3, 1)),
        "b": np.zeros(3),
        "y_act": np.zeros((5, 2)),
        "scores": np.ones((5, 3)),
    }
    assert len(cloison.case(**good)["records"]) == 5
    for name, wrong, said in [
        ("w_act", np.zeros((3, 3)), "w_act is of shape"),
        ("w_pas", np.zeros(3), "w_pas has 1 dimensions"),
        ("b", np.zeros(2), "w_act is of shape"),
        ("scores", np.ones((5, 2)), "scores is of shape"),
        ("y_act", np.zeros((4, 2)), "y_act is of shape"),
    ]:
        with pytest.raises(ValueError, match=said):
            cloison.case(**(good | {name: wrong}))
    with pytest.raises(ValueError, match="2 ids for 5 records"):
        cloison.case(**good, ids=["a", "b"])
    with pytest.raises(ValueError, match="truth is of shape"):
        cloison.case(**good, truth=np.zeros((5, 2)))


def test_settings_are_written_as_the_program_reads_them() -> None:
    written = [
        _attack._setting(value) for value in (True, np.bool_(False), 1e-12, 3, [0, 0.5], np.array([1.0, 2.0]), "kl")
    ]
    assert written == ["true", "false", "1e-12", "3", "0,0.5", "1.0,2.0", "kl"]


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLOISON_BIN", str(tmp_path))
    with pytest.raises(cloison.BinaryNotFoundError, match="`active-party`"):
        cloison.attack("case.json", "rcc1")
    monkeypatch.delenv("CLOISON_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(cloison.BinaryNotFoundError, match="nor on PATH"):
        cloison.attack("case.json", "rcc1")
    # A program named by itself stands for its directory.
    program = tmp_path / "active-party"
    program.write_text("#!/bin/sh\necho 'case file x: told so' >&2\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("CLOISON_BIN", str(tmp_path / "cloison"))
    with pytest.raises(cloison.InputError, match="told so"):
        cloison.attack("case.json", "rcc1")
