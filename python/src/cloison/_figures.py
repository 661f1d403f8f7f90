"""How figures of a report are written: never more digits than the scorer gives."""

from __future__ import annotations

import math
from typing import Final

NONE: Final = "–"
_DIGITS: Final = 3
_MOST_DECIMALS: Final = 4
_SMALL_PERCENT: Final = 9.95


def significant(x: float) -> str:
    """Three significant digits and at most four decimals; below 1e-3 and from 1e4 on in scientific notation."""
    if x == 0:
        return "0"
    if not math.isfinite(x):
        return "not finite"
    mantissa, _, exponent = f"{x:.2e}".partition("e")
    power = int(exponent)
    if not -_DIGITS <= power <= _DIGITS:
        return f"{mantissa}e{power}"
    if power == _DIGITS:
        return f"{math.copysign(math.floor(abs(x) / 10 + 0.5) * 10, x):.0f}"
    return f"{x:.{min(max(_DIGITS - 1 - power, 0), _MOST_DECIMALS)}f}"


def figure(x: float, sigma: float | None) -> str:
    """An error, with the standard deviation of its noise to two digits if there is any."""
    if sigma is None or not math.isfinite(sigma) or sigma <= 0:
        return significant(x)
    decimals = min(max(1 - math.floor(math.log10(sigma)), 0), 9)
    return f"{x:.{decimals}f} ± {sigma:.{decimals}f}"


def percent(share: float) -> str:
    """A share as a percentage, with a decimal below 10."""
    value = 100 * share
    return f"{value:.1f} %" if abs(value) < _SMALL_PERCENT else f"{value:.0f} %"


def interval(low: float | None, high: float | None) -> str | None:
    """The ends of an interval as percentages, if it has both."""
    if low is None or high is None:
        return None
    return f"{percent(low).removesuffix(' %')} to {percent(high)}"
