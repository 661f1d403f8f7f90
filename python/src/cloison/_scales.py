"""Increasing functions of a column, as a schema declares them: `scale = "log"`, `{ box_cox = λ }` or `{ yeo_johnson = λ }`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import FrameError


@dataclass(frozen=True)
class Scale:
    """A function of the values of a column: `box_cox` or `yeo_johnson`, with its power."""

    function: str
    power: float

    def apply(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The function of values."""
        if self.function == "box_cox":
            return _power_of_log(self.power, np.log(values))
        above = _power_of_log(self.power, np.log1p(np.maximum(values, 0.0)))
        below = -_power_of_log(2.0 - self.power, np.log1p(np.maximum(-values, 0.0)))
        return np.where(values >= 0.0, above, below)

    def entry(self) -> str | dict[str, float]:
        """The value of `scale` in a schema."""
        return "log" if self == LOG else {self.function: self.power}


LOG = Scale("box_cox", 0.0)
LOG_OF_ONE_MORE = Scale("yeo_johnson", 0.0)


def _power_of_log(power: float, log: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(e^(λ l) - 1) / λ, or l where λ is 0."""
    return log if power == 0.0 else np.asarray(np.expm1(power * log) / power)


def powers(name: str, step: Any) -> list[tuple[Scale | None, float, float]]:
    """For each column of a PowerTransformer its scale, and factor and shift of what comes out of it.

    A power that is no number leaves a column as it is.
    """
    if step.method not in {"box-cox", "yeo-johnson"}:
        raise FrameError(f"step {name!r} (PowerTransformer) has the method {step.method!r}, which is not known")
    function = step.method.replace("-", "_")
    count = len(step.lambdas_)
    scaler = step._scaler if step.standardize else None
    mean = np.zeros(count) if scaler is None else scaler.mean_
    unit = np.ones(count) if scaler is None else scaler.scale_
    return [
        (None if math.isnan(power) else Scale(function, float(power)), 1.0 / float(by), -float(centre) / float(by))
        for power, centre, by in zip(step.lambdas_, mean, unit, strict=True)
    ]


def of_function(name: str, step: Any) -> Scale:
    """The scale of a FunctionTransformer of numpy's `log` or `log1p`."""
    known = {np.log: LOG, np.log1p: LOG_OF_ONE_MORE}
    scale = known.get(step.func) if not step.kw_args else None
    if scale is None:
        function = getattr(step.func, "__name__", type(step.func).__name__)
        raise FrameError(
            f"step {name!r} (FunctionTransformer) is of the function {function}; known are numpy.log and numpy.log1p"
        )
    return scale
