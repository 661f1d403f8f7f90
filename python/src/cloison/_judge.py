"""What the attacks of a report come to, policy by policy.

Since version 10 the report holds its verdicts, which go by the worst attribute, and they are read. An older one is judged here, by the mean
over features, with the rules of its time; what its noise leaves open is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ._figures import figure, interval, percent

EXACT: Final = 1e-12
# Two figures differ if they do so by this many standard deviations of their noise.
_Z: Final = 1.96
_WORST: Final = math.inf
# An upper end up to which scores are said to add nothing.
_NOTHING: Final = 0.05

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
    """What an attack adds to its control: 1 − error / control, with its interval of 95 %."""

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
    party: str | None = None
    attribute: str | None = None
    event: Document | None = None
    said: str | None = None
    # The control's error over all features, where `risk` is of one attribute.
    control_mse: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the policy meets all thresholds; none if nothing is demanded."""
        return all(result["compliance"] == "met" for result in self.results) if self.results else None

    def sentence(self) -> str:
        """The verdict in a sentence, without a capital and a full stop."""
        return self.said if self.said is not None else self._by_the_mean()

    def _by_the_mean(self) -> str:
        behind = f"behind {self.policy}"
        ends = interval(self.risk.low, self.risk.high) if self.risk else None
        shown = f" ({ends})" if ends else ""
        if self.level == "exact":
            return f"{behind}, {self.attack} rebuilds all passive features exactly"
        if self.risk is not None and self.level == "no_more":
            return f"{behind}, the scores add nothing that this audit measures{shown}"
        if self.level == "undecided":
            return f"{behind}, it is undecided what the scores add{shown}; audit more records"
        if self.risk is not None:
            removed = "a share" if self.risk.value is None else percent(self.risk.value)
            return f"{behind}, the scores remove {removed}{shown} of the error without scores"
        if self.errors is None:
            return f"{behind}, no attack ran"
        error = figure(self.errors["mse"], self.errors.get("sigma"))
        return f"{behind}, {LEVELS[self.level]} ({self.attack} has error {error})"


def label(policy: Document) -> str:
    """A policy with its settings."""
    settings = policy.get("parameters", {})
    if not settings:
        return str(policy["name"])
    return f"{policy['name']} ({', '.join(f'{key} = {_json(value)}' for key, value in sorted(settings.items()))})"


def _json(value: object) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def sees_scores(audit: Document) -> bool:
    """Whether the scores of all attacked records were released to the adversary."""
    seen = audit["threat_model"]["observations"]
    return bool(seen != "no_score" and not (isinstance(seen, dict) and "scores_of_some" in seen))


def knowledge(audit: Document) -> str:
    """What the adversary knows, in a word, as the table of all figures has it."""
    model = audit["threat_model"]
    if model.get("known_records", 0) > 0:
        return "informed"
    if model.get("moments", False):
        return "informed by moments"
    return "aware" if model["defense"] == "known" else "unaware"


def scored(audit: Document) -> Iterator[tuple[Document, Document]]:
    """The attacks that were scored and are more than a guess, with their errors."""
    for attack in audit["attacks"]:
        ran = attack["outcome"].get("ran")
        if ran is not None and ran["status"] != "guess":
            yield attack, ran["errors"]


def strongest(audit: Document) -> tuple[Document, Document] | None:
    """The attack with the smallest error; those up to `EXACT` count as equal, and the first of equals is taken."""
    return min(scored(audit), key=lambda found: found[1]["mse"] if found[1]["mse"] > EXACT else 0.0, default=None)


def added_risk(audit: Document) -> Risk | None:
    """What the strongest attack adds to its control.

    The best of several attacks looks better than it is on the records that it was chosen by. Where figures of two halves of the records
    are told, the attack is chosen on each half and read off the other, and the figure is lowered by the difference.
    """
    found = strongest(audit)
    if found is None or "added_risk" not in found[0]:
        return None
    own = found[0]["added_risk"]
    value, low, high = own.get("value"), own.get("low"), own.get("high")
    if "halves" in own and value is not None:
        risks = [attack["added_risk"] for attack in audit["attacks"] if "added_risk" in attack]
        halves = [risk["halves"] for risk in risks if "halves" in risk]

        def best(half: str) -> Document:
            # The last of equals, as the programs take it.
            most: Document = max(reversed(halves), key=lambda one: one[half])
            return most if most[half] > own["halves"][half] else own["halves"]

        read_off = best("first")["second"] + best("second")["first"]
        flattery = max((own["halves"]["first"] + own["halves"]["second"] - read_off) / 2, 0.0)
        value -= flattery
        low, high = (None if end is None else end - flattery for end in (low, high))
    return Risk(own["control"], own["control_mse"], value, low, high)


def outdone(audits: list[Document]) -> tuple[Document, Risk] | None:
    """Among the audits of one policy, the one without a control whose attack finds more than the interval of the informed one allows.

    Its risk is measured against the control of the informed attack. It has an interval only where its error carries noise.
    """
    counting = [a for a in audits if sees_scores(a) and not a["threat_model"].get("moments", False)]
    informed = next((audit for audit in counting if added_risk(audit) is not None), None)
    known = added_risk(informed) if informed is not None else None
    most = known.high if known is not None and known.high is not None else known.value if known is not None else None
    if informed is None or known is None or most is None or known.control_mse <= 0:
        return None

    def aim(audit: Document) -> tuple[list[str], list[str]]:
        model = audit["threat_model"]
        return list(model.get("target", [])), list(model.get("colluding", []))

    found: list[tuple[Document, Risk]] = []
    for audit in counting:
        best = strongest(audit)
        if best is None or added_risk(audit) is not None or aim(audit) != aim(informed):
            continue
        mse, sigma = best[1]["mse"], best[1].get("sigma")
        value = 1 - mse / known.control_mse
        noise = None if sigma is None else _Z * sigma / known.control_mse
        low, high = (None, None) if noise is None else (value - noise, value + noise)
        if (low if low is not None else value) > most:
            found.append((audit, Risk(known.control, known.control_mse, value, low, high)))
    return max(found, key=lambda one: -_WORST if one[1].value is None else one[1].value, default=None)


def level(audit: Document) -> str:
    """How far the strongest attack of an audit got: a key of `LEVELS`."""
    found = strongest(audit)
    if found is None:
        return "unmeasured"
    errors, risk = found[1], added_risk(audit)
    noisy = errors.get("sigma") is not None
    if risk is not None:
        if errors["mse"] <= EXACT and not noisy:
            return "exact"
        return _finding(risk, noisy)
    half, mean = audit["baselines"]["half"], audit["baselines"]["column_mean"]
    return _noisy(errors, half, mean) if noisy else _exact_figures(audit, errors["mse"], half, mean)


def _finding(risk: Risk, noisy: bool) -> str:
    if risk.low is not None and risk.low > 0:
        return "partial"
    if risk.high is not None:
        return "no_more" if risk.high <= _NOTHING else "undecided"
    if noisy or risk.value is None:
        return "undecided"
    return "partial" if risk.value > 0 else "no_more"


def _noisy(errors: Document, half: Document, mean: Document) -> str:
    def below(one: Document, other: Document) -> bool:
        noise = math.hypot(one.get("sigma") or 0.0, other.get("sigma") or 0.0)
        return bool(one["mse"] + _Z * noise < other["mse"])

    if below(errors, mean) and below(errors, half):
        return "partial"
    if below(mean, errors):
        if below(half, errors):
            return "half"
        if below(errors, half):
            return "column_mean"
    return "unresolved"


def _exact_figures(audit: Document, mse: float, half: Document, mean: Document) -> str:
    if mean["mse"] <= EXACT:
        found = "column_mean"
    elif mse <= EXACT:
        return "exact"
    elif mse < min(mean["mse"], half["mse"]):
        found = "partial"
    else:
        found = "column_mean" if mse < half["mse"] else "half"
    # An overall error hides single features. One that does not vary is known without an attack.
    for place, guesses in enumerate(zip(half["per_feature"], mean["per_feature"], strict=False)):
        tried = [errors["per_feature"][place] for _, errors in scored(audit) if place < len(errors["per_feature"])]
        if min(guesses) > EXACT and tried and min(tried) <= EXACT:
            return "some_exact"
    return found


def lines(report: Document) -> list[Line]:
    """The policies whose scores were attacked, in the order of the report."""
    if report.get("verdicts"):
        return [_told(report, verdict) for verdict in report["verdicts"]]
    seen = [audit for audit in report["audits"] if sees_scores(audit)]
    policies: list[Document] = []
    for audit in seen:
        if audit["policy"] not in policies:
            policies.append(audit["policy"])
    service = report.get("in_service")
    judged = service if service in policies else next(iter(policies), None)
    return [_line(report, policy, seen, policy == judged, policy == service) for policy in policies]


def _told(report: Document, verdict: Document) -> Line:
    """A verdict of the report itself, with the figures of its attack."""
    audits = [a for a in report["audits"] if label(a["policy"]) == verdict["policy"] and sees_scores(a)]
    # An attack of an informed audit stands for itself, also where an uninformed one has one of that name.
    informed = sorted(audits, key=lambda audit: added_risk(audit) is None)
    ran = [errors for a in informed for attack, errors in scored(a) if attack["name"] == verdict.get("attack")]
    risk = verdict.get("risk")
    service = report.get("in_service")
    return Line(
        policy=str(verdict["policy"]),
        level=str(verdict["level"]),
        knowledge=verdict.get("knowledge"),
        attack=verdict.get("attack"),
        errors=ran[0] if ran else None,
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
        said=str(verdict["sentence"]),
        control_mse=verdict.get("mean", {}).get("control_mse"),
    )


def _risk(risk: Document) -> Risk:
    return Risk(risk["control"], risk["control_mse"], risk.get("value"), risk.get("low"), risk.get("high"))


def _line(report: Document, policy: Document, seen: list[Document], judged: bool, in_service: bool) -> Line:
    # What scores add for whoever knows moments alone is told apart: its control is weak.
    audits = [a for a in seen if a["policy"] == policy and not a["threat_model"].get("moments", False)]
    informed = [audit for audit in audits if added_risk(audit) is not None]
    ran = [audit for audit in audits if strongest(audit) is not None]
    more = outdone(audits)
    first = informed[0] if informed else min(ran, key=lambda audit: _found(audit)[1]["mse"], default=None)
    shown = more[0] if more is not None else first
    best = _found(shown) if shown is not None else None
    utility: Document = audits[0]["utility"] if audits else {}
    lost = utility.get("accuracy_change")
    if policy["name"] == "none":
        lost = 0.0 if "accuracy" in utility else None
    elif lost is not None:
        lost = -lost
    return Line(
        policy=label(policy),
        level=level(shown) if shown is not None else "unmeasured",
        knowledge=knowledge(shown) if shown is not None else None,
        attack=best[0]["name"] if best is not None else None,
        errors=best[1] if best is not None else None,
        column_mean=audits[0]["baselines"]["column_mean"] if audits else None,
        risk=more[1] if more is not None else added_risk(shown) if shown is not None else None,
        utility=utility,
        accuracy_lost=lost,
        results=tuple(_compliance(report, policy)),
        judged=judged,
        in_service=in_service,
    )


def _found(audit: Document) -> tuple[Document, Document]:
    found = strongest(audit)
    if found is None:  # pragma: no cover
        raise ValueError("no attack was scored")
    return found


def _compliance(report: Document, policy: Document) -> Iterator[Document]:
    """How all audits of a policy together stand to each threshold: the worst that was measured counts."""
    for threshold in report.get("thresholds") or {}:
        counting = [
            audit
            for audit in report["audits"]
            if audit["policy"] == policy
            and (threshold != "max_added_risk" or not audit["threat_model"].get("moments", False))
        ]
        results = [r for audit in counting for r in audit.get("thresholds", ()) if r["threshold"] == threshold]
        more = outdone(counting) if threshold == "max_added_risk" else None
        if more is not None:
            attack, figure_of = _found(more[0])[0]["name"], more[1].high if more[1].high is not None else more[1].value
            met = figure_of is not None and figure_of <= report["thresholds"][threshold]
            results.append(
                {
                    "threshold": threshold,
                    "compliance": "met" if met else "not_met",
                    "figure": figure_of,
                    "attack": attack,
                }
            )
        yield max(results, key=_severity, default={"threshold": threshold, "compliance": "not_measured"})


def _severity(result: Document) -> float:
    if result["compliance"] == "met":
        return float(result.get("figure", -1.0))
    return -_WORST if result["compliance"] == "not_measured" else 2.0 + float(result.get("figure", _WORST))
