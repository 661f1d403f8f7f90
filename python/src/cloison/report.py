"""The report of an audit: the document that `cloison audit` writes, as tables."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pandas as pd

from . import _html, _verdicts
from ._verdicts import LEVELS, Line
from .errors import ReportError

SCHEMA_VERSION: Final = 10
# The first version with verdicts in the document; of an older report only the attacks are read.
_WITH_VERDICTS: Final = 10
_OLDEST: Final = 9
_OUTCOMES: Final = ("ran", "not_scored", "not_run")
# fmt: off
_POLICY_COLUMNS: Final = [
    "policy", "level", "result", "party", "attribute", "attack", "knowledge", "mse", "sigma", "column_mean", "control_mse",
    "added_risk", "low", "high", "named", "right", "right_without", "accuracy", "accuracy_lost", "bits", "met", "in_service",
]
_ATTACK_COLUMNS: Final = [
    "policy", "knowledge", "attack", "outcome", "status", "mse", "sigma", "half", "column_mean", "control", "control_mse", "added_risk",
    "low", "high", "score_mismatch", "records", "reason",
]
_ATTRIBUTE_COLUMNS: Final = [
    "policy", "knowledge", "attack", "party", "attribute", "error", "control_error", "added_risk", "low", "high", "named", "right",
    "right_without", "within", "within_without",
]
# fmt: on


@dataclass(frozen=True)
class Verdict:
    """What the attacks on one policy come to: the policy in service, or if that was not audited the first one.

    Attributes:
        policy: The policy.
        level: `exact`, `some_exact`, `partial`, `column_mean`, `half`, `no_more`, `undecided`, `unresolved` or `unmeasured`.
        text: The same as a sentence. It is about the attacks that were tried and nothing else.
        met: Whether the thresholds are met; none if nothing was demanded.
    """

    policy: str | None
    level: str
    text: str
    met: bool | None

    def __str__(self) -> str:
        """The sentence."""
        return self.text


class Report:
    """The report of an audit."""

    def __init__(self, document: Mapping[str, Any], source: str = "the report") -> None:
        """Takes a document that was read from JSON.

        Args:
            document: The document.
            source: What to call it in messages.

        Raises:
            ReportError: It is no report, or one of a schema that this package does not read.
        """
        version = document.get("schema_version") if isinstance(document, Mapping) else None
        if not isinstance(version, int) or isinstance(version, bool):
            raise ReportError(f"{source} is no report of Cloison: it has no schema_version")
        if not _OLDEST <= version <= SCHEMA_VERSION:
            fix = "update this package" if version > SCHEMA_VERSION else "audit again with the programs of today"
            raise ReportError(
                f"{source} has schema version {version}, this package reads {_OLDEST} to {SCHEMA_VERSION}; {fix}"
            )
        self._document = copy.deepcopy(dict(document))
        try:
            self._lines: list[Line] = _verdicts.lines(self._document)
            self._attacks: pd.DataFrame = _attacks(self._document)
            self._title, self._notes = str(document["title"]), [str(note) for note in document.get("notes", ())]
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise ReportError(f"{source} is not a well-formed report: {type(error).__name__} at {error}") from error

    @property
    def document(self) -> dict[str, Any]:
        """The whole document, as a copy."""
        return copy.deepcopy(self._document)

    @property
    def schema_version(self) -> int:
        """The version of the document's schema."""
        return int(self._document["schema_version"])

    @property
    def title(self) -> str:
        """One line for people."""
        return self._title

    @property
    def notes(self) -> list[str]:
        """What else a reader must know."""
        return list(self._notes)

    @property
    def attacks(self) -> pd.DataFrame:
        """A row for each attack of each audit.

        Columns: `policy`; `knowledge` of the adversary (`unaware`, `aware`, `informed`, `informed by moments`); `attack`; `outcome`
        (`ran`, `not_scored`, `not_run`); `status`, how the estimates come about; `mse` with `sigma`, the standard deviation of its
        noise; `half` and `column_mean`, the errors of these guesses; `control`, `control_mse`, `added_risk`, `low`, `high`, where the
        attack has a control without scores; `score_mismatch`; `records`; `reason`, why it was not scored or did not run; then
        a column for each metric of the report. What is not known is NaN.
        """
        return self._attacks.copy()

    @cached_property
    def _attributes(self) -> pd.DataFrame:
        return _attributes(self._document)

    @property
    def attributes(self) -> pd.DataFrame:
        """A row for each attribute of each attack that was compared with its control: the same adversary without scores.

        `error` and `control_error` are mean squared errors in units of the attribute's variance, `added_risk` is the share of
        the control's error that the scores remove, with its interval of 95 % from `low` to `high`, not corrected for the choice
        of one attribute among all. Of `named` records that an insider would name, `right` are named rightly (`right_without`:
        without the scores). `within` is the share of the records of which the estimate comes within the attribute's tolerance.
        What is not known is NaN.
        """
        return self._attributes.copy()

    def plot(self, ax: Any = None) -> Any:
        """Draws what the scores add behind each policy, on the attribute that they tell most of, with matplotlib.

        Args:
            ax: The axes to draw in; by default new ones.

        Returns:
            The axes.
        """
        if ax is None:
            import matplotlib.pyplot as plt  # noqa: PLC0415  (an extra that only this needs)

            _, ax = plt.subplots(figsize=(7, 1.2 + 0.5 * len(self._policies)), layout="constrained")
        rows = self._policies[::-1]
        risk = rows["added_risk"].astype("float64")
        spread = [(risk - rows["low"]).clip(lower=0), (rows["high"] - risk).clip(lower=0)]
        places = range(len(rows))
        ax.barh(places, risk.fillna(0.0), height=0.6, color="0.75")
        ax.errorbar(risk, places, xerr=spread, fmt="o", color="black", capsize=3)
        labels = [
            f"{policy}\n{attribute}" if attribute else str(policy)
            for policy, attribute in zip(rows.index, rows["attribute"], strict=True)
        ]
        ax.set_yticks(list(places), labels)
        ax.set_xlim(min(0.0, float(rows["low"].min()) if len(rows) else 0.0), 1.0)
        ax.set_xlabel("added risk: share of the control's error that the scores remove")
        ax.set_title(self.title, loc="left", fontsize="medium")
        return ax

    @cached_property
    def _policies(self) -> pd.DataFrame:
        rows = []
        for line in self._lines:
            errors, risk, event = line.errors or {}, line.risk, line.event or {}
            rows.append(
                {
                    "policy": line.policy,
                    "level": line.level,
                    "result": LEVELS[line.level],
                    "party": line.party,
                    "attribute": line.attribute,
                    "attack": line.attack,
                    "knowledge": line.knowledge,
                    "mse": errors.get("mse"),
                    "sigma": errors.get("sigma"),
                    "column_mean": line.column_mean["mse"] if line.column_mean else None,
                    "control_mse": risk.control_mse if risk else None,
                    "added_risk": risk.value if risk else None,
                    "low": risk.low if risk else None,
                    "high": risk.high if risk else None,
                    "named": event.get("named"),
                    "right": event.get("attack"),
                    "right_without": event.get("control"),
                    "accuracy": line.utility.get("accuracy"),
                    "accuracy_lost": line.accuracy_lost,
                    "bits": line.utility.get("bits"),
                    "met": line.met,
                    "in_service": line.in_service,
                }
            )
        columns = _POLICY_COLUMNS
        made = _typed(
            pd.DataFrame(rows, columns=pd.Index(columns)),
            texts={"policy", "level", "result", "party", "attribute", "attack", "knowledge", "met"},
        )
        return made.set_index("policy")

    @property
    def policies(self) -> pd.DataFrame:
        """A row for each policy whose scores were attacked, indexed by policy.

        `attribute` of `party` is the one that the scores tell most of. `added_risk` is 1 − error / error of the same adversary without
        scores, of that attribute, with its interval of 95 % from `low` to `high`; the choice of the worst attribute and attack is corrected
        for. `control_mse` is in units of the attribute's variance. Of `named` records that an insider would name, `right` are named rightly
        (`right_without`: without the scores); NaN where the party answers with noise. Where no attack has a control, the figures are
        those of all features together, of the strongest attack. `accuracy_lost` is a share. `met` says whether the thresholds are met.
        A report of version 9 holds no verdicts, so that there is no row.
        """
        return self._policies.copy()

    @property
    def verdict(self) -> Verdict:
        """The verdict on the policy in service, or if that was not audited on the first one.

        A report of version 9 holds none, and its text says so.
        """
        line = next((line for line in self._lines if line.judged), None)
        if line is None:
            met = False if self._document.get("thresholds") else None
            text = "No policy whose scores are released was audited."
            if self.schema_version < _WITH_VERDICTS:
                text = f"A report of schema version {self.schema_version} holds no verdict: audit again."
            return Verdict(None, "unmeasured", text, met)
        text = line.sentence[0].upper() + line.sentence[1:] + "."
        for result in line.results:
            limit = (self._document.get("thresholds") or {})[result["threshold"]]
            text += f" Threshold {result['threshold']} = {limit:g}: {result['compliance'].replace('_', ' ')}."
        return Verdict(line.policy, line.level, text, line.met)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return _html.table(self)

    def __repr__(self) -> str:
        """Title and verdict."""
        return f"<cloison.Report {self.title!r}: {self.verdict}>"

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes the compact table as a page of its own. The page with every figure is the `report.html` that `cloison audit` leaves."""
        place = Path(path)
        place.write_text(_html.page(self), encoding="utf-8")
        return place

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Writes the document."""
        place = Path(path)
        place.write_text(
            json.dumps(self._document, ensure_ascii=False, indent=2, allow_nan=False) + "\n", encoding="utf-8"
        )
        return place


def load_report(path: str | os.PathLike[str]) -> Report:
    """Reads a report.

    Args:
        path: The `report.json` of an audit or a demonstration, or the directory that holds it.

    Raises:
        ReportError: It cannot be read, or is no report of a schema that this package reads.
    """
    place = Path(path)
    if place.is_dir():
        place = place / "report.json"
    try:
        document = json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"cannot read {place}: {error.strerror}") from error
    except ValueError as error:
        raise ReportError(f"{place} is not JSON: {error}") from error
    return Report(document, str(place))


def _attacks(document: Mapping[str, Any]) -> pd.DataFrame:
    metrics = [str(metric["name"]) for metric in document.get("metrics", ())]
    rows = []
    for audit in document["audits"]:
        baselines = audit["baselines"]
        for attack in audit["attacks"]:
            kind = next(kind for kind in _OUTCOMES if kind in attack["outcome"])
            outcome, risk = attack["outcome"][kind], attack.get("added_risk", {})
            errors = outcome.get("errors", {})
            row = {
                "policy": _verdicts.label(audit["policy"]),
                "knowledge": _verdicts.knowledge(audit),
                "attack": attack["name"],
                "outcome": kind,
                "status": _status(outcome.get("status", outcome.get("why"))),
                "mse": errors.get("mse"),
                "sigma": errors.get("sigma"),
                "half": baselines["half"]["mse"],
                "column_mean": baselines["column_mean"]["mse"],
                "control": risk.get("control"),
                "control_mse": risk.get("control_mse"),
                "added_risk": risk.get("value"),
                "low": risk.get("low"),
                "high": risk.get("high"),
                "score_mismatch": attack.get("score_mismatch"),
                "records": audit["records"],
                "reason": outcome.get("reason"),
            }
            told = {figure["name"]: figure.get("value") for figure in errors.get("metrics", ())}
            rows.append(row | {name: told.get(name) for name in metrics})
    columns = [*_ATTACK_COLUMNS, *metrics]
    texts = {"policy", "knowledge", "attack", "outcome", "status", "control", "reason"}
    return _typed(pd.DataFrame(rows, columns=pd.Index(columns)), texts=texts)


def _attributes(document: Mapping[str, Any]) -> pd.DataFrame:
    rows = []
    for audit in document["audits"]:
        for attack in audit["attacks"]:
            for told in attack.get("attributes", ()):
                figures = told["figures"]
                error, event = figures.get("error") or {}, figures.get("event") or {}
                removed, within = figures.get("removed") or {}, (figures.get("within") or {}).get("share", {})
                rows.append(
                    {
                        "policy": _verdicts.label(audit["policy"]),
                        "knowledge": _verdicts.knowledge(audit),
                        "attack": attack["name"],
                        "party": told["party"],
                        "attribute": figures["attribute"],
                        "error": error.get("attack"),
                        "control_error": error.get("control"),
                        "added_risk": removed.get("value"),
                        "low": removed.get("low"),
                        "high": removed.get("high"),
                        "named": event.get("named"),
                        "right": event.get("attack"),
                        "right_without": event.get("control"),
                        "within": within.get("attack"),
                        "within_without": within.get("control"),
                    }
                )
    columns = pd.Index(_ATTRIBUTE_COLUMNS)
    return _typed(pd.DataFrame(rows, columns=columns), texts={"policy", "knowledge", "attack", "party", "attribute"})


def _status(status: object) -> str | None:
    """A status by name; those with numbers are tables of one entry."""
    return next(iter(status)) if isinstance(status, dict) else None if status is None else str(status)


def _typed(table: pd.DataFrame, texts: set[str]) -> pd.DataFrame:
    """Texts as objects with None, `records` as integers, all else as float64 with NaN."""
    for name in table.columns:
        if name in texts:
            table[name] = table[name].astype(object).where(table[name].notna(), None)
        elif name == "records":
            table[name] = table[name].astype("int64")
        elif name != "in_service":
            table[name] = table[name].astype("float64")
    return table
