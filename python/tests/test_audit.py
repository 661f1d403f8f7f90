"""Audits, and what the package makes of their reports beside what the programs make of them."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deployment import Deployment

import cloison

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def plan(deployment: Deployment) -> dict[str, Any]:
    """A short audit."""
    config = tomllib.loads((deployment.work / "audit.toml").read_text())
    config["attacks"] = ["half", "least_squares", "half_star", "rcc1", "agnostic"]
    return config


@pytest.fixture(scope="module")
def both(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> tuple[cloison.Report, Path, str]:
    """The same audit by the package, and by the command line with what it printed."""
    out = tmp_path_factory.mktemp("audit")
    config = plan(deployment)
    report = cloison.audit(config, root=deployment.work, out=out / "package", max_added_risk=0.5)
    path = deployment.work / "short.toml"
    text = (deployment.work / "audit.toml").read_text()
    head, _, tail = text.partition("attacks = [")
    path.write_text(f"{head}attacks = {json.dumps(config['attacks'])}{tail.partition(']')[2]}")
    arguments = ("audit", "--config", path.name, "--out", str(out / "program"), "--max-added-risk", "0.5")
    said = deployment.run("cloison", *arguments, codes=(0, 3)).stdout
    return report, out / "program", said


def test_the_report_is_that_of_the_command_line(both: tuple[cloison.Report, Path, str]) -> None:
    report, out, _ = both
    written = json.loads((out / "report.json").read_text())
    found = report.document
    # Sessions have random names, and there is nothing else that differs.
    assert found == written


def test_figures_are_those_of_the_table_of_the_command_line(both: tuple[cloison.Report, Path, str]) -> None:
    report, out, _ = both
    with (out / "report.csv").open(newline="", encoding="utf-8") as file:
        rows = [
            row for row in csv.DictReader(file) if row["metric"] == "mse" and not row["party"] and not row["feature"]
        ]
    expected = {
        (row["defense"], row["knowledge"], row["attack"]): float(row["value"])
        for row in rows
        if not row["attack"].startswith("guessing")
    }
    told = report.attacks[report.attacks["outcome"] == "ran"]
    found = {(line.policy, line.knowledge, line.attack): line.mse for line in told.itertuples()}
    assert found == expected
    guesses = {
        (row["defense"], row["attack"]): float(row["value"]) for row in rows if row["attack"].startswith("guessing")
    }
    none = report.attacks[report.attacks["policy"] == "none"].iloc[0]
    assert none["half"] == guesses["none", "guessing ½"]
    assert none["column_mean"] == guesses["none", "guessing the column mean"]


def test_the_verdict_is_that_of_the_command_line(both: tuple[cloison.Report, Path, str]) -> None:
    report, _, said = both
    lines = {line.split("  ")[0].strip().lstrip("* "): line for line in said.splitlines()}
    for policy, row in report.policies.iterrows():
        short = {"rounding (decimals = 2)": "rounding 2"}.get(str(policy), str(policy))
        assert str(row["attack"]) in lines[short], (short, said)
    assert report.verdict.policy == "none"
    # Without records that the adversary knows whole, the added risk is not measured, which is not met.
    assert report.verdict.met is False
    assert "max_added_risk = 0.5: not measured" in report.verdict.text
    assert "not measured" in said


def test_the_report_can_be_read_again(both: tuple[cloison.Report, Path, str]) -> None:
    report, out, _ = both
    again = cloison.load_report(out)
    pd.testing.assert_frame_equal(again.attacks, report.attacks)
    pd.testing.assert_frame_equal(again.policies, report.policies)


def test_informed_figures_are_those_of_the_command_line(programs: Path, tmp_path: Path) -> None:
    """A demonstration with records that the adversary knows: added risks with their intervals, chosen on halves."""
    import subprocess

    command = [
        str(programs / "cloison"),
        "demo",
        "--dataset",
        "synthetic",
        "--no-sweep",
        "--known-records",
        "150",
        "--out",
        str(tmp_path),
    ]
    command += ["--policy", "none", "--policy", "rounding (decimals = 1)", "--policy", "class_label"]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=200)
    report = cloison.load_report(tmp_path)
    with (tmp_path / "report.csv").open(newline="", encoding="utf-8") as file:
        told = [row for row in csv.DictReader(file) if row["metric"] == "added_risk" and row["knowledge"] == "informed"]
    # Beside the mean over all features stands the worst attribute, by which verdicts go.
    rows = [row for row in told if row["feature"]]
    assert len(rows) == len(report.policies) == 3
    for row in rows:
        line = report.policies.loc[row["defense"]]
        assert line["attack"] == row["attack"]
        figures = [float(row[name]) if row[name] else np.nan for name in ("value", "low", "high")]
        np.testing.assert_allclose(line[["added_risk", "low", "high"]].astype(float), figures, rtol=1e-12)
    # The sentences are those of the program, which prints that of the judged policy.
    said = " ".join(ended.stdout.split())
    verdicts = json.loads((tmp_path / "report.json").read_text())["verdicts"]
    assert [found.sentence for found in report._lines] == [verdict["sentence"] for verdict in verdicts]
    assert report.verdict.text[1:] in said


def test_what_cannot_be_audited_is_told_in_the_words_of_the_program(deployment: Deployment) -> None:
    with pytest.raises(cloison.InputError, match="unknown field"):
        cloison.audit(plan(deployment) | {"wheel": 1}, root=deployment.work)
    with pytest.raises(cloison.InputError, match=r"missing\.toml"):
        cloison.audit(deployment.work / "missing.toml")
    broken = plan(deployment)
    broken["coordinator"] = broken["coordinator"] | {"address": "127.0.0.1:1"}
    with pytest.raises(cloison.CommandError, match="coordinator") as failed:
        cloison.audit(broken, root=deployment.work)
    assert failed.value.exit_code == 1
