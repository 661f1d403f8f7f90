"""A perceptron of scikit-learn: its layers, and the file in which `cloison` takes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .errors import FrameError

_ACTIVATIONS: Final = {"logistic": "sigmoid", "relu": "relu", "tanh": "tanh"}


@dataclass
class Layers:
    """The layers behind the first one, each `W a + b` of the activation of the layer before: W is outputs × inputs."""

    activation: str
    later: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]

    def outputs(self, first: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The outputs of records, from those of the first layer: records × outputs."""
        values = first
        for weights, bias in self.later:
            values = self._activated(values) @ weights.T + bias
        return values

    def _activated(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if self.activation == "relu":
            return np.asarray(np.maximum(values, 0.0))
        if self.activation == "tanh":
            return np.asarray(np.tanh(values))
        # A sigmoid that does not overflow.
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))


def perceptron(model: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], list[Any], Layers | None]:
    """Weights (units × columns) and bias of the first layer of an MLPClassifier, its classes, and the other layers.

    Without an activation a perceptron is linear: then its outputs are those of the first layer.

    Raises:
        FrameError: It has several labels of a record, or weights that are not finite.
    """
    if model.out_activation_ == "logistic" and model.n_outputs_ > 1:
        raise FrameError("MLPClassifier has several labels of a record: take a model for each")
    layers = [
        (np.asarray(weights, dtype="float64").T, np.asarray(bias, dtype="float64"))
        for weights, bias in zip(model.coefs_, model.intercepts_, strict=True)
    ]
    if not all(np.isfinite(block).all() for layer in layers for block in layer):
        raise FrameError("MLPClassifier has weights that are not finite")
    if model.n_outputs_ == 1:
        # One output is the difference of two classes.
        weights, bias = layers[-1]
        layers[-1] = (np.vstack([np.zeros_like(weights), weights]), np.concatenate([[0.0], bias]))
    (first, bias), *later = layers
    if later and model.activation != "identity":
        return first, bias, list(model.classes_), Layers(_ACTIVATIONS[model.activation], later)
    for weights, above in later:
        first, bias = weights @ first, weights @ bias + above
    return first, bias, list(model.classes_), None


def safetensors(
    first: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]],
    layers: Layers,
    names: tuple[Sequence[str], Sequence[str]],
    samples: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]],
    scales: dict[str, Any],
) -> bytes:
    """The file of a perceptron: the names of its features and classes, records with its outputs for them, and scales of features."""
    features, classes = names
    records = [{"features": one.tolist(), "outputs": outputs.tolist()} for one, outputs in zip(*samples, strict=True)]
    metadata = {
        "kind": "mlp",
        "settings": json.dumps({"activation": layers.activation}),
        "feature_names": json.dumps(list(features)),
        "class_names": json.dumps(list(classes)),
        "samples": json.dumps(records),
    }
    if scales:
        metadata["scales"] = json.dumps(scales)
    header: dict[str, Any] = {"__metadata__": metadata}
    content = b""
    for at, (weights, bias) in enumerate([first, *layers.later]):
        for name, block in (("weight", weights), ("bias", bias)):
            values = np.ascontiguousarray(block, dtype="<f8").tobytes()
            place = [len(content), len(content) + len(values)]
            header[f"{2 * at}.{name}"] = {"dtype": "F64", "shape": list(block.shape), "data_offsets": place}
            content += values
    text = json.dumps(header).encode()
    # Numbers start at a multiple of their size.
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content
