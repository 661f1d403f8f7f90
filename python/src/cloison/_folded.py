"""A model of scikit-learn that begins with W x + b, with its preprocessing, as weights of columns in their own units.

Each column that reaches the model is `a * f + b` of one feature f: a number of a column of the frame or an increasing
function of it, the position of its category, or 1 where it has one category. The steps of a pipeline change a and b; the
weights of the model, or of the first layer of a perceptron, are then folded onto the features.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pandas as pd

from . import _classifiers, _scales
from ._classifiers import kind as _kind
from ._network import Layers, perceptron, safetensors
from ._scales import Scale
from .errors import FrameError

_MOST_DECIMALS: Final = 6
_MISSING: Final = "missing"
_SAMPLES: Final = 20
# Regressors of w f + b, and of its exponential.
_IDENTITY: Final = frozenset(
    {
        "ARDRegression",
        "BayesianRidge",
        "ElasticNet",
        "ElasticNetCV",
        "HuberRegressor",
        "Lasso",
        "LassoCV",
        "LassoLars",
        "LinearRegression",
        "LinearSVR",
        "QuantileRegressor",
        "Ridge",
        "RidgeCV",
        "SGDRegressor",
        "TheilSenRegressor",
    }
)
_LOG: Final = frozenset({"GammaRegressor", "PoissonRegressor"})


@dataclass
class Column:
    """A column of the frame, with what the steps of the pipeline make of it."""

    name: str
    values: pd.Series[Any]
    missing: float | str | None = None
    categories: list[str] | None = None
    ordinal: bool = False
    scale: Scale | None = None

    @property
    def is_number(self) -> bool:
        """True for a column of numbers or truth values that no step takes for categories."""
        return self.categories is None

    def values_of(self) -> list[float]:
        """The different values, and what a missing one counts as, in their order."""
        values = self.values.dropna().astype("float64")
        filled = [] if self.missing is None else [float(self.missing)]
        return sorted({*values.unique(), *filled})

    def ends(self) -> tuple[float, float]:
        """The scale at the least value, and its width up to the greatest."""
        values = self.values_of()
        if self.scale is None or not values:
            return 0.0, 1.0
        low, high = self.scale.apply(np.array([values[0], values[-1]]))
        return float(low), float(high - low)

    def features(self) -> list[str]:
        """The names of its features, in the order of a schema."""
        if self.categories is None:
            return [self.name, f"{self.name} is missing"] if self.missing is not None else [self.name]
        return [self.name] if self.ordinal else [f"{self.name}={category}" for category in self.categories]

    def raw(self) -> np.ndarray[Any, Any]:
        """The features of every record: in their own units, or normalised if they have a scale. Records × features."""
        gaps = self.values.isna().to_numpy()
        if self.categories is None:
            filled = 0.0 if self.missing is None else float(self.missing)
            numbers = self.values.astype("float64").fillna(filled).to_numpy()
            if self.scale is not None:
                low, width = self.ends()
                # Beside the least value there may be no other.
                numbers = (self.scale.apply(numbers) - low) / (width or 1.0)
            return np.column_stack([numbers, gaps.astype(float)] if self.missing is not None else [numbers])
        places = {category: place for place, category in enumerate(self.categories)}
        texts = [self.missing if gap else text(value) for value, gap in zip(self.values, gaps, strict=True)]
        if unknown := next((one for one in texts if one not in places), None):
            raise FrameError(f"column {self.name!r} has the category {unknown!r}, which the encoder does not know")
        at = np.array([places[str(one)] for one in texts])
        return np.asarray(at[:, None].astype(float) if self.ordinal else np.eye(len(self.categories))[at])


@dataclass
class _Affine:
    """`a * f + b` of a feature, or of a column that no step has encoded yet, on a scale."""

    column: Column
    feature: str
    a: float = 1.0
    b: float = 0.0
    scale: Scale | None = None

    @property
    def raw(self) -> bool:
        untouched = (self.feature, self.a, self.b, self.scale) == (self.column.name, 1.0, 0.0, None)
        return untouched and not self.column.ordinal


@dataclass
class Folded:
    """A model of softmax(W f + b), of one class against the rest each, of a number g⁻¹(w f + b), or a perceptron.

    The first layer of a perceptron is W f + b.

    The features f are those of `columns` in their own units, or normalised where a column has a scale.
    """

    classes: list[str]
    columns: list[Column]
    link: str = "softmax"
    weights: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    bias: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(0))
    layers: Layers | None = None

    @property
    def is_number(self) -> bool:
        """True for a model of a number."""
        return self.link not in {"softmax", "one_vs_rest"}

    def features(self) -> list[str]:
        """The names of all features."""
        return [name for column in self.columns for name in column.features()]

    def matrix(self) -> np.ndarray[Any, Any]:
        """Weights: classes, or units of the first layer, × features."""
        zero = np.zeros(len(self.bias))
        return np.column_stack([self.weights.get(name, zero) for name in self.features()])

    def scores(self, records: Sequence[int] | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The scores of records of the frame, by their positions."""
        logits = self.outputs(self.raw(records))
        if self.is_number:
            return np.asarray(np.exp(logits) if self.link == "log" else logits)
        if self.link == "one_vs_rest":
            # The logarithm of the sigmoid, which does not underflow.
            logits = -np.logaddexp(0.0, -logits)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def outputs(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The logits of records, or the predictor of their numbers, from their features: records × classes."""
        first = rows @ self.matrix().T + self.bias
        return np.asarray(first if self.layers is None else self.layers.outputs(first))

    def raw(self, records: Sequence[int] | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The features of records: records × features."""
        return np.asarray(np.hstack([column.raw() for column in self.columns])[np.asarray(records)])

    def scales(self) -> dict[str, Any]:
        """The scales of the features that have one, and the ranges that they are normalised by."""
        scaled = [(column, column.values_of()) for column in self.columns if column.scale is not None]
        return {
            column.name: {"scale": column.scale.entry(), "min": values[0], "max": values[-1]}
            for column, values in scaled
            if column.scale is not None
        }

    def file(self, scores: np.ndarray[Any, Any]) -> tuple[str, bytes]:
        """Name and content of the parameter file of the whole model, with the scores of the first records as samples."""
        count = min(_SAMPLES, len(scores))
        rows = self.raw(range(count))
        if self.layers is not None:
            first, names = (self.matrix(), self.bias), (self.features(), self.classes)
            samples = (rows, self.outputs(rows))
            return "model.safetensors", safetensors(first, self.layers, names, samples, self.scales())
        content = {
            "schema": 1,
            "link": self.link,
            "class_names": self.classes,
            "feature_names": self.features(),
            "weights": self.matrix().tolist(),
            "bias": self.bias.tolist(),
            "samples": [{"features": rows[n].tolist(), "scores": scores[n].tolist()} for n in range(count)],
        }
        if scales := self.scales():
            content["scales"] = scales
        return "model.json", json.dumps(content).encode()


def text(value: object) -> str:
    """A category as a file has it."""
    return str(value).strip()


def fold(estimator: Any, frame: pd.DataFrame, label: str) -> Folded:
    """Folds a fitted model and its preprocessing onto the columns of a frame; the number of a regressor is called `label`.

    Raises:
        FrameError: A step is not linear in the columns, or it or the model is not known; the message has its name.
    """
    steps, classifier = _steps(estimator)
    wanted = [str(name) for name in getattr(estimator, "feature_names_in_", frame.columns)]
    if missing := [name for name in wanted if name not in frame.columns]:
        raise FrameError(f"the frame has no column {missing[0]!r}, which the model takes")
    columns = {name: Column(name, frame[name]) for name in wanted}
    current = [_Affine(column, name) for name, column in columns.items()]
    for name, step in steps:
        current = _apply(name, step, current)
    weights, bias, classes, link, layers = _head(classifier)
    if weights.shape[1] != len(current):
        raise FrameError(f"the model takes {weights.shape[1]} columns, and {len(current)} reach it")
    names = [label] if classes is None else [text(one) for one in classes]
    model = Folded(names, list(columns.values()), link, bias=bias.copy(), layers=layers)
    _set_scales(current)
    for one, weight in zip(current, weights.T, strict=True):
        if one.raw and one.column.categories is None and not pd.api.types.is_numeric_dtype(one.column.values.dtype):
            raise FrameError(f"column {one.column.name!r} is no number: a step of the pipeline has to encode it")
        low, width = one.column.ends() if one.scale is not None else (0.0, 1.0)
        model.weights[one.feature] = model.weights.get(one.feature, 0.0) + one.a * width * weight
        model.bias = model.bias + (one.a * low + one.b) * weight
    # A column that no step takes has no weight, and is nobody's business.
    model.columns = [column for column in model.columns if any(name in model.weights for name in column.features())]
    for column in model.columns:
        if column.missing is None and column.values.isna().any():
            _fill(column)
        if column.categories is not None and "" in column.categories and column.values.isna().any():
            raise FrameError(
                f"column {column.name!r} has blank text and missing values, which a file does not tell apart: fill one of them"
            )
    return model


def _set_scales(current: list[_Affine]) -> None:
    """Gives each column the scale on which it reaches the model."""
    for name in {one.column.name for one in current}:
        numbers = [one for one in current if one.feature == one.column.name == name]
        if len(scales := {one.scale for one in numbers}) > 1:
            raise FrameError(f"column {name!r} reaches the model on {len(scales)} scales: a feature has one")
        for one in numbers:
            one.column.scale = one.scale


def _fill(column: Column) -> None:
    """Gives a rule to the gaps of a column that no step fills."""
    if column.categories is None:
        column.missing = float(column.values.astype("float64").mean())
        return
    column.missing = _MISSING
    if _MISSING not in column.categories:
        column.categories.append(_MISSING)


def _steps(estimator: Any) -> tuple[list[tuple[str, Any]], Any]:
    """The steps before the model, and the model. Those of a pipeline in a calibration are before it too."""
    if _kind(estimator) == "Pipeline":
        *before, (_, last) = estimator.steps
        nested, classifier = _steps(last)
        return [*before, *nested], classifier
    if _kind(estimator) == "CalibratedClassifierCV":
        return _steps(_classifiers.calibrated(estimator))[0], estimator
    return [], estimator


def _head(
    model: Any,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], list[Any] | None, str, Layers | None]:
    """Weights, bias, classes (None for a number), link and later layers of the last step."""
    kind = _kind(model)
    if (link := _link(kind, model)) is not None:
        return *_number(kind, model), None, link, None
    if kind == "MLPClassifier":
        weights, bias, classes, layers = perceptron(model)
        return weights, bias, classes, "softmax", layers
    found = _classifiers.linear(model)
    return found.weights, found.bias, found.classes, found.link, None


def _link(kind: str, model: Any) -> str | None:
    """The link of a regressor; None for everything else."""
    if kind == "TweedieRegressor" and model.link == "auto":
        return "identity" if model.power <= 0 else "log"
    if kind == "TweedieRegressor":
        return str(model.link)
    return "log" if kind in _LOG else "identity" if kind in _IDENTITY else None


def _number(kind: str, model: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    weights = np.atleast_2d(np.asarray(model.coef_, dtype="float64"))
    bias = np.asarray(model.intercept_, dtype="float64").reshape(-1)
    if weights.shape[0] != 1 or bias.size != 1:
        raise FrameError(f"{kind} predicts {weights.shape[0]} numbers of a record: take a model for each")
    if not np.isfinite(weights).all():
        raise FrameError(f"{kind} has weights that are not finite")
    return weights, bias


def _apply(name: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    kind = _kind(step)
    # A ColumnTransformer puts a function that changes nothing where columns pass through.
    if (
        step is None
        or (isinstance(step, str) and step == "passthrough")
        or (kind == "FunctionTransformer" and step.func is None)
    ):
        return current
    if kind == "Pipeline":
        for inner, one in step.steps:
            current = _apply(f"{name}, {inner}", one, current)
        return current
    if kind == "ColumnTransformer":
        return _columns(name, step, current)
    taken = _TAKEN.get(kind)
    if taken is None:
        known = ", ".join(sorted([*_TAKEN, "ColumnTransformer", "Pipeline"]))
        raise FrameError(f"step {name!r} ({kind}) is not linear in the columns, or not known; known are {known}")
    return taken(name, step, current)


def _columns(name: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    names = [one.column.name for one in current]
    made: list[_Affine] = []
    for inner, transformer, chosen in step.transformers_:
        if isinstance(transformer, str) and transformer == "drop":
            continue
        held = [replace(current[place]) for place in _places(names, chosen)]
        if not held:
            continue
        made += _apply(f"{name}, {inner}", transformer, held)
    return made


def _places(names: list[str], chosen: Any) -> list[int]:
    """The places of the columns that a ColumnTransformer names."""
    if isinstance(chosen, slice):
        ends = [names.index(end) if isinstance(end, str) else end for end in (chosen.start, chosen.stop)]
        last = ends[1] + 1 if isinstance(chosen.stop, str) else ends[1]
        return list(range(len(names)))[slice(ends[0], last, chosen.step)]
    listed = [chosen] if isinstance(chosen, str | int) else list(chosen)
    if listed and all(isinstance(one, bool | np.bool_) for one in listed):
        return [place for place, held in enumerate(listed) if held]
    return [names.index(one) if isinstance(one, str) else range(len(names))[int(one)] for one in listed]


def _standard(_: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    count = len(current)
    mean = np.zeros(count) if step.mean_ is None or not step.with_mean else step.mean_
    scale = np.ones(count) if step.scale_ is None else step.scale_
    for one, centre, unit in zip(current, mean, scale, strict=True):
        one.a, one.b = one.a / unit, (one.b - centre) / unit
    return current


def _robust(_: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    count = len(current)
    centres = np.zeros(count) if step.center_ is None else step.center_
    units = np.ones(count) if step.scale_ is None else step.scale_
    for one, centre, unit in zip(current, centres, units, strict=True):
        one.a, one.b = one.a / unit, (one.b - centre) / unit
    return current


def _min_max(name: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    if step.clip:
        raise FrameError(f"step {name!r} (MinMaxScaler) clips, which is not linear: take clip=False")
    for one, unit, least in zip(current, step.scale_, step.min_, strict=True):
        one.a, one.b = one.a * unit, one.b * unit + least
    return current


def _max_abs(_: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    for one, unit in zip(current, step.scale_, strict=True):
        one.a, one.b = one.a / unit, one.b / unit
    return current


def _impute(name: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    indicators: list[_Affine] = []
    marked = set(step.indicator_.features_.tolist()) if step.add_indicator and step.indicator_ is not None else set()
    for place, (one, value) in enumerate(zip(current, step.statistics_, strict=True)):
        column = one.column
        if one.feature != column.name or column.categories is not None or one.scale is not None:
            behind = "an encoder" if one.scale is None else "a PowerTransformer or a logarithm"
            raise FrameError(f"step {name!r} (SimpleImputer) stands behind {behind}: put it before")
        if isinstance(value, float | int | np.number) and not isinstance(value, bool):
            if math.isnan(float(value)):
                raise FrameError(f"step {name!r} (SimpleImputer): column {column.name!r} has no value at all")
            column.missing = (float(value) - one.b) / one.a
        else:
            column.missing = text(value)
        if place in marked:
            indicators.append(_Affine(column, f"{column.name} is missing"))
    return current + indicators


def _one_hot(name: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    if getattr(step, "_infrequent_enabled", False):
        raise FrameError(
            f"step {name!r} (OneHotEncoder) joins rare categories, which no schema says: join them in the frame"
        )
    made: list[_Affine] = []
    dropped = [None] * len(current) if step.drop_idx_ is None else list(step.drop_idx_)
    for one, categories, drop in zip(current, step.categories_, dropped, strict=True):
        _categories(name, one, categories)
        for place, category in enumerate(one.column.categories or []):
            if place != drop and place < len(categories):
                made.append(_Affine(one.column, f"{one.column.name}={category}"))
    return made


def _ordinal(name: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    for one, categories in zip(current, step.categories_, strict=True):
        _categories(name, one, categories)
        if one.column.missing == _MISSING:
            raise FrameError(f"step {name!r} (OrdinalEncoder): fill the gaps of {one.column.name!r} before")
        one.column.ordinal = True
    return current


def _power(name: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    for one, (scale, factor, shift) in zip(current, _scales.powers(name, step), strict=True):
        if scale is not None:
            _rescale(name, one, scale)
        one.a, one.b = one.a * factor, one.b * factor + shift
    return current


def _function(name: str, step: Any, current: list[_Affine]) -> list[_Affine]:
    scale = _scales.of_function(name, step)
    for one in current:
        if (
            scale == _scales.LOG_OF_ONE_MORE
            and one.column.is_number
            and (one.column.values.astype("float64") < 0).any()
        ):
            raise FrameError(
                f"step {name!r}: column {one.column.name!r} is below 0, where log1p is no scale of a feature"
            )
        _rescale(name, one, scale)
    return current


def _rescale(name: str, one: _Affine, scale: Scale) -> None:
    """Puts a column on a scale."""
    column = one.column
    mark = one.feature != column.name
    number = column.categories is None and pd.api.types.is_numeric_dtype(column.values.dtype)
    if (one.a, one.b, one.scale) != (1.0, 0.0, None) or not (mark or number):
        raise FrameError(
            f"step {name!r} takes column {column.name!r} after another step, or as text: a power or a logarithm of numbers comes first"
        )
    truths = number and set(column.values.dropna().unique()) == {0, 1} and column.missing in {None, 0.0, 1.0}
    if scale.function == "yeo_johnson" and (mark or truths):
        # Of 0 and 1 every function is linear, and this one leaves 0 where it is.
        one.a = float(scale.apply(np.ones(1))[0])
        return
    one.scale = scale


def _categories(name: str, one: _Affine, categories: Any) -> None:
    column = one.column
    if not one.raw or column.categories is not None:
        raise FrameError(f"step {name!r} takes column {column.name!r} after another step: encoders come first")
    texts = [_MISSING if pd.isna(category) else text(category) for category in categories]
    if len(set(texts)) < len(texts):
        raise FrameError(f"column {column.name!r} has two categories that are written alike")
    if any(pd.isna(category) for category in categories):
        column.missing = _MISSING
    elif isinstance(column.missing, float):
        # The imputer's number is one of the categories, as the encoder writes it.
        same = [written for written, category in zip(texts, categories, strict=True) if category == column.missing]
        column.missing = same[0] if same else text(column.missing)
    if isinstance(column.missing, str) and column.missing not in texts:
        texts.append(column.missing)
    column.categories = texts


_TAKEN: Final[dict[str, Callable[[str, Any, list[_Affine]], list[_Affine]]]] = {
    "FunctionTransformer": _function,
    "MaxAbsScaler": _max_abs,
    "MinMaxScaler": _min_max,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "PowerTransformer": _power,
    "RobustScaler": _robust,
    "SimpleImputer": _impute,
    "StandardScaler": _standard,
}


def schema(column: Column) -> dict[str, Any]:
    """The entry of a column in a schema: kind, range and step, as its values show them."""
    entry: dict[str, Any] = {"name": column.name}
    if column.categories is not None:
        entry |= {"kind": "ordinal" if column.ordinal else "categorical", "categories": column.categories}
        return entry if column.missing is None else entry | {"missing": column.missing}
    different = column.values_of()
    if not different or not all(math.isfinite(value) for value in different):
        raise FrameError(f"column {column.name!r} has no finite value, or an infinite one")
    low, high = different[0], different[-1]
    entry |= {"kind": "numeric", "min": low, "max": high}
    if column.scale is not None:
        entry["scale"] = column.scale.entry()
    if different == [0.0, 1.0] and column.scale is None:
        entry["kind"] = "binary"
    elif (step := _step(different)) is not None:
        entry["step"] = step
    return entry if column.missing is None else entry | {"missing": float(column.missing)}


def _step(values: list[float]) -> float | None:
    """The unit of the last decimal of all values, if they have few decimals."""
    decimals = 0
    for value in values:
        exponent = Decimal(repr(float(value))).normalize().as_tuple().exponent
        decimals = max(decimals, -exponent if isinstance(exponent, int) else 0)
        if decimals > _MOST_DECIMALS:
            return None
    step = 10.0**-decimals
    return step if values[0] < values[-1] and (values[-1] - values[0]) / step < 2**40 else None
