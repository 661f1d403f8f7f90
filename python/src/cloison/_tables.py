"""Audits of data frames and of scikit-learn's models on this machine, with the program `cloison`."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from . import _binary, _folded, _onnx, _toml
from .errors import FrameError
from .report import Report, load_report

# The thresholds are not met; everything was written.
_NOT_MET: Final = 3
# What folded weights give and what scikit-learn gives differ by rounding alone.
_AGREE: Final = 1e-9
_AGREE_SCALED: Final = 1e-7
_AGREE_SINGLE: Final = 1e-4


def try_table(
    frame: pd.DataFrame,
    *,
    label: str,
    passive: Sequence[str] | Sequence[Sequence[str]],
    id: str | None = None,  # noqa: A002
    leave_out: Sequence[str] = (),
    number: bool = False,
    link: str | None = None,
    scores: pd.DataFrame | pd.Series[Any] | None = None,
    **options: Any,
) -> Report:
    """Trains on a frame between parties on this machine, audits what the scores give away, and reads the report.

    With `scores` nothing is trained: those of a model of any kind are audited, which adversaries cannot see into.

    Runs `cloison try`: a schema is guessed from the values, all parties run over loopback sockets, and the model is trained on
    secret shares.

    Args:
        frame: A row for each record.
        label: The column to predict.
        passive: The columns of the data provider; a list of lists for several.
        id: The column of the record ids; by default the index.
        leave_out: Columns that nobody is to have.
        number: True if the label is a number, and not one of several classes.
        link: Of a number: "identity", as in linear regression (the default), or "log", as in Poisson regression of counts.
        scores: The scores of a model that is not here, with the index of the frame: a column for each class, or one of the numbers.
            There is no `deployment` then.
        options: As `audit` has them: `out`, `deployment`, `policies`, `records`, `test_ids`, `recommend`, `max_added_risk`, `seed`,
            `timeout`.

    Raises:
        BinaryNotFoundError: The program is not there.
        FrameError: The frame is not taken; the message names the column.
        InputError: The program does not take it.
        CommandError: The audit failed.
    """
    with tempfile.TemporaryDirectory(prefix="cloison-") as place:
        scratch = Path(place)
        if unknown := [name for name in (*leave_out, label) if name not in frame.columns]:
            raise FrameError(f"the frame has no column {unknown[0]!r}")
        table, index = _frame(frame.drop(columns=list(leave_out)), id)
        _write(scratch / "table.csv", table)
        if link is not None and not number:
            raise FrameError("link is of a label that is a number: number=True says so")
        arguments = ["--id", index]
        if number:
            arguments.append("--number-label")
        if link is not None:
            arguments += ["--link", link]
        if scores is not None:
            _write(scratch / "scores.csv", _scores(scores, frame, table[index], label))
            arguments += ["--scores", "scores.csv"]
        return _run(scratch, label, passive, arguments, **options)


def _scores(
    scores: pd.DataFrame | pd.Series[Any], frame: pd.DataFrame, ids: pd.Series[Any], label: str
) -> pd.DataFrame:
    """The scores of the records, after a column of their ids."""
    if not scores.index.equals(frame.index):
        raise FrameError("scores have another index than the frame: give a row for each row of the frame, in its order")
    columns = scores.to_frame(label) if isinstance(scores, pd.Series) else scores
    table = pd.DataFrame()
    for name in columns.columns:
        try:
            table[_folded.text(name)] = columns[name].to_numpy(dtype="float64")
        except (TypeError, ValueError):
            # The error of numpy has the value in it.
            raise FrameError(f"the column {name!r} of the scores is not one of numbers") from None
    table.insert(0, "record id", ids.to_numpy())
    return table


def audit_model(
    estimator: Any,
    frame: pd.DataFrame,
    *,
    label: str,
    passive: Sequence[str] | Sequence[Sequence[str]],
    id: str | None = None,  # noqa: A002
    black_box: bool = False,
    **options: Any,
) -> Report:
    """Audits what the answers of a fitted model of scikit-learn would give away, served between parties.

    See `audit`, which calls this.
    """
    if label not in frame.columns:
        raise FrameError(f"the frame has no column {label!r}")
    if isinstance(estimator, str | PathLike):
        estimator = _onnx.load(estimator)
    if black_box:
        return _audit_scores(estimator, frame, label=label, passive=passive, id=id, **options)
    table, index = _frame(frame, id)
    held = table.drop(columns=[index, label])
    try:
        model, expected = _checked(estimator, held, label)
    except FrameError as refused:
        raise FrameError(f"{refused}. black_box=True audits the scores of a model of any kind") from None
    with tempfile.TemporaryDirectory(prefix="cloison-") as place:
        scratch = Path(place)
        description = _schema(model, index, label)
        (scratch / "table.schema.toml").write_text(_toml.dumps(description), encoding="utf-8")
        file, content = model.file(expected)
        (scratch / file).write_bytes(content)
        names = [column.name for column in model.columns]
        table = table[[index, *names, label]]
        for column in model.columns:
            if column.is_number:
                # Truth values are numbers here, as the model takes them.
                table = table.assign(**{column.name: column.values.astype("float64")})
        _write(scratch / "table.csv", table)
        held_out = [one for one in _parties(passive) if not set(one) & set(names)]
        if held_out:
            raise FrameError(f"the model takes none of the passive columns {held_out[0]}")
        kept = [[name for name in one if name in names] for one in _parties(passive)]
        return _run(scratch, label, kept, ["--parameters", file], **options)


def _checked(estimator: Any, held: pd.DataFrame, label: str) -> tuple[_folded.Folded, np.ndarray[Any, Any]]:
    """A fitted model folded onto the columns of a frame, and its answers, which are those of the estimator."""
    if held.empty:
        raise FrameError("the frame has no record")
    in_file = isinstance(estimator, _onnx.Onnx)
    model = estimator.folded(held, label) if in_file else _folded.fold(estimator, held, label)
    taken = list(getattr(estimator, "feature_names_in_", held.columns))
    method = estimator.predict if model.is_number else estimator.predict_proba
    expected = np.asarray(method(held[taken])).reshape(len(held), -1)
    # Scores of classes to 1e-9, numbers to that of the largest.
    size = float(np.abs(expected).max()) if model.is_number else 1.0
    off = float(np.abs(model.scores(np.arange(len(held))) - expected).max()) / (size or 1.0)
    # A steep power leaves the digits of the library's own values to chance.
    single = in_file or any(held[name].dtype == np.float32 for name in taken)
    most = _AGREE_SINGLE if single else _AGREE_SCALED if model.scales() else _AGREE
    if not off <= most:
        raise FrameError(
            f"the folded weights give another answer than {method.__name__}: the largest difference is {off:.1e}"
        )
    # Files of ONNX compute in single precision, and what is served does not.
    return model, model.scores(np.arange(len(held))) if in_file else expected


def save_model(estimator: Any, frame: pd.DataFrame, folder: str | PathLike[str], *, label: str) -> Path:
    """Writes a fitted model of scikit-learn as a parameter file, with the scores of some records as samples, and its schema.

    The file is that of `cloison split-parameters --raw`, and of a `[fallback]` with `raw = true` for a model of the active party's columns
    alone. Its samples are records of the frame.

    Args:
        estimator: A model that `audit` takes.
        frame: Records with the columns that it takes, and without the label.
        folder: Where `model.json`, or `model.safetensors` of a perceptron, and `model.schema.toml` are written.
        label: The name of the label.

    Raises:
        FrameError: The model or a step before it is not taken; the message names it.
    """
    if isinstance(estimator, str | PathLike):
        estimator = _onnx.load(estimator)
    model, expected = _checked(estimator, frame, label)
    name, content = model.file(expected)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(content)
    (place / "model.schema.toml").write_text(_toml.dumps(_schema(model, _free("id", frame), label)), encoding="utf-8")
    return place / name


def _free(name: str, frame: pd.DataFrame) -> str:
    """A name that no column has."""
    while name in frame.columns:
        name = f"record {name}"
    return name


def _schema(model: _folded.Folded, index: str, label: str) -> dict[str, Any]:
    """The schema of all columns of a model: its ranges are those of the frame."""
    classes = {"column": label} | ({"kind": "number"} if model.is_number else {"classes": model.classes})
    return {"id": index, "label": classes, "features": [_folded.schema(column) for column in model.columns]}


def _audit_scores(estimator: Any, frame: pd.DataFrame, *, label: str, **options: Any) -> Report:
    """Audits the scores of a model of any kind."""
    named = options.get("id")
    given = frame.drop(columns=[label, *([named] if named in frame.columns else [])])
    taken = [str(name) for name in getattr(estimator, "feature_names_in_", given.columns)]
    if missing := [name for name in taken if name not in given.columns]:
        raise FrameError(f"the frame has no column {missing[0]!r}, which the model takes")
    for party in _parties(options["passive"]):
        if odd := [name for name in party if name not in taken]:
            raise FrameError(f"the model does not take the passive column {odd[0]!r}: its scores say nothing of it")
    rows = given[taken]
    # Whatever the model does not take is nobody's business.
    frame = frame[[name for name in frame.columns if name in {*taken, label, named}]]
    if not hasattr(estimator, "predict_proba"):
        if hasattr(estimator, "classes_"):
            raise FrameError(
                f"{type(estimator).__name__} has classes and no scores of them: take CalibratedClassifierCV, or give scores of your own"
            )
        predicted = np.asarray(estimator.predict(rows), dtype="float64")
        if predicted.size != len(frame):
            raise FrameError(
                f"the model predicts {predicted.size // max(len(frame), 1)} numbers of a record: take one for each"
            )
        numbers = pd.Series(predicted.reshape(-1), index=frame.index)
        return try_table(frame, label=label, number=True, scores=numbers, **options)
    scores = pd.DataFrame(estimator.predict_proba(rows), columns=list(estimator.classes_), index=frame.index)
    return try_table(frame, label=label, scores=scores, **options)


def _frame(frame: pd.DataFrame, id: str | None) -> tuple[pd.DataFrame, str]:  # noqa: A002
    """The frame with a column of ids, and the name of that column."""
    if id is not None:
        if id not in frame.columns:
            raise FrameError(f"the frame has no column {id!r}")
        return frame, id
    name = str(frame.index.name or "id")
    while name in frame.columns:
        name += "_"
    table = frame.copy()
    table.insert(0, name, [str(one) for one in frame.index])
    if table[name].duplicated().any():
        raise FrameError("the index has an id twice: name the column of the record ids with id=")
    return table, name


def _write(path: Path, table: pd.DataFrame) -> None:
    """Writes a frame as CSV, with every digit of its numbers, and nothing where a value is missing."""

    def cell(value: object) -> str:
        if (
            value is None
            or value is pd.NaT
            or (isinstance(value, float | np.floating) and np.isnan(value))
            or value is pd.NA
        ):
            return ""
        return value.strftime("%Y-%m-%d") if isinstance(value, pd.Timestamp) else _folded.text(value)

    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([str(name) for name in table.columns])
        columns: Iterable[Any] = (table[name].tolist() for name in table.columns)
        rows.writerows([cell(value) for value in row] for row in zip(*columns, strict=True))


def _parties(passive: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    """The columns of each passive party: a list of names is one party's."""
    alone = [one for one in passive if isinstance(one, str)]
    others = [list(one) for one in passive if not isinstance(one, str)]
    return [party for party in (alone, *others) if party]


def _run(
    scratch: Path,
    label: str,
    passive: Sequence[str] | Sequence[Sequence[str]],
    arguments: list[str],
    *,
    out: str | PathLike[str] | None = None,
    deployment: str | PathLike[str] | None = None,
    policies: Sequence[str] = (),
    records: int | None = None,
    test_ids: Sequence[str] | None = None,
    recommend: bool = False,
    max_added_risk: float | None = None,
    seed: int = 7,
    timeout: float | None = None,
) -> Report:
    kept = Path(out).absolute() if out is not None else scratch / "out"
    folder = Path(deployment).absolute() if deployment is not None else scratch / "deployment"
    called = ["try", "table.csv", "--label", label, "--seed", str(seed), *arguments]
    for columns in _parties(passive):
        if odd := next((one for one in columns if "," in one), None):
            raise FrameError(f"column {odd!r} has a comma in its name: rename it")
        called += ["--passive", ",".join(columns)]
    for policy in policies:
        called += ["--policy", policy]
    if records is not None:
        called += ["--records", str(records)]
    if test_ids is not None:
        (scratch / "test.ids").write_text("\n".join(map(str, test_ids)) + "\n", encoding="utf-8")
        called += ["--test-ids", "test.ids"]
    if max_added_risk is not None:
        called += ["--max-added-risk", repr(float(max_added_risk))]
    if not recommend:
        called.append("--no-recommend")
    called += ["--out", str(kept)]
    if "--scores" not in arguments:
        called += ["--deployment", str(folder)]
    elif deployment is not None:
        raise FrameError("there is no deployment of scores: the model that gave them is not here")
    _binary.run("cloison", called, cwd=scratch, timeout=timeout, accepted=(0, _NOT_MET))
    return load_report(kept)
