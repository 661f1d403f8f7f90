"""The verdicts of a report, policy by policy. `cloison` writes them into the document since version 10; here they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Document = Mapping[str, Any]

# From the worst news to the best.
LEVELS: Final = {
    "exact": "rebuilt exactly",
    "some_exact": "some features rebuilt exactly",
    "partial": "rebuilt in part",
    "column_mean": "no better than the column mean",
    "half": "no better than guessing ½",
    "no_more": "no more than without scores",
    "undecided": "undecided",
    "unresolved": "not told from a guess at this noise",
    "unmeasured": "not measured",
}


@dataclass(frozen=True)
class Risk:
    """The added risk of an attack: 1 − error / control, with its interval of 95 %."""

    control: str
    control_mse: float
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Line:
    """One policy: the strongest attack on it, what the scores add, and what the policy costs."""

    policy: str
    level: str
    # The verdict, without a capital and a full stop.
    sentence: str
    knowledge: str | None
    attack: str | None
    errors: Document | None
    column_mean: Document | None
    risk: Risk | None
    utility: Document
    accuracy_lost: float | None
    results: tuple[Document, ...]
    judged: bool
    in_service: bool
    party: str | None
    attribute: str | None
    event: Document | None
    # The control's error over all features, where `risk` is of one attribute.
    control_mse: float | None

    @property
    def met(self) -> bool | None:
        """True if the policy meets all thresholds; none if nothing is demanded."""
        return all(result["compliance"] == "met" for result in self.results) if self.results else None


def label(policy: Document) -> str:
    """A policy with its settings."""
    settings = policy.get("parameters", {})
    if not settings:
        return str(policy["name"])
    return f"{policy['name']} ({', '.join(f'{key} = {_json(value)}' for key, value in sorted(settings.items()))})"


def _json(value: object) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def sees_scores(audit: Document) -> bool:
    """True if the scores of all attacked records were released to the adversary."""
    seen = audit["threat_model"]["observations"]
    return bool(seen != "no_score" and not (isinstance(seen, dict) and "scores_of_some" in seen))


def knowledge(audit: Document) -> str:
    """The knowledge of the adversary in a word, as the table of all figures has it."""
    model = audit["threat_model"]
    if model.get("known_records", 0) > 0:
        return "informed"
    if model.get("moments", False):
        return "informed by moments"
    return "aware" if model["defense"] == "known" else "unaware"


def lines(report: Document) -> list[Line]:
    """The verdicts of the report, in its order; a report of version 9 holds none."""
    return [_line(report, verdict) for verdict in report.get("verdicts", ())]


def _line(report: Document, verdict: Document) -> Line:
    """A verdict, with the figures of its attack."""
    audits = [a for a in report["audits"] if label(a["policy"]) == verdict["policy"] and sees_scores(a)]
    # Adversaries that know more or less may use an attack of that name.
    attacks = [attack for a in audits if knowledge(a) == verdict.get("knowledge") for attack in a["attacks"]]
    outcomes = [attack["outcome"] for attack in attacks if attack["name"] == verdict.get("attack")]
    errors = [outcome["ran"]["errors"] for outcome in outcomes if "ran" in outcome]
    risk = verdict.get("risk")
    service = report.get("in_service")
    return Line(
        policy=str(verdict["policy"]),
        level=str(verdict["level"]),
        sentence=str(verdict["sentence"]),
        knowledge=verdict.get("knowledge"),
        attack=verdict.get("attack"),
        errors=errors[0] if errors else None,
        column_mean=audits[0]["baselines"]["column_mean"] if audits else None,
        risk=_risk(risk) if risk is not None else None,
        utility=audits[0]["utility"] if audits else {},
        accuracy_lost=verdict.get("accuracy_lost"),
        results=tuple(verdict.get("results", ())),
        judged=bool(verdict["judged"]),
        in_service=service is not None and label(service) == verdict["policy"],
        party=verdict.get("party"),
        attribute=verdict.get("attribute"),
        event=verdict.get("event"),
        control_mse=verdict.get("mean", {}).get("control_mse"),
    )


def _risk(risk: Document) -> Risk:
    return Risk(risk["control"], risk["control_mse"], risk.get("value"), risk.get("low"), risk.get("high"))
