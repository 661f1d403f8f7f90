"""A report as a compact table for notebooks: self-contained, without scripts, every text of the document escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from ._figures import NONE, figure, interval, percent, significant
from ._verdicts import LEVELS, Line

if TYPE_CHECKING:
    from .report import Report

_CELL: Final = "padding:.25em .8em;text-align:{side};border-bottom:1px solid #8884"
_BAD: Final = {"exact", "some_exact"}
_HEAD: Final = (
    "policy",
    "worst attribute",
    "strongest attack",
    "error",
    "without scores",
    "added risk",
    "95 %",
    "accuracy",
    "result",
    "thresholds",
)
# The first three columns and the last two are texts.
_TEXTS: Final = {0, 1, 2, 8, 9}


def table(report: Report) -> str:
    """The verdict and a row for each policy."""
    verdict = report.verdict
    rows = "".join(_row(line) for line in report._lines)
    head = "".join(f'<th style="{_style(place)}">{escape(name)}</th>' for place, name in enumerate(_HEAD))
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    return (
        '<div class="cloison-report" style="font-family:system-ui,sans-serif;font-size:.95em">'
        f"<p><b>{escape(report.title)}</b></p>"
        f'<p style="{"color:#b3261e" if verdict.met is False or verdict.level in _BAD else ""}">{escape(str(verdict))}</p>'
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        '<p style="opacity:.75">Error: mean squared, over all features. Without scores: of the same adversary without any score, or in '
        "brackets of guessing the column mean. Added risk: 1 − error / without scores, of the worst attribute. Only the attacks listed "
        "were tried.</p>"
        f"{f'<ul>{notes}</ul>' if notes else ''}</div>"
    )


def page(report: Report) -> str:
    """The same as a page of its own."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(report.title)}</title></head><body>{table(report)}</body></html>\n"
    )


def _style(place: int) -> str:
    return _CELL.format(side="left" if place in _TEXTS else "right")


def _row(line: Line) -> str:
    guess = NONE if line.column_mean is None else f"({figure(line.column_mean['mse'], line.column_mean.get('sigma'))})"
    accuracy = line.utility.get("accuracy")
    met = line.met
    risk = line.risk
    value = None if risk is None or (line.level == "undecided" and risk.high is None) else risk.value
    added = NONE if value is None else percent(value)
    cells = (
        line.policy + (" (in service)" if line.in_service else ""),
        line.attribute or NONE,
        line.attack or NONE,
        NONE if line.errors is None else figure(line.errors["mse"], line.errors.get("sigma")),
        guess if risk is None else significant(risk.control_mse if line.control_mse is None else line.control_mse),
        added,
        NONE if risk is None else interval(risk.low, risk.high) or "not bounded",
        NONE if accuracy is None else percent(accuracy),
        LEVELS[line.level],
        NONE if met is None else ("met" if met else "not met"),
    )
    return (
        "<tr>"
        + "".join(f'<td style="{_style(place)}">{escape(cell)}</td>' for place, cell in enumerate(cells))
        + "</tr>"
    )
