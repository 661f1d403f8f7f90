"""A model in a file of ONNX, as an estimator: its answers, and its weights where it is W x + b or a perceptron.

Needs the package onnx (the extra `onnx`), whose reference evaluator gives the answers. Nothing in a file is run but the operators of ONNX.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ._folded import Column, Folded, text
from ._network import Layers
from .errors import FrameError

_MOST_BYTES: Final = 256 << 20
_MOST_COLUMNS: Final = 4096
_BINARY: Final = 2
_SHIFTED: Final = "1 + Exp"
_NAME_CLASSES: Final = (
    "put a JSON list of the classes, in the order of the outputs, into its metadata under the key class_names "
    "(onnx.helper.set_model_props)"
)
_MATRIX: Final = 2
# How far scores of a record in single precision are from a sum of 1.
_NOT_ONE: Final = 1e-3
_ACTIVATIONS: Final = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}
# They leave the values as they are: a Cast to numbers with decimals, a Reshape to rows of the same length.
_PASSED: Final = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze"})
_FLOATS: Final = frozenset({1, 11})
_LINEAR: Final = frozenset({"Add", "Div", "Gemm", "LinearClassifier", "MatMul", "Mul", "Sub"})


def load(path: str | os.PathLike[str]) -> Any:
    """A model in a file, with the methods of an estimator.

    Raises:
        FrameError: It cannot be read, or has no output of scores or of a number.
    """
    try:
        import onnx  # noqa: PLC0415
    except ImportError as error:
        raise FrameError("a file of ONNX takes the package onnx: pip install 'cloison[onnx]'") from error
    place = Path(path)
    try:
        if place.stat().st_size > _MOST_BYTES:
            raise FrameError(f"{place} has more than {_MOST_BYTES} bytes")
        model = onnx.load_model(place, load_external_data=False)
        if any(one.data_location == onnx.TensorProto.EXTERNAL for one in model.graph.initializer):
            raise FrameError(f"{place} has its weights in another file: save it with its weights inside")
        onnx.checker.check_model(model)
    except OSError as error:
        raise FrameError(f"cannot read {place}: {error.strerror}") from error
    except FrameError:
        raise
    except Exception as error:
        raise FrameError(f"{place} is no model of ONNX that can be used: {type(error).__name__}") from error
    graph = _Graph(model, str(place))
    return OnnxRegressor(graph) if graph.is_number else OnnxClassifier(graph)


class Onnx:
    """A model in a file."""

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph

    def _run(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        return self._graph.run(frame)

    @property
    def feature_names_in_(self) -> list[str]:
        """The columns that the model takes, in its order."""
        return self._graph.names

    def folded(self, frame: pd.DataFrame, label: str) -> Folded:
        """The weights of the model on the columns of a frame.

        Raises:
            FrameError: An operator is not linear, and no layer of a perceptron.
        """
        return self._graph.fold(frame, label)


class OnnxClassifier(Onnx):
    """A model of classes."""

    @property
    def classes_(self) -> list[str]:
        """The names of the classes.

        Raises:
            FrameError: The file does not have them.
        """
        return self._graph.named_classes()

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """The scores of records: records × classes.

        Raises:
            FrameError: What the file gives are no scores that add up to 1, and no logits.
        """
        found, end = self._run(frame), self._graph.end()
        if found.shape[1] == 1 and end == "Sigmoid":
            found = np.column_stack([1.0 - found, found])
        elif found.shape[1] > 1 and self._graph.ends_with_logits() and not _add_up(found):
            # Logits, as networks for a loss of logits end with.
            powers = np.exp(found - found.max(axis=1, keepdims=True))
            found = powers / powers.sum(axis=1, keepdims=True)
        if found.shape[1] == 1 or not _add_up(found):
            raise FrameError(
                f"{self._graph.path} ends with {end}, and its outputs are no scores of classes that add up to 1"
            )
        if found.shape[1] != len(self.classes_):
            raise FrameError(f"{self._graph.path} names {len(self.classes_)} classes and gives {found.shape[1]} scores")
        return np.asarray(found, dtype="float64")


class OnnxRegressor(Onnx):
    """A model of a number."""

    def predict(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """The number of each record.

        Raises:
            FrameError: The file gives several outputs, and names no classes.
        """
        found = self._run(frame)
        if found.shape[1] != 1:
            raise FrameError(f"{self._graph.path} gives {found.shape[1]} outputs: {_NAME_CLASSES}")
        return np.asarray(found[:, 0], dtype="float64")


@dataclass
class _Form:
    """Layers of `W a + b` of the layer before, the first one of the features: W is outputs × inputs."""

    layers: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]
    activation: str | None = None
    end: str = ""

    @property
    def width(self) -> int:
        return len(self.layers[-1][1])

    def mapped(self, weights: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]) -> _Form:
        """`weights · outputs + bias`."""
        form = self.inner()
        last, above = form.layers[-1]
        return replace(form, layers=[*form.layers[:-1], (weights @ last, weights @ above + bias)])

    def inner(self) -> _Form:
        """The same, where another operator follows: a Sigmoid was an activation then."""
        if self.end and self.end != "Sigmoid":
            raise FrameError(f"an operator follows {self.end}, which ends a model here")
        return self.activated("sigmoid") if self.end else self

    def activated(self, activation: str) -> _Form:
        """The activation of the outputs, and a layer that changes nothing."""
        if self.activation not in {None, activation}:
            raise FrameError("the layers have different activations: a perceptron has one")
        unit = (np.eye(self.width), np.zeros(self.width))
        return replace(self, end="", activation=activation, layers=[*self.layers, unit])


@dataclass
class _Graph:
    """The graph of a model."""

    model: Any
    path: str
    output: str = ""
    is_number: bool = False
    names: list[str] = field(default_factory=list)
    classes: list[Any] | None = None
    _made: dict[str, Any] = field(default_factory=dict)
    _constants: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    _inputs: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        from onnx import numpy_helper  # noqa: PLC0415

        graph = self.model.graph
        self._constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        self._made = {name: node for node in graph.node for name in node.output}
        outputs = [one for one in graph.output if not self._is_label(one)]
        if len(outputs) != 1:
            raise FrameError(f"{self.path} has {len(outputs)} outputs that may be scores: give a model with one")
        self.output = self._before_map(outputs[0].name)
        self._inputs = [one for one in graph.input if one.name not in self._constants]
        for one in self._inputs:
            if one.type.tensor_type.elem_type not in _FLOATS:
                raise FrameError(
                    f"{self.path}: the input {one.name!r} is not one of numbers with decimals: encode texts in the frame, and convert "
                    "the model from a frame of float32"
                )
        stated = {one.key: one.value for one in self.model.metadata_props}
        self.names = self._column_names(stated)
        self.classes = self._class_names(stated)
        self.is_number = self.classes is None and self.end() not in {"Sigmoid", "Softmax"} and _shape(outputs[0]) <= 1

    def _column_names(self, stated: dict[str, str]) -> list[str]:
        if len(self._inputs) > 1:
            return [one.name for one in self._inputs]
        if "feature_names" in stated:
            return _listed(stated["feature_names"], "feature_names", self.path)
        if self._inputs and _shape(self._inputs[0]) == 1:
            return [self._inputs[0].name]
        raise FrameError(
            f"{self.path} takes a tensor and does not name its columns: put a JSON list of them, in their order, into its metadata under "
            "the key feature_names (onnx.helper.set_model_props)"
        )

    def end(self) -> str:
        """The operator that makes the output."""
        node = self._last()
        return str(node.op_type) if node is not None else ""

    def _last(self) -> Any:
        node = self._made.get(self.output)
        while node is not None and node.op_type in _PASSED:
            node = self._made.get(node.input[0])
        return node

    def ends_with_logits(self) -> bool:
        """True if the last operator is linear."""
        node = self._last()
        if node is None or node.op_type not in _LINEAR:
            return False
        if node.op_type == "LinearClassifier":
            return bool(_attributes(node).get("post_transform", b"NONE") == b"NONE")
        return node.op_type == "Gemm" or any(one in self._constants for one in node.input)

    def _is_label(self, output: Any) -> bool:
        kind = output.type.tensor_type.elem_type
        return output.type.HasField("tensor_type") and kind not in _FLOATS

    def _before_map(self, name: str) -> str:
        node = self._made.get(name)
        return str(node.input[0]) if node is not None and node.op_type == "ZipMap" else name

    def _class_names(self, stated: dict[str, str]) -> list[Any] | None:
        if "class_names" in stated:
            return list(_listed(stated["class_names"], "class_names", self.path))
        made = {self.output, *self.ancestors(self.output)}
        # The nearest to the output: a classifier may stand on others.
        for node in reversed(self.model.graph.node):
            if not made.intersection(node.output):
                continue
            found = _attributes(node)
            for key in ("classlabels_strings", "classlabels_int64s", "classlabels_ints"):
                if key in found:
                    return [one.decode() if isinstance(one, bytes) else one for one in found[key]]
        for node in self.model.graph.node:
            # The label is taken from a list at the place of the largest score.
            if node.op_type == "ArrayFeatureExtractor" and node.input[0] in self._constants:
                place = self._made.get(node.input[1])
                if place is not None and place.op_type == "ArgMax" and place.input[0] in made:
                    return list(self._constants[node.input[0]].reshape(-1).tolist())
        return None

    def named_classes(self) -> list[str]:
        if self.classes is None:
            raise FrameError(f"{self.path} does not name its classes: {_NAME_CLASSES}")
        return [text(one.decode() if isinstance(one, bytes) else one) for one in self.classes]

    def columns(self, frame: pd.DataFrame) -> list[str]:
        """The columns of a frame that the model takes, in its order."""
        if missing := [name for name in self.names if name not in frame.columns]:
            raise FrameError(f"the frame has no column {missing[0]!r}, which the model takes")
        if frame.empty:
            raise FrameError("the frame has no record")
        if wrong := [name for name in self.names if not pd.api.types.is_numeric_dtype(frame[name].dtype)]:
            raise FrameError(f"column {wrong[0]!r} is no number: a step of the pipeline has to encode it")
        return self.names

    def run(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """The outputs of records, as the reference evaluator of ONNX computes them: records × outputs."""
        from onnx import helper  # noqa: PLC0415
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415

        names = self.columns(frame)
        kinds = [helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type) for one in self._inputs]
        try:
            if len(self._inputs) == 1:
                fed = {self._inputs[0].name: frame[names].to_numpy(dtype=kinds[0])}
            else:
                fed = {name: frame[[name]].to_numpy(dtype=kind) for name, kind in zip(names, kinds, strict=True)}
            with np.errstate(all="ignore"):
                (found,) = ReferenceEvaluator(self._to_output()).run([self.output], fed)
            rows = np.asarray(found, dtype="float64").reshape(len(frame), -1)
        except Exception as error:
            raise FrameError(
                f"{self.path} gives no answer for the records of the frame: {type(error).__name__}"
            ) from error
        if not np.isfinite(rows).all():
            raise FrameError(f"{self.path} gives outputs that are not finite for records of the frame")
        return rows

    def _to_output(self) -> Any:
        """The model with the operators alone that make the output: its label is nobody's business."""
        from onnx import TensorProto, helper  # noqa: PLC0415

        needed = {self.output, *self.ancestors(self.output)}
        model = type(self.model)()
        model.CopyFrom(self.model)
        nodes = [node for node in model.graph.node if needed.intersection(node.output)]
        del model.graph.node[:], model.graph.output[:]
        model.graph.node.extend(nodes)
        model.graph.output.append(helper.make_tensor_value_info(self.output, TensorProto.FLOAT, None))
        return model

    def ancestors(self, name: str) -> set[str]:
        """All values that a value is made of."""
        found: set[str] = set()
        rest = [name]
        while rest:
            node = self._made.get(rest.pop())
            new = [one for one in node.input if one not in found] if node is not None else []
            found.update(new)
            rest += new
        return found

    def fold(self, frame: pd.DataFrame, label: str) -> Folded:
        """The weights on the columns of a frame."""
        names = self.columns(frame)
        columns = {name: Column(name, frame[name]) for name in names}
        try:
            form = _Resolver(self, columns, len(self._inputs) > 1).form(self.output)
        except RecursionError as error:
            raise FrameError(f"{self.path} has more operators in a row than are followed") from error
        except (IndexError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, FrameError):
                raise
            raise FrameError(f"an operator of {self.path} has shapes that do not fit: {error}") from error
        if not all(np.isfinite(block).all() for layer in form.layers for block in layer):
            raise FrameError(f"{self.path} has weights that are not finite")
        form, classes, link = self._head(form, label)
        (first, bias), *later = form.layers
        layers = Layers(form.activation, later) if form.activation is not None else None
        model = Folded(classes, list(columns.values()), link, bias=bias.copy(), layers=layers)
        model.weights = dict(zip(names, first.T, strict=True))
        for column in model.columns:
            if column.missing is None and column.values.isna().any():
                raise FrameError(f"column {column.name!r} has gaps, which no Imputer of the model fills")
        return model

    def _head(self, form: _Form, label: str) -> tuple[_Form, list[str], str]:
        """The layers with an output for each class, or one for the number; the names of the outputs, and the link."""
        if form.end in {"", "Exp"} and form.width == 1 and self.classes is None:
            if form.layers[1:]:
                raise FrameError(f"{self.path} is a network of a number: models of a number are linear ones")
            return form, [label], "log" if form.end == "Exp" else "identity"
        if form.end == "Exp":
            raise FrameError(f"{self.path} ends with an Exp of classes")
        classes = self.named_classes()
        if form.width == 1:
            if form.end != "Sigmoid":
                raise FrameError(f"{self.path} ends with one number of {len(classes)} classes, and with no Sigmoid")
            # One output is the difference of two classes.
            weights, bias = form.layers[-1]
            pair = (np.vstack([np.zeros_like(weights), weights]), np.concatenate([[0.0], bias]))
            form = replace(form, layers=[*form.layers[:-1], pair])
        elif form.end == "Sigmoid":
            raise FrameError(f"{self.path} ends with a Sigmoid of each class, which do not add up to 1")
        if len(classes) != form.width:
            raise FrameError(f"{self.path} names {len(classes)} classes and has {form.width} outputs")
        return form, classes, "one_vs_rest" if form.end == "Normalizer" else "softmax"


@dataclass
class _Resolver:
    """Follows the operators from an output back to the features."""

    graph: _Graph
    columns: dict[str, Column]
    named: bool
    found: dict[str, _Form] = field(default_factory=dict)

    def form(self, name: str) -> _Form:
        """What a value is of the features; each is followed once, so that a small file makes no long work."""
        if name not in self.found:
            self.found[name] = self._form(name)
            if self.found[name].width > _MOST_COLUMNS:
                raise FrameError(f"{self.graph.path} has a value of more than {_MOST_COLUMNS} columns")
        return self.found[name]

    def _form(self, name: str) -> _Form:
        node = self.graph._made.get(name)
        if node is None:
            return self._input(name)
        kind, given = node.op_type, _attributes(node)
        if kind in _PASSED:
            return self._passed(node, given)
        if kind in _ACTIVATIONS or kind in {"Exp", "Normalizer", "Reciprocal", "Softmax"}:
            return self._function(kind, self.form(node.input[0]), given)
        taken = {
            "Add": self._arithmetic,
            "ArrayFeatureExtractor": self._selected,
            "Concat": self._together,
            "Div": self._arithmetic,
            "FeatureVectorizer": self._together,
            "Gather": self._selected,
            "Gemm": self._product,
            "Imputer": self._imputed,
            "LinearClassifier": self._classifier,
            "LinearRegressor": self._regressor,
            "MatMul": self._product,
            "Mul": self._arithmetic,
            "Scaler": self._scaled,
            "Sub": self._arithmetic,
        }.get(kind)
        if taken is None:
            raise FrameError(f"the operator {kind} of {self.graph.path} is not linear, and no layer of a perceptron")
        return taken(node, given)

    def _passed(self, node: Any, given: dict[str, Any]) -> _Form:
        form = self.form(node.input[0])
        shape = self._constant(node.input[1]) if node.op_type == "Reshape" else None
        kept = shape is not None and shape.tolist() in ([-1, form.width], [0, form.width], [0, -1], [-1] * form.width)
        whole = {
            "Cast": given.get("to") in _FLOATS,
            "Flatten": given.get("axis", 1) == 1,
            "Identity": True,
            "Reshape": kept,
            "Squeeze": form.width == 1,
        }
        if not whole[node.op_type]:
            raise FrameError(f"a {node.op_type} of {self.graph.path} changes its values or their order")
        return form

    def _input(self, name: str) -> _Form:
        if name in self.graph._constants:
            raise FrameError(f"{self.graph.path}: the constant {name!r} stands where features are expected")
        whole = np.eye(len(self.columns))
        rows = whole[[list(self.columns).index(name)]] if self.named else whole
        return _Form([(rows, np.zeros(len(rows)))])

    def _constant(self, name: str) -> np.ndarray[Any, Any] | None:
        """The value of a constant, which a Cast or a Constant may have made."""
        if name in self.graph._constants:
            return np.asarray(self.graph._constants[name], dtype="float64")
        node = self.graph._made.get(name)
        if node is not None and node.op_type == "Constant":
            from onnx import numpy_helper  # noqa: PLC0415

            value = _attributes(node).get("value")
            return None if value is None else np.asarray(numpy_helper.to_array(value), dtype="float64")
        if node is not None and node.op_type == "Cast" and _attributes(node).get("to") in _FLOATS:
            return self._constant(node.input[0])
        return None

    def _function(self, kind: str, form: _Form, given: dict[str, Any]) -> _Form:
        if kind == "Normalizer":
            if given.get("norm") != b"L1" or form.end not in {"Sigmoid", "Softmax"}:
                raise FrameError("a Normalizer of something else than scores is not taken")
            # Scores of a softmax add up to 1 already.
            return form if form.end == "Softmax" else replace(form, end="Normalizer")
        if kind == "Reciprocal":
            if form.end != _SHIFTED:
                raise FrameError("a Reciprocal of something else than 1 + exp is not taken")
            return replace(replace(form, end="").mapped(-np.eye(form.width), np.zeros(form.width)), end="Sigmoid")
        if kind in {"Exp", "Sigmoid", "Softmax"}:
            return replace(form.inner(), end=kind)
        return form.inner().activated(_ACTIVATIONS[kind])

    def _arithmetic(self, node: Any, _: dict[str, Any]) -> _Form:
        left, right = (self._constant(name) for name in node.input)
        if node.op_type == "Div" and left is None and right is None:
            return self._divided_by_sum(node)
        if (left is None) == (right is None):
            raise FrameError(f"{node.op_type} of two values of the features is not linear in a way that is known")
        form = self.form(node.input[0] if left is None else node.input[1])
        number = np.asarray(right if left is None else left)
        try:
            values = np.broadcast_to(number.reshape(-1) if number.ndim else number, (form.width,))
        except ValueError as error:
            raise FrameError(f"{node.op_type} with a constant of another width") from error
        if node.op_type == "Add" and form.end == "Exp" and (values == 1).all():
            return replace(form, end=_SHIFTED)
        unit, zero = np.eye(form.width), np.zeros(form.width)
        match node.op_type:
            case "Add":
                return form.mapped(unit, values)
            case "Sub":
                return form.mapped(unit, -values) if left is None else form.mapped(-unit, values)
            case "Mul":
                return form.mapped(np.diag(values), zero)
        if left is not None:
            raise FrameError("a constant divided by features is not linear")
        return form.mapped(np.diag(1.0 / values), zero)

    def _divided_by_sum(self, node: Any) -> _Form:
        """Sigmoids divided by their sum, as skl2onnx writes it: where the sum is 0, both have something added."""
        above, below = ({name, *self.graph.ancestors(name)} for name in node.input)
        sums = [self.graph._made[name] for name in below if self._operator(name) == "ReduceSum"]
        for one in sums:
            if one.input[0] in above and (form := self.form(one.input[0])).end == "Sigmoid":
                return replace(form, end="Normalizer")
        raise FrameError("Div of two values of the features is not linear in a way that is known")

    def _operator(self, name: str) -> str:
        node = self.graph._made.get(name)
        return "" if node is None else str(node.op_type)

    def _product(self, node: Any, given: dict[str, Any]) -> _Form:
        weights = self._constant(node.input[1])
        if weights is not None and weights.ndim == 1:
            weights = weights[:, None]
        if weights is None or weights.ndim != _MATRIX or given.get("transA", 0):
            raise FrameError(f"{node.op_type} of two values of the features is not linear")
        form = self.form(node.input[0])
        rows = weights if given.get("transB", 0) else weights.T
        rows = rows * float(given.get("alpha", 1.0))
        bias = np.zeros(len(rows))
        for name in filter(None, node.input[2:]):
            added = self._constant(name)
            if added is None:
                raise FrameError("Gemm adds something that is no constant")
            bias = bias + float(given.get("beta", 1.0)) * added.reshape(-1)
        if rows.shape[1] != form.width:
            raise FrameError(f"{node.op_type} takes {rows.shape[1]} values and gets {form.width}")
        return form.mapped(rows, bias)

    def _selected(self, node: Any, given: dict[str, Any]) -> _Form:
        places = self._constant(node.input[1])
        if places is None or given.get("axis", 1) not in {1, -1} or places.size > _MOST_COLUMNS:
            raise FrameError(f"{node.op_type} by something that is no constant, or by too many places")
        form = self.form(node.input[0]).inner()
        last, above = form.layers[-1]
        at = places.reshape(-1).astype(int)
        return replace(form, layers=[*form.layers[:-1], (last[at], above[at])])

    def _together(self, node: Any, given: dict[str, Any]) -> _Form:
        first, *others = node.input
        one_less = self._operator(first) == "Sub" and list(self.graph._made[first].input[1:]) == others
        parts = [self.form(name) for name in (others if one_less else node.input)]
        if one_less and parts[0].end == "Sigmoid" and parts[0].width == 1:
            # The scores of both classes.
            return parts[0]
        if given.get("axis", 1) not in {1, -1} or any(part.inner().layers[1:] for part in parts):
            raise FrameError(f"{node.op_type} behind an activation is not taken")
        weights, bias = (np.concatenate([part.layers[0][at] for part in parts]) for at in (0, 1))
        return _Form([(weights, bias)])

    def _scaled(self, node: Any, given: dict[str, Any]) -> _Form:
        form = self.form(node.input[0])
        offset, scale = (
            np.broadcast_to(np.asarray(given.get(key, [default])), (form.width,))
            for key, default in (("offset", 0.0), ("scale", 1.0))
        )
        return form.mapped(np.diag(scale), -offset * scale)

    def _imputed(self, node: Any, given: dict[str, Any]) -> _Form:
        form = self.form(node.input[0])
        values = given.get("imputed_value_floats")
        # Without the attribute the replaced value is 0.
        if values is None or not np.isnan(given.get("replaced_value_float", 0.0)):
            raise FrameError("an Imputer of something else than NaN is not taken")
        weights, bias = form.layers[0]
        raw = len(form.layers) == 1 and ((weights == 0) | (weights == 1)).all() and (weights.sum(axis=1) == 1).all()
        if not raw or bias.any():
            raise FrameError("an Imputer stands behind another operator: put it first")
        names = list(self.columns)
        for row, value in zip(weights, np.broadcast_to(np.asarray(values), (form.width,)), strict=True):
            self.columns[names[int(row.argmax())]].missing = float(value)
        return form

    def _classifier(self, node: Any, given: dict[str, Any]) -> _Form:
        form = self.form(node.input[0])
        rows = np.asarray(given["coefficients"], dtype="float64").reshape(-1, form.width)
        bias = np.asarray(given.get("intercepts", [0.0] * len(rows)), dtype="float64")
        found, after = form.mapped(rows, bias), given.get("post_transform", b"NONE")
        if after == b"SOFTMAX":
            return replace(found, end="Softmax")
        if after == b"LOGISTIC":
            if len(rows) == _BINARY and np.allclose(rows[0], -rows[1]) and np.isclose(bias[0], -bias[1]):
                # Sigmoids of w f and -w f are the softmax of 0 and w f.
                return replace(form.mapped(rows[1:], bias[1:]), end="Sigmoid")
            return replace(found, end="Sigmoid")
        if after == b"NONE":
            return found
        raise FrameError(f"a LinearClassifier with {after.decode()} is not taken")

    def _regressor(self, node: Any, given: dict[str, Any]) -> _Form:
        form = self.form(node.input[0])
        if given.get("post_transform", b"NONE") != b"NONE":
            raise FrameError("a LinearRegressor with a transform is not taken")
        rows = np.asarray(given["coefficients"], dtype="float64").reshape(-1, form.width)
        return form.mapped(rows, np.asarray(given.get("intercepts", [0.0] * len(rows)), dtype="float64"))


def _add_up(rows: np.ndarray[Any, Any]) -> bool:
    """True if the numbers of each record are not negative and add up to 1."""
    return not (rows < 0).any() and bool(np.abs(rows.sum(axis=1) - 1.0).max(initial=0.0) <= _NOT_ONE)


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper  # noqa: PLC0415

    return {one.name: helper.get_attribute_value(one) for one in node.attribute}


def _shape(value: Any) -> int:
    """The number of columns that an input or an output states; 0 for none."""
    if not value.type.HasField("tensor_type"):
        return 0
    sizes = value.type.tensor_type.shape.dim
    return int(sizes[-1].dim_value) if len(sizes) > 1 else 1 if len(sizes) == 1 else 0


def _listed(value: str, key: str, path: str) -> list[str]:
    try:
        names = json.loads(value)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise FrameError(f"{path}: {key} in its metadata is no JSON list of names")
    return names
