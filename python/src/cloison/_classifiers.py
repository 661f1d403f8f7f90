"""Linear classifiers of scikit-learn: softmax(W f + b), or one class against the rest each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .errors import FrameError

_LOGISTIC: Final = frozenset({"LogisticRegression", "LogisticRegressionCV"})
# Models with a linear decision function and no scores, which a calibration makes.
_DECISIONS: Final = frozenset(
    {"LinearSVC", "PassiveAggressiveClassifier", "Perceptron", "RidgeClassifier", "RidgeClassifierCV"}
)
TAKEN: Final = (
    "LogisticRegression, SGDClassifier(loss='log_loss'), OneVsRestClassifier of them, "
    "CalibratedClassifierCV(ensemble=False) of LinearSVC or another linear model, and MLPClassifier"
)


@dataclass
class Linear:
    """Outputs W f + b (classes × columns) of named classes, and the link: `softmax` or `one_vs_rest`."""

    weights: np.ndarray[Any, Any]
    bias: np.ndarray[Any, Any]
    classes: list[Any]
    link: str


def kind(step: Any) -> str:
    """The name of a class of scikit-learn."""
    return type(step).__name__


def calibrated(model: Any) -> Any:
    """The one model that a CalibratedClassifierCV has calibrated.

    Raises:
        FrameError: It has calibrated several, or by steps.
    """
    fitted = model.calibrated_classifiers_
    if len(fitted) != 1:
        raise FrameError(
            f"CalibratedClassifierCV is the mean of {len(fitted)} models: take ensemble=False, which calibrates one"
        )
    if not all(hasattr(one, "a_") for one in fitted[0].calibrators):
        raise FrameError(f"CalibratedClassifierCV calibrates with method={model.method!r}: take method='sigmoid'")
    inner = fitted[0].estimator
    # What was fitted before the calibration.
    return inner.estimator if kind(inner) == "FrozenEstimator" else inner


def linear(model: Any) -> Linear:
    """The outputs of a classifier, of which the scores are the softmax or the sigmoids divided by their sum.

    Raises:
        FrameError: The classifier is not known, or its scores are others; the message has its name.
    """
    name = kind(model)
    if name == "OneVsRestClassifier":
        return _one_vs_rest(model)
    if name == "CalibratedClassifierCV":
        weights, bias = _decision(calibrated(model))
        shapes = [(float(one.a_), float(one.b_)) for one in model.calibrated_classifiers_[0].calibrators]
        # The score of a class is 1 / (1 + exp(a f + b)) of its decision f.
        slopes, shifts = (np.array(column) for column in zip(*shapes, strict=True))
        return _of_rows(-slopes[:, None] * weights, -slopes * bias - shifts, list(model.classes_), "one_vs_rest")
    if name == "SGDClassifier" and model.loss == "log_loss":
        return _of_rows(*_decision(model), list(model.classes_), "one_vs_rest")
    if name == "SGDClassifier" or name in _DECISIONS:
        loss = f" with loss={model.loss!r}" if name == "SGDClassifier" else ""
        raise FrameError(
            f"{name}{loss} has no scores that are a sigmoid of its decision: take CalibratedClassifierCV({name}(…), ensemble=False)"
        )
    if name not in _LOGISTIC:
        raise FrameError(
            f"{name} is not taken: {TAKEN} are, alone or behind a Pipeline, and of numbers LinearRegression, Ridge, "
            "PoissonRegressor and their like"
        )
    apart = getattr(model, "multi_class", "auto") == "ovr" or getattr(model, "solver", "") == "liblinear"
    return _of_rows(*_decision(model), list(model.classes_), "one_vs_rest" if apart else "softmax")


def _of_rows(weights: np.ndarray[Any, Any], bias: np.ndarray[Any, Any], classes: list[Any], link: str) -> Linear:
    if weights.shape[0] > 1:
        return Linear(weights, bias, classes, link)
    # One row is the difference of two classes, and its sigmoid their softmax.
    return Linear(np.vstack([np.zeros_like(weights), weights]), np.array([0.0, bias[0]]), classes, "softmax")


def _decision(model: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Weights and bias of a linear decision function, one row a class, or one of two classes."""
    name = kind(model)
    if name == "Pipeline":
        return _decision(model.steps[-1][1])
    if name not in _LOGISTIC | _DECISIONS | {"SGDClassifier"}:
        raise FrameError(f"{name} has no linear decision function that is known: {TAKEN} are taken")
    weights = np.atleast_2d(np.asarray(model.coef_, dtype="float64"))
    if not np.isfinite(weights).all():
        raise FrameError(f"{name} has weights that are not finite")
    bias = np.asarray(model.intercept_, dtype="float64").reshape(-1)
    return weights, np.array(np.broadcast_to(bias, (weights.shape[0],)))


def _is_piped(model: Any) -> bool:
    """True for a pipeline, or a calibrated one."""
    return kind(model) == "Pipeline" or (kind(model) == "CalibratedClassifierCV" and _is_piped(calibrated(model)))


def _one_vs_rest(model: Any) -> Linear:
    if model.multilabel_:
        raise FrameError("OneVsRestClassifier has several labels of a record: take a model for each")
    if odd := [one for one in model.estimators_ if _is_piped(one) or not hasattr(one, "classes_")]:
        raise FrameError(
            f"OneVsRestClassifier of {kind(odd[0])} is not taken: put the steps before it, in a Pipeline around the whole"
        )
    rows = [linear(one) for one in model.estimators_]
    # Each is a model of two classes, whose first row is 0.
    weights, bias = np.vstack([row.weights[1] for row in rows]), np.array([row.bias[1] for row in rows])
    return _of_rows(weights, bias, list(model.classes_), "one_vs_rest")
