"""Audits of a running deployment, or of a model of scikit-learn, with the program `cloison`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, overload

import pandas as pd

from . import _binary, _toml
from ._tables import audit_model
from .report import Report, load_report

# The thresholds are not met; everything was written.
_NOT_MET: Final = 3


@overload
def audit(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    metrics: Sequence[str] | None = None,
    max_added_risk: float | None = None,
    max_exact_share: float | None = None,
    max_exact: float | None = None,
    max_bits: float | None = None,
    root: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> Report: ...


@overload
def audit(
    config: Any,
    frame: pd.DataFrame,
    *,
    label: str,
    passive: Sequence[str] | Sequence[Sequence[str]],
    id: str | None = None,
    out: str | os.PathLike[str] | None = None,
    deployment: str | os.PathLike[str] | None = None,
    policies: Sequence[str] = (),
    records: int | None = None,
    test_ids: Sequence[str] | None = None,
    recommend: bool = False,
    max_added_risk: float | None = None,
    black_box: bool = False,
    seed: int = 7,
    timeout: float | None = None,
) -> Report: ...


def audit(config: Any, frame: pd.DataFrame | None = None, **options: Any) -> Report:
    """Audits a running deployment as its auditor, or a model of scikit-learn and a data frame, and reads the report.

    `audit(config)` takes the configuration file of an audit (TOML), or the same as a dictionary.

    `audit("model.onnx", frame, label=…, passive=[…])` takes linear models and perceptrons in a file of ONNX (the extra `onnx`).

    `audit(estimator, frame, label=…, passive=[…])` serves a fitted LogisticRegression, MLPClassifier, one-vs-rest model
    (SGDClassifier, OneVsRestClassifier, or CalibratedClassifierCV of a linear model) or linear model of a number
    (LinearRegression, Ridge, Lasso, PoissonRegressor, GammaRegressor, TweedieRegressor and their like), alone or behind a
    Pipeline of StandardScaler, MinMaxScaler, RobustScaler, MaxAbsScaler, PowerTransformer, FunctionTransformer of a
    logarithm, SimpleImputer, OneHotEncoder, OrdinalEncoder and ColumnTransformer, between parties on this machine, of which
    the passive ones hold the columns `passive`, and audits it. Its answers are compared with those of `predict_proba` or
    `predict` first. With `black_box=True` it audits the scores of a model of any kind, which adversaries cannot see into:
    they have the scores and records that they know.

    Args:
        config: The configuration of the audit of a running deployment, or a fitted model, or the path of a file of ONNX.
        frame: The records of the model, a row each, with the label; audited are those of `test_ids`, or records drawn from it.
        options: For both: `out`, a directory for `report.html`, `report.json` and `report.csv` (by default nothing is kept but
            the report that is returned); `max_added_risk`, the largest added risk of any attribute of any passive party that is
            accepted, from 0 to 1; `timeout`, the seconds after which the audit is ended. For a running deployment: `metrics`
            beside the mean squared error; `max_exact_share`, the largest share of records that may come back to within 0.1;
            `max_exact`, the largest share of records that an attack may be certain to have rebuilt whole; `max_bits`, the most
            bits that the policy may tell of a record; `root`, where relative paths of the configuration start. For a model:
            `label`, the column to predict; `passive`, the columns of the data provider, or a list for each of several; `id`,
            the column of the record ids (by default the index); `policies`, as `rounding (decimals = 2)`; `records`, the number
            of attacked ones; `test_ids`; `black_box`; `recommend`, to search for a defense; `deployment`, a folder to write for
            three machines; `seed`.

    Raises:
        BinaryNotFoundError: The program is not there.
        FrameError: The frame, the model or a step before it is not taken; the message names it.
        InputError: The configuration is not taken; the message names the key.
        CommandError: The audit failed.
    """
    if frame is None:
        return _deployment(config, **options)
    return audit_model(config, frame, **options)


def _deployment(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    metrics: Sequence[str] | None = None,
    max_added_risk: float | None = None,
    max_exact_share: float | None = None,
    max_exact: float | None = None,
    max_bits: float | None = None,
    root: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> Report:
    """Audits a running deployment, see `audit`."""
    with tempfile.TemporaryDirectory(prefix="cloison-") as scratch:
        if isinstance(config, Mapping):
            place = Path(scratch, "audit.toml")
            place.write_text(_toml.dumps(config), encoding="utf-8")
        else:
            place = Path(config).absolute()
        kept = Path(out).absolute() if out is not None else Path(scratch, "out")
        arguments = ["audit", "--config", str(place), "--out", str(kept)]
        if metrics is not None:
            arguments += ["--metrics", ",".join(metrics) or "none"]
        thresholds = {
            "added-risk": max_added_risk,
            "exact-share": max_exact_share,
            "exact": max_exact,
            "bits": max_bits,
        }
        for name, limit in thresholds.items():
            if limit is not None:
                arguments += [f"--max-{name}", repr(float(limit))]
        start = Path(root) if root is not None else None
        _binary.run("cloison", arguments, cwd=start, timeout=timeout, accepted=(0, _NOT_MET))
        return load_report(kept)
