"""Attacks on a case, without any service: `active-party attack` with arrays in and out."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from . import _binary
from .errors import ProtocolError

_Array = npt.NDArray[np.float64]
# Fields of an estimate that are not the features themselves.
_BESIDE: Final = ("residual", "ended", "iterations", "objective")


@dataclass(frozen=True)
class Reconstruction:
    """What an attack estimates.

    Attributes:
        attack: The attack.
        ids: The records.
        estimates: Their passive features, one row per record, or for `one_feature` a column; NaN where undefined.
        status: How the estimates come about, such as `unique` or `least_norm`.
        details: What else the program says: rank, remarks, errors if the case has the truth, and so on.
        per_record: Residual, steps and end of each record, indexed by id, where the attack has them.
    """

    attack: str
    ids: tuple[str, ...]
    estimates: _Array
    status: str
    details: Mapping[str, Any] = field(default_factory=dict)
    per_record: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the attack has to say in words."""
        return tuple(self.details.get("remarks", ()))

    def to_frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """The estimates with a row per record; the features are called `x0`, `x1` and so on unless they are named."""
        columns = list(names) if names is not None else [f"x{place}" for place in range(self.estimates.shape[1])]
        return pd.DataFrame(
            self.estimates, index=pd.Index(self.ids, name="id", dtype="object"), columns=pd.Index(columns)
        )


def case(
    w_act: npt.ArrayLike,
    w_pas: npt.ArrayLike,
    b: npt.ArrayLike,
    y_act: npt.ArrayLike,
    scores: npt.ArrayLike,
    *,
    ids: Sequence[str] | None = None,
    truth: npt.ArrayLike | None = None,
) -> dict[str, Any]:
    """A case of kind `attack`: a linear model that is known, and records with their released scores.

    Args:
        w_act: Weights of the active features, one row per class.
        w_pas: Weights of the passive features, one row per class.
        b: Bias, one number per class. A binary model has two classes.
        y_act: Active features, one row per record.
        scores: Released scores, one row per record.
        ids: Names of the records; by default `r0`, `r1` and so on.
        truth: The true passive features, one row per record, if the errors are to be told. No attack sees them.

    Raises:
        ValueError: The shapes do not go together.
    """
    w_act, w_pas, y_act, scores = (np.asarray(a, dtype=np.float64) for a in (w_act, w_pas, y_act, scores))
    bias = np.asarray(b, dtype=np.float64)
    shapes = {"w_act": w_act, "w_pas": w_pas, "y_act": y_act, "scores": scores}
    for name, array in shapes.items():
        if array.ndim != 2:  # noqa: PLR2004
            raise ValueError(f"{name} has {array.ndim} dimensions, expected 2")
    classes, records = len(bias) if bias.ndim == 1 else -1, len(scores)
    expected = {"w_act": (classes, y_act.shape[1]), "w_pas": (classes, w_pas.shape[1]), "scores": (records, classes)}
    expected["y_act"] = (records, y_act.shape[1])
    for name, shape in expected.items():
        if shapes[name].shape != shape:
            raise ValueError(f"{name} is of shape {shapes[name].shape}, expected {shape}")
    names = list(ids) if ids is not None else [f"r{place}" for place in range(records)]
    if len(names) != records:
        raise ValueError(f"{len(names)} ids for {records} records")
    rows = [{"id": name, "y_act": y, "c": c} for name, y, c in zip(names, y_act.tolist(), scores.tolist(), strict=True)]
    made: dict[str, Any] = {"schema": 1, "kind": "attack", "w_act": w_act, "w_pas": w_pas, "b": bias, "records": rows}
    if truth is not None:
        known = np.asarray(truth, dtype=np.float64)
        if known.shape != (records, w_pas.shape[1]):
            raise ValueError(f"truth is of shape {known.shape}, expected {(records, w_pas.shape[1])}")
        made["truth"] = [{"id": name, "x_pas": x} for name, x in zip(names, known.tolist(), strict=True)]
    return made


def attack(
    case: Mapping[str, Any] | str | os.PathLike[str],
    method: str,
    *,
    seed: int = 1,
    timeout: float | None = None,
    **settings: object,
) -> Reconstruction:
    """Runs one attack on a case.

    Args:
        case: A case file, or the same as a dictionary, in which arrays may stand for lists (see `case`).
        method: The attack, such as `rcc1`. Of cases of another kind than `attack` it is the kind.
        seed: Seed of attacks that draw random numbers.
        timeout: Seconds after which the attack is ended.
        settings: Its settings, such as `steps=500`; lists become numbers with commas. `active-party attack --help` has them all.

    Raises:
        BinaryNotFoundError: The program `active-party` is not there.
        InputError: The case or a setting is not taken; the message says why.
        CommandError: The attack failed.
    """
    arguments = ["attack", "--attack", method, "--seed", str(seed)]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={_setting(value)}"]
    with tempfile.TemporaryDirectory(prefix="cloison-") as scratch:
        if isinstance(case, Mapping):
            place = Path(scratch, "case.json")
            place.write_text(json.dumps(case, default=_listed, allow_nan=False), encoding="utf-8")
        else:
            place = Path(case).absolute()
        out = Path(scratch, "out.json")
        _binary.run("active-party", [*arguments, "--case", str(place), "--out", str(out)], timeout=timeout)
        answer = json.loads(out.read_text(encoding="utf-8"))
    return _read(answer, method)


def _listed(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a case holds numbers, texts and lists, and this is of type {type(value).__name__}")


def _setting(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return ",".join(_setting(one) for one in value)
    return repr(float(value)) if isinstance(value, float) else str(value)


def _read(answer: Any, method: str) -> Reconstruction:
    try:
        if "x_hat" in answer:
            values = np.array([np.nan if x is None else x for x in answer.pop("x_hat")], dtype=np.float64)
            ids = tuple(f"r{place}" for place in range(len(values)))
            return Reconstruction(method, ids, values.reshape(-1, 1), "scaled", answer)
        if "attacks" not in answer:
            weights = np.asarray(answer.pop("w_pas"), dtype=np.float64)
            ids = tuple(f"class{place}" for place in range(len(weights)))
            return Reconstruction(method, ids, weights, "regression", answer)
        found = dict(answer["attacks"][0])
        estimates = found.pop("estimates")
        ids = tuple(one["id"] for one in estimates)
        beside = {key: [one.get(key) for one in estimates] for key in _BESIDE if any(key in one for one in estimates)}
        if any("c" in one for one in estimates):
            found["scores"] = np.array([one["c"] for one in estimates], dtype=np.float64)
        if "active_correlation" in answer:
            found["active_correlation"] = answer["active_correlation"]
        return Reconstruction(
            found.pop("name"),
            ids,
            np.array([one["x"] for one in estimates], dtype=np.float64).reshape(len(ids), -1),
            found.pop("status"),
            found,
            pd.DataFrame(beside, index=pd.Index(ids, name="id", dtype="object")),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ProtocolError(
            f"active-party attack answered in a form that this package does not know: {error}"
        ) from error
