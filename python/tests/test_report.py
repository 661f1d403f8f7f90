"""Reports as tables, on small documents by hand. What the programs say of real ones is compared in test_audit.py."""

from __future__ import annotations

import copy
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloison
from cloison import _figures
from cloison._verdicts import LEVELS


def errors(mse: float, **more: Any) -> dict[str, Any]:
    return {"mse": mse, "per_feature": [], **more}


def ran(name: str, mse: float, status: Any = "unique", **more: Any) -> dict[str, Any]:
    per_feature, sigma = more.pop("per_feature", []), more.pop("sigma", None)
    told = {"mse": mse, "per_feature": per_feature} | ({"sigma": sigma} if sigma is not None else {})
    return {"name": name, "outcome": {"ran": {"status": status, "errors": told}}, **more}


def audit(*attacks: dict[str, Any], policy: str = "none", **more: Any) -> dict[str, Any]:
    model = {"parameters": "true", "defense": "unknown", "observations": "one_score_per_record", "shares": "honest"}
    return {
        "policy": {"name": policy} | ({"parameters": more.pop("parameters")} if "parameters" in more else {}),
        "threat_model": model | more.pop("threat_model", {}),
        "records": 200,
        "utility": {"accuracy": 0.9, "accuracy_change": -0.05},
        "baselines": {
            "half": errors(0.1, per_feature=[0.1, 0.1]),
            "column_mean": errors(0.05, per_feature=[0.05, 0.05]),
        },
        "attacks": list(attacks),
        **more,
    }


def document(*audits: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"schema_version": 10, "title": "An audit", "audits": list(audits), **more}


def told(policy: str = "none", level: str = "partial", **more: Any) -> dict[str, Any]:
    """A verdict of the document."""
    sentence = f"behind {policy}, as the program says"
    return {"policy": policy, "judged": True, "level": level, "sentence": sentence, "knowledge": "unaware", **more}


RISK = {"control": "imputation", "control_mse": 0.004, "value": 0.5, "low": 0.4, "high": 0.6}


@pytest.mark.parametrize("level", LEVELS)
def test_levels_are_those_of_the_programs(level: str) -> None:
    # What the figures come to is for the programs to say.
    report = cloison.Report(document(audit(ran("rcc1", 1e-15)), verdicts=[told(level=level)]))
    assert report.verdict.level == level
    row = report.policies.loc["none"]
    assert (row["level"], row["result"]) == (level, LEVELS[level])


def test_a_report_that_holds_its_verdicts_is_not_judged_again() -> None:
    verdict = told() | {
        "sentence": "behind none, `late` is told most",
        "attack": "gaussian",
        "party": "bank",
        "attribute": "late",
        "risk": RISK | {"value": 0.53},
        "event": {"event": {"not_usual": {"value": 0}}, "named": 200, "having": 260, "attack": 173, "control": 41},
        "results": [{"threshold": "max_added_risk", "compliance": "not_met", "figure": 0.58}],
    }
    attacks = audit(ran("gaussian", 0.002, added_risk=RISK | {"value": 0.007}))
    report = cloison.Report(document(attacks, verdicts=[verdict], thresholds={"max_added_risk": 0.05}))
    row = report.policies.loc["none"]
    assert (row["party"], row["attribute"], row["added_risk"], row["mse"]) == ("bank", "late", 0.53, 0.002)
    assert (row["named"], row["right"], row["right_without"]) == (200, 173, 41)
    assert report.verdict.text == "Behind none, `late` is told most. Threshold max_added_risk = 0.05: not met."
    assert report.verdict.met is False
    assert report.schema_version == 10


def test_a_report_of_before_holds_no_verdict_and_says_so() -> None:
    old = document(audit(ran("rcc1", 1e-15)), schema_version=9, thresholds={"max_added_risk": 0.1})
    report = cloison.Report(old)
    assert report.attacks["mse"].tolist() == [1e-15]
    assert report.policies.empty
    assert (report.verdict.policy, report.verdict.level, report.verdict.met) == (None, "unmeasured", False)
    assert str(report.verdict) == "A report of schema version 9 holds no verdict: audit again."
    assert str(report.verdict) in report._repr_html_()


def test_the_errors_of_a_verdict_are_those_of_its_attack_and_adversary() -> None:
    informed = audit(ran("gaussian", 0.002), threat_model={"known_records": 200})
    audits = (audit(ran("gaussian", 0.03), ran("rcc1", 0.02, sigma=0.001)), informed)
    for knowledge, attack, mse in [
        ("informed", "gaussian", 0.002),
        ("unaware", "gaussian", 0.03),
        ("unaware", "rcc1", 0.02),
    ]:
        line = cloison.Report(document(*audits, verdicts=[told(knowledge=knowledge, attack=attack)])).policies.loc[
            "none"
        ]
        assert (line["attack"], line["mse"]) == (attack, mse)
        assert np.isnan(line["sigma"]) == (attack != "rcc1")


def test_policies_have_their_settings_and_thresholds() -> None:
    over = {"threshold": "max_added_risk", "compliance": "not_met", "figure": 0.6, "attack": "gaussian"}
    under = {"threshold": "max_added_risk", "compliance": "met", "figure": 0.05, "attack": "gaussian"}
    rounding = {"name": "rounding", "parameters": {"decimals": 2}}
    report = cloison.Report(
        document(
            audit(ran("gaussian", 0.002, added_risk=RISK)),
            audit(ran("gaussian", 0.004), policy="rounding", parameters={"decimals": 2}),
            audit(ran("agnostic", 0.04), threat_model={"observations": "no_score"}),
            verdicts=[
                told(judged=False, results=[over], accuracy_lost=0.0),
                told("rounding (decimals = 2)", results=[under], accuracy_lost=0.05),
            ],
            in_service=rounding,
            thresholds={"max_added_risk": 0.1},
        )
    )
    assert report.policies.index.tolist() == ["none", "rounding (decimals = 2)"]
    assert report.policies["met"].tolist() == [False, True]
    assert report.policies["in_service"].tolist() == [False, True]
    assert report.policies["accuracy_lost"].tolist() == pytest.approx([0.0, 0.05])
    assert (report.verdict.policy, report.verdict.met) == ("rounding (decimals = 2)", True)
    assert "Threshold max_added_risk = 0.1: met." in report.verdict.text


def test_attributes_are_rows_and_a_picture(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    told = {
        "party": "passive-1",
        "figures": {
            "attribute": "income",
            "columns": [0],
            "error": {"attack": 0.5, "control": 1.0},
            "removed": {"value": 0.5, "low": 0.4, "high": 0.6},
            "event": {
                "event": {"top_decile": {"from": 0.7}},
                "named": 100,
                "having": 131,
                "attack": 52.0,
                "control": 13.1,
            },
            "within": {"tolerance": 0.03, "share": {"attack": 0.2, "control": 0.1}},
        },
    }
    report = cloison.Report(document(audit(ran("gaussian", 0.002, attributes=[told]), ran("half", 0.1))))
    row = report.attributes.iloc[0]
    assert (len(report.attributes), row["attribute"], row["party"]) == (1, "income", "passive-1")
    assert (row["added_risk"], row["control_error"], row["right"], row["within_without"]) == (0.5, 1.0, 52.0, 0.1)
    assert row["knowledge"] == "unaware"
    ax = report.plot()
    ax.figure.savefig(tmp_path / "plot.png")
    assert ax.get_title(loc="left") == report.title


def test_attacks_are_rows() -> None:
    named = ran("rcc1", 0.02, status={"least_norm": {"rank": 2, "unknowns": 3}}, score_mismatch=1e-9)
    named["outcome"]["ran"]["errors"]["metrics"] = [{"name": "correlation", "value": 0.7}]
    hidden = {
        "name": "rcc2",
        "outcome": {"not_run": {"why": "parameters_hidden", "reason": "the parameters are hidden"}},
    }
    metrics = [{"name": "correlation"}]
    attacks = cloison.Report(document(audit(named, hidden), metrics=metrics)).attacks
    assert attacks["status"].tolist() == ["least_norm", "parameters_hidden"]
    assert attacks["outcome"].tolist() == ["ran", "not_run"]
    assert attacks["reason"].tolist() == [None, "the parameters are hidden"]
    assert attacks["mse"].dtype == np.float64
    assert attacks.loc[0, "correlation"] == 0.7
    assert attacks["correlation"].isna().tolist() == [False, True]
    assert attacks["column_mean"].tolist() == [0.05, 0.05]


def test_tables_are_copies() -> None:
    report = cloison.Report(document(audit(ran("rcc1", 0.02)), verdicts=[told(attack="rcc1")]))
    attacks, policies = report.attacks, report.policies
    attacks.loc[0, "mse"] = 1.0
    policies.loc["none", "mse"] = 1.0
    report.document["title"] = "another"
    assert (report.attacks.loc[0, "mse"], report.policies.loc["none", "mse"], report.title) == (0.02, 0.02, "An audit")


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.attributes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_the_page_is_self_contained_and_escapes_what_others_wrote(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    verdicts = [told(evil, attack=evil)]
    sent = document(audit(ran(evil, 0.02), policy=evil), title=evil, notes=[f"note {evil}"], verdicts=verdicts)
    report = cloison.Report(sent)
    page = report.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    tags = Tags(page)
    assert report._repr_html_() in page
    assert not {"script", "link", "img", "iframe"} & set(tags.opened)
    assert not {"src", "href", "onload"} & set(tags.attributes)
    assert page.count("&lt;script&gt;") >= 4


def test_a_report_is_read_from_its_file_or_directory(tmp_path: Path) -> None:
    sent = document(audit(ran("rcc1", 0.02)))
    (tmp_path / "report.json").write_text(json.dumps(sent))
    for place in (tmp_path, tmp_path / "report.json"):
        assert cloison.load_report(place).document == sent
    again = cloison.load_report(tmp_path).to_json(tmp_path / "again.json")
    assert json.loads(again.read_text()) == sent


def test_other_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    good = document(audit(ran("rcc1", 0.02)))
    changes: list[tuple[dict[str, Any], str]] = [
        ({"schema_version": 11}, "update this package"),
        ({"schema_version": 8}, "audit again"),
        ({"schema_version": "9"}, "no schema_version"),
        ({"audits": [{"policy": {}}]}, "not a well-formed report"),
        ({"audits": 3}, "not a well-formed report"),
    ]
    for change, said in changes:
        (tmp_path / "report.json").write_text(json.dumps(copy.deepcopy(good) | change))
        with pytest.raises(cloison.ReportError, match=said):
            cloison.load_report(tmp_path)
    for text, said in [("[]", "no report"), ("{", "is not JSON"), ("\xff", "is not JSON")]:
        (tmp_path / "report.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(cloison.ReportError, match=said):
            cloison.load_report(tmp_path)
    with pytest.raises(cloison.ReportError, match="cannot read"):
        cloison.load_report(tmp_path / "missing")


def test_a_report_without_an_audit_says_so() -> None:
    report = cloison.Report(document())
    assert report.attacks.empty
    assert report.policies.empty
    assert report.verdict.level == "unmeasured"
    assert "<table" in report._repr_html_()


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0, "0"),
        (1.2345e-27, "1.23e-27"),
        (9.99e-4, "9.99e-4"),
        (9.996e-4, "0.0010"),
        (0.0912, "0.0912"),
        (0.9996, "1.00"),
        (12.34, "12.3"),
        (999.6, "1000"),
        (1237.0, "1240"),
        (9996.0, "1.00e4"),
    ],
)
def test_figures_are_written_as_the_programs_write_them(x: float, text: str) -> None:
    assert _figures.significant(x) == text
    assert _figures.figure(0.02134, 0.0041) == "0.0213 ± 0.0041"
    assert _figures.figure(-0.001, 0.012) == "-0.001 ± 0.012"
    assert _figures.percent(0.0752) == "7.5 %"
    assert _figures.interval(0.679, 0.731) == "68 to 73 %"
