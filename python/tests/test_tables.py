"""Audits of models of scikit-learn and of data frames: the same answers, and refusals that name the step."""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from deployment import free_ports
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    TweedieRegressor,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC

import cloison
from cloison import _folded

PASSIVE = ["income", "employer", "late", "grade"]


def credit(count: int = 1500) -> pd.DataFrame:
    """Customers with gaps, categories, steps and truth values."""
    rng = np.random.default_rng(3)
    income = np.round(rng.lognormal(8, 0.5, count), 2)
    late = rng.poisson(0.5, count)
    frame = pd.DataFrame(
        {
            "customer": [f"C{n}" for n in range(count)],
            "age": rng.integers(18, 90, count),
            "branch": rng.choice(["Paris", "Nice, Alpes", "Lille"], count),
            "staff": rng.random(count) < 0.1,
            "income": np.where(rng.random(count) < 0.1, np.nan, income),
            "employer": pd.Series(rng.choice(["public", "private", ""], count)).replace("", None),
            "late": late,
            "grade": rng.choice(["low", "mid", "high"], count),
        }
    )
    odds = late - income / 4000 + 0.5 * (frame["grade"] == "low") + rng.logistic(size=count)
    return frame.assign(default=np.where(odds > 0, "yes", "no"))


def pipeline() -> Any:
    """Every step that is taken."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), PowerTransformer())
    words = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(drop="first"))
    columns = ColumnTransformer(
        [
            ("numbers", numbers, ["age", "income"]),
            ("words", words, ["branch", "employer"]),
            ("counts", FunctionTransformer(np.log1p), ["late"]),
            ("grades", OrdinalEncoder(categories=[["low", "mid", "high"]]), ["grade"]),
        ],
        remainder="passthrough",
    )
    return make_pipeline(columns, MinMaxScaler(), LogisticRegression(max_iter=1000))


def test_weights_are_folded_onto_the_columns() -> None:
    frame = credit()
    held = frame.drop(columns=["customer", "default"])
    model = pipeline().fit(held, frame["default"])
    folded = _folded.fold(model, held, "default")
    assert np.abs(folded.scores(np.arange(len(held))) - model.predict_proba(held)).max() < 1e-12
    kinds = {column.name: _folded.schema(column)["kind"] for column in folded.columns}
    assert kinds["employer"] == "categorical"
    assert (kinds["grade"], kinds["staff"], kinds["income"]) == ("ordinal", "binary", "numeric")
    assert "income is missing" in folded.features()
    # Labels of three classes, and no step at all.
    numbers = held[["age", "late"]]
    model = LogisticRegression(max_iter=1000).fit(numbers, frame["grade"])
    assert (
        np.abs(_folded.fold(model, numbers, "grade").scores(range(50)) - model.predict_proba(numbers[:50])).max()
        < 1e-12
    )


def test_columns_are_taken_as_the_model_takes_them() -> None:
    """A number as a category, a column of two steps, columns that the model does not take, truth values with gaps."""
    frame = credit(600)
    frame["late"] = frame["late"].astype(float).where(np.arange(600) % 7 != 0)
    codes = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    twice = [
        ("codes", codes, ["late"]),
        ("first", StandardScaler(), ["age"]),
        ("second", MinMaxScaler(), ["age", "staff"]),
    ]
    model = make_pipeline(
        ColumnTransformer([*twice, ("none", StandardScaler(), [])]), LogisticRegression(max_iter=1000)
    )
    held = frame.drop(columns=["customer", "default"])
    model.fit(held[["age", "late", "staff"]], frame["default"])
    folded = _folded.fold(model, held, "default")
    assert np.abs(folded.scores(range(600)) - model.predict_proba(held[["age", "late", "staff"]])).max() < 1e-12
    # Whatever the model does not take is in no schema.
    assert [column.name for column in folded.columns] == ["age", "late", "staff"]
    with pytest.raises(cloison.FrameError, match="age"):
        _folded.fold(model, held[["late", "staff"]], "default")
    blank = held.assign(employer=pd.Series(["", None, "public"] * 200, dtype="object"))
    words = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(blank[["employer"]], frame["default"])
    with pytest.raises(cloison.FrameError, match="blank text"):
        _folded.fold(words, blank[["employer"]], "default")
    with pytest.raises(cloison.FrameError, match="no column 'defalt'"):
        cloison.audit(model, frame, label="defalt", passive=["late"])


@pytest.mark.parametrize(
    "step",
    [
        PowerTransformer(),
        PowerTransformer(standardize=False),
        PowerTransformer("box-cox"),
        FunctionTransformer(np.log),
        FunctionTransformer(np.log1p),
        make_pipeline(PowerTransformer("box-cox"), MinMaxScaler()),
    ],
    ids=str,
)
def test_powers_and_logarithms_become_the_scale_of_a_feature(step: Any) -> None:
    """A long tail on either side, a column of whole numbers, and the same answers as the library's."""
    rng = np.random.default_rng(11)
    held = pd.DataFrame(
        {
            "income": np.round(rng.lognormal(8, 1.5, 500), 2),
            "age": rng.integers(18, 90, 500),
            "debt": 1000.0 - rng.exponential(100, 500).clip(0, 999),
        }
    )
    label = np.where(np.log(held["income"]) + rng.logistic(size=500) > 8, "yes", "no")
    model = make_pipeline(step, StandardScaler(), LogisticRegression(max_iter=1000)).fit(held, label)
    folded = _folded.fold(model, held, "rich")
    assert np.abs(folded.scores(range(500)) - model.predict_proba(held)).max() < 1e-12
    entries = [_folded.schema(column) for column in folded.columns]
    assert all("scale" in entry and "power" not in entry for entry in entries)
    if getattr(step, "func", None) is np.log:
        assert {entry["scale"] for entry in entries} == {"log"}


def test_a_scale_hides_neither_its_feature_nor_the_others(programs: Path) -> None:
    """Three equations: one is spent on the income, the others decode what lies on a grid, and the income follows."""
    assert programs
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 800),
            "income": np.round(rng.lognormal(8, 1.2, 800), 2),
            "late": rng.poisson(0.8, 800),
            "tenure": rng.integers(0, 240, 800),
            "staff": (rng.random(800) < 0.2).astype(float),
        },
        index=pd.Index([f"c{n}" for n in range(800)], name="customer"),
    )
    odds = np.log(frame["income"]) - 8 + 0.3 * frame["late"] - 0.004 * frame["tenure"] + rng.logistic(size=800)
    grade = np.array(["a", "b", "c", "d"])[np.digitize(odds, [-1, 0.2, 1.5])]
    steps = make_column_transformer((PowerTransformer(), ["income"]), remainder=StandardScaler())
    model = make_pipeline(steps, LogisticRegression(max_iter=3000)).fit(frame, grade)
    report = cloison.audit(
        model,
        frame.assign(grade=grade),
        label="grade",
        passive=["income", "late", "tenure", "staff"],
        policies=["none"],
        records=100,
    )
    errors = report.attacks.set_index("attack")["mse"]
    assert errors["lattice"] < 1e-20
    assert errors["kernel_ridge"] > 1e-3


def test_a_column_has_one_scale() -> None:
    frame = credit(300)
    held = frame[["age", "staff"]].assign(debt=-frame["age"])
    both = make_column_transformer((PowerTransformer(), ["age"]), (StandardScaler(), ["age"]))
    with pytest.raises(cloison.FrameError, match="'age' reaches the model on 2 scales"):
        _folded.fold(make_pipeline(both, LogisticRegression()).fit(held, frame["default"]), held, "default")
    below = make_column_transformer((FunctionTransformer(lambda x: x, validate=True), ["debt"]))
    with pytest.raises(cloison.FrameError, match="function <lambda>"):
        _folded.fold(make_pipeline(below, LogisticRegression()).fit(held, frame["default"]), held, "default")
    # A truth value stays one.
    flag = held[["staff"]].astype(float)
    model = make_pipeline(PowerTransformer(), LogisticRegression()).fit(flag, frame["default"])
    folded = _folded.fold(model, flag, "default")
    assert np.abs(folded.scores(range(300)) - model.predict_proba(flag)).max() < 1e-12
    assert _folded.schema(folded.columns[0])["kind"] == "binary"
    assert "scale" not in _folded.schema(folded.columns[0])


def test_what_is_not_linear_is_refused_by_name() -> None:
    frame = credit(300)
    held, label = frame[["age", "late"]], frame["default"]
    for model, says in (
        (
            make_pipeline(QuantileTransformer(n_quantiles=10), LogisticRegression()),
            r"quantiletransformer.*QuantileTransformer",
        ),
        (make_pipeline(StandardScaler(), PowerTransformer(), LogisticRegression()), "after another step"),
        (make_pipeline(FunctionTransformer(np.sqrt), LogisticRegression()), "of the function sqrt"),
        (make_pipeline(PowerTransformer(), SimpleImputer(), LogisticRegression()), "behind a PowerTransformer"),
        (make_pipeline(StandardScaler(), RandomForestClassifier(5)), "RandomForestClassifier is not taken"),
        (make_pipeline(MinMaxScaler(clip=True), LogisticRegression()), "clip"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(held, label)
        with pytest.raises(cloison.FrameError, match=says):
            cloison.audit(
                model, frame[["customer", "age", "late", "default"]], id="customer", label="default", passive=["late"]
            )


@pytest.mark.parametrize(
    ("activation", "hidden"), [("logistic", (6,)), ("tanh", (5, 3)), ("relu", (8, 4, 4)), ("identity", (4,))]
)
@pytest.mark.parametrize("label", ["default", "grade"])
def test_perceptrons_are_folded_in_their_first_layer(activation: str, hidden: tuple[int, ...], label: str) -> None:
    """Two classes, which scikit-learn gives one output, and three."""
    frame = credit(600)
    held = frame.drop(columns=["customer", "default"])
    head = MLPClassifier(hidden, activation=activation, max_iter=30, random_state=2)
    model = make_pipeline(*pipeline().named_steps.values()).set_params(logisticregression=head)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(held, frame[label])
    folded = _folded.fold(model, held, label)
    assert np.abs(folded.scores(range(600)) - model.predict_proba(held)).max() < 1e-12
    assert folded.classes == sorted(frame[label].unique())
    # Without an activation it is a linear model.
    assert (folded.layers is None) == (activation == "identity")


def test_a_perceptron_of_several_labels_is_refused() -> None:
    frame = credit(300)
    held, both = frame[["age", "late"]], np.column_stack([frame["staff"], frame["grade"] == "low"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPClassifier((3,), max_iter=5).fit(held, both)
    with pytest.raises(cloison.FrameError, match="several labels"):
        _folded.fold(model, held, "both")


def calibrated(model: Any, **settings: Any) -> Any:
    """A linear decision with a sigmoid for each class."""
    return CalibratedClassifierCV(model, ensemble=False, cv=3, **settings)


ONE_VS_REST = [
    SGDClassifier(loss="log_loss", random_state=1),
    calibrated(LinearSVC()),
    calibrated(make_pipeline(StandardScaler(), SGDClassifier(random_state=1))),
    calibrated(RidgeClassifier()),
    OneVsRestClassifier(LogisticRegression(max_iter=1000)),
    OneVsRestClassifier(calibrated(LinearSVC())),
]


@pytest.mark.parametrize("head", ONE_VS_REST, ids=str)
@pytest.mark.parametrize("label", ["default", "grade"])
def test_one_vs_rest_is_folded_with_its_link(head: Any, label: str) -> None:
    """Two classes, of which the scores are a softmax, and three, of which they are sigmoids divided by their sum."""
    frame = credit(600)
    held = frame.drop(columns=["customer", "default"])
    model = make_pipeline(*pipeline().named_steps.values()).set_params(logisticregression=head)
    model.fit(held, frame[label])
    folded = _folded.fold(model, held, label)
    assert np.abs(folded.scores(range(600)) - model.predict_proba(held)).max() < 1e-12
    assert folded.classes == sorted(frame[label].unique())
    assert folded.link == ("softmax" if label == "default" else "one_vs_rest")


def test_scores_that_are_no_sigmoid_are_refused_by_name() -> None:
    frame = credit(300)
    held = frame[["age", "late"]]
    for model, says in (
        (SGDClassifier(loss="modified_huber"), "loss='modified_huber' has no scores"),
        (LinearSVC(), r"CalibratedClassifierCV\(LinearSVC"),
        (CalibratedClassifierCV(LinearSVC(), cv=3, ensemble=True), "mean of 3 models: take ensemble=False"),
        (calibrated(LinearSVC(), method="isotonic"), "method='isotonic'"),
        (calibrated(SVC()), "SVC has no linear decision"),
        (OneVsRestClassifier(make_pipeline(StandardScaler(), LogisticRegression())), "put the steps before it"),
        (OneVsRestClassifier(calibrated(make_pipeline(StandardScaler(), LinearSVC()))), "put the steps before it"),
    ):
        model.fit(held, frame["grade"])
        with pytest.raises(cloison.FrameError, match=says):
            _folded.fold(model, held, "grade")
    several = OneVsRestClassifier(LogisticRegression()).fit(held, np.column_stack([frame["staff"], frame["late"] > 0]))
    with pytest.raises(cloison.FrameError, match="several labels"):
        _folded.fold(several, held, "both")


@pytest.mark.parametrize("number", [False, True])
def test_scores_of_any_model_are_audited(programs: Path, tmp_path: Path, number: bool) -> None:
    """A forest is no linear model: its scores are audited, behind policies, and nobody has its parameters."""
    frame = credit()
    if number:
        frame["default"] = frame["late"] * 10 + frame["age"]
    held = frame.drop(columns=["customer", "default"])
    words = make_column_transformer(
        (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["branch", "employer", "grade"]),
        (SimpleImputer(), ["age", "income", "late", "staff"]),
    )
    head = RandomForestRegressor(20, random_state=1) if number else RandomForestClassifier(20, random_state=1)
    model = make_pipeline(words, head).fit(held, frame["default"])
    given: dict[str, Any] = {"id": "customer", "label": "default", "passive": PASSIVE}
    with pytest.raises(cloison.FrameError, match="black_box=True"):
        cloison.audit(model, frame, **given)
    report = cloison.audit(model, frame, **given, black_box=True, out=tmp_path / "out")
    assert report.verdict is not None
    policies = report.policies
    assert "none" in policies.index
    # A forest of whole trees knows its training records: the label is nearly always right.
    if not number:
        assert float(str(policies.loc["none", "accuracy"])) > 0.9
    text = (tmp_path / "out/report.json").read_text()
    assert "no adversary has its parameters" in text
    with pytest.raises(cloison.FrameError, match="no deployment of scores"):
        cloison.audit(model, frame, **given, black_box=True, deployment=tmp_path / "deployment")


def test_scores_are_checked(programs: Path) -> None:
    frame = credit(400)
    given: dict[str, Any] = {"id": "customer", "label": "default", "passive": PASSIVE}
    scores = pd.DataFrame({"no": 0.25, "yes": 0.75}, index=frame.index)
    with pytest.raises(cloison.FrameError, match="another index"):
        cloison.try_table(frame, scores=scores.iloc[::-1], **given)
    for wrong, says in (
        (scores * 2, "from 0 to 1"),
        (scores * 0.9, "have the sum 0.9"),
        (scores.rename(columns={"no": "low", "yes": "high"}), '"low" is of no class'),
        (scores.assign(no=np.nan), "not a number|empty|missing"),
    ):
        with pytest.raises(cloison.InputError, match=says):
            cloison.try_table(frame, scores=wrong, **given)


def test_a_black_box_takes_the_columns_of_the_model() -> None:
    frame = credit(300)
    model = RandomForestClassifier(5, random_state=1).fit(frame[["age", "late"]], frame["default"])
    given: dict[str, Any] = {"id": "customer", "label": "default", "black_box": True}
    with pytest.raises(cloison.FrameError, match="does not take the passive column 'income'"):
        cloison.audit(model, frame, passive=["income"], **given)
    decisions = LinearSVC().fit(frame[["age", "late"]], frame["default"])
    with pytest.raises(cloison.FrameError, match="no scores of them"):
        cloison.audit(decisions, frame, passive=["late"], **given)
    words = pd.DataFrame({"no": "secret", "yes": 0.5}, index=frame.index)
    with pytest.raises(cloison.FrameError, match="not one of numbers") as refused:
        cloison.try_table(frame, label="default", passive=["late"], scores=words)
    assert "secret" not in str(refused.value)


REGRESSORS = [
    LinearRegression(),
    Ridge(alpha=0.5),
    Lasso(alpha=0.01),
    ElasticNet(alpha=0.01),
    BayesianRidge(),
    HuberRegressor(max_iter=1000),
    PoissonRegressor(max_iter=1000),
    GammaRegressor(max_iter=1000),
    TweedieRegressor(power=1.5, max_iter=1000),
    TweedieRegressor(power=0, max_iter=1000),
]


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_models_of_numbers_are_folded_with_their_link(model: Any) -> None:
    frame = credit(600)
    held = frame.drop(columns=["customer", "default"])
    numbers = np.random.default_rng(5).gamma(2.0, 1.5, len(frame)) + frame["age"] / 50
    whole = make_pipeline(*pipeline().named_steps.values()).set_params(logisticregression=model).fit(held, numbers)
    folded = _folded.fold(whole, held, "claims")
    expected = whole.predict(held)
    assert folded.classes == ["claims"]
    assert folded.link in {"identity", "log"}
    assert (np.abs(folded.scores(range(600))[:, 0] - expected) / np.maximum(np.abs(expected), 1)).max() < 1e-12


def test_what_is_no_single_number_is_refused_by_name() -> None:
    frame = credit(300)
    held = frame[["age", "late"]]
    both = LinearRegression().fit(held, np.column_stack([held["age"], held["late"]]))
    with pytest.raises(cloison.FrameError, match="predicts 2 numbers"):
        _folded.fold(both, held, "claims")
    moved = TransformedTargetRegressor(LinearRegression(), func=np.log1p, inverse_func=np.expm1).fit(
        held, frame["age"] + 1
    )
    with pytest.raises(cloison.FrameError, match="TransformedTargetRegressor is not taken"):
        _folded.fold(moved, held, "claims")


def test_exact_numbers_give_back_what_lies_on_a_grid(programs: Path) -> None:
    """Diabetes as it is published: years, two sexes, and measurements to a decimal."""
    assert programs
    data = load_diabetes(as_frame=True, scaled=False)
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(data.data, data.target)
    report = cloison.audit(model, data.frame, label="target", passive=["age", "sex", "bmi", "bp"])
    assert report.verdict is not None
    assert "lattice rebuilds all passive features exactly" in str(report.verdict)
    # Ten bins between the least and the greatest number tell 3.3 bits, whatever an adversary knows.
    bins = next(name for name in report.policies.index if name.startswith("bins"))
    assert report.policies.loc[bins, "bits"] == pytest.approx(math.log2(10))
    rows = report.attributes
    rows = rows[(rows["policy"] == bins) & (rows["attack"] == "informed_lattice")]
    assert rows.loc[rows["attribute"].isin(["age", "sex"]), "added_risk"].max() < 0.5


class Folder:
    """The folder of a deployment, of which each party runs on a free port of this machine."""

    _services: ClassVar = {"coordinator": "coordinator", "passive-1": "passive-party", "active": "active-party"}

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.programs = folder, programs
        self.ports = dict(zip((7100, 7101, 7102), free_ports(3), strict=True))
        for file in folder.glob("*/*.toml"):
            moved = re.sub(
                r"(coordinator|active|passive-1|0\.0\.0\.0|127\.0\.0\.1):(\d+)",
                lambda m: f"127.0.0.1:{self.ports[int(m[2])]}",
                file.read_text(),
            )
            file.write_text(moved)

    def run(self, party: str, command: str, *words: str) -> None:
        """Runs a command of a party, which must succeed."""
        ended = self._run(party, command, *words)
        assert ended.returncode == 0, ended.stderr

    def _run(self, party: str, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        called = [str(self.programs / self._services[party]), command, "--config", f"{party}.toml", *words]
        return subprocess.run(called, cwd=self.folder / party, capture_output=True, text=True, timeout=60, check=False)

    def scores(self, prepare: Sequence[str]) -> pd.DataFrame:
        """Starts all parties, has the active party prepare a model, and asks for the scores of the test records."""
        processes = []
        try:
            for party, program in self._services.items():
                words = [str(self.programs / program), "serve", "--config", f"{party}.toml"]
                with (self.folder / f"{party}.log").open("w") as log:
                    processes.append(subprocess.Popen(words, cwd=self.folder / party, stdout=log, stderr=log))
            deadline = time.monotonic() + 30
            while self._run("active", "check", "--health").returncode != 0:
                assert time.monotonic() < deadline, (self.folder / "active.log").read_text()
                time.sleep(0.1)
            self.run("active", *prepare)
            asked = (self.folder / "active/data/test.ids").read_text().split()
            tls = self.folder / "active/tls"
            with cloison.ActiveParty(
                f"127.0.0.1:{self.ports[7102]}", ca=tls / "ca.pem", cert=tls / "active.pem", key=tls / "active.key"
            ) as service:
                return service.predict(asked)
        finally:
            for process in processes:
                process.terminate()
                process.wait(timeout=15)


HEADS = [
    LogisticRegression(max_iter=1000),
    PoissonRegressor(max_iter=1000),
    MLPClassifier((9, 4), max_iter=60, random_state=4),
    calibrated(LinearSVC()),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("head", HEADS, ids=str)
def test_a_pipeline_is_served_with_the_same_answers(programs: Path, tmp_path: Path, head: Any) -> None:
    """The folder of the deployment, started as its README says, gives the answers of scikit-learn."""
    frame = credit()
    number, network = isinstance(head, PoissonRegressor), isinstance(head, MLPClassifier)
    if number:
        frame["default"] = np.random.default_rng(3).poisson(frame["age"] / 20)
    if isinstance(head, CalibratedClassifierCV):
        # Sigmoids of three classes are no softmax.
        frame["default"] = np.where(frame["age"] > 60, "later", frame["default"])
    held = frame.drop(columns=["customer", "default"])
    model = make_pipeline(*pipeline().named_steps.values()).set_params(logisticregression=head)
    model.fit(held, frame["default"])
    folder = tmp_path / "deployment"
    report = cloison.audit(
        model,
        frame,
        id="customer",
        label="default",
        passive=PASSIVE,
        deployment=folder,
        policies=["none", "rounding (decimals = 1)"],
    )
    assert report.verdict is not None
    assert set(report.policies.index) >= {"none", "rounding (decimals = 1)"}
    parties = Folder(folder, programs)
    part = "parameters.safetensors" if network else "parameters.json"
    parties.run("passive-1", "import-parameters", "--parameters", part, "--active-party", "active")
    parties.run("active", "import-parameters", "--parameters", part)
    if network:
        top = ("--parameters", "top.safetensors", "--active-party", "active")
        parties.run("coordinator", "import-parameters", *top)
    scores = parties.scores(["publish", "--training-ids", "data/train.ids"])
    asked = (folder / "active/data/test.ids").read_text().split()
    rows = frame.set_index("customer").loc[asked]
    # The folder's policy is the first one, `none`.
    if number:
        assert np.abs(scores["default"] / model.predict(rows[held.columns]) - 1).max() < 1e-12
    else:
        expected = model.predict_proba(rows[held.columns])
        assert np.abs(scores[list(model.classes_)].to_numpy() - expected).max() < 1e-12


@pytest.mark.parametrize("link", ["identity", "log"])
def test_a_number_is_trained_by_the_parties_of_a_folder(programs: Path, tmp_path: Path, link: str) -> None:
    """The parties of the folder train on secret shares what scikit-learn finds with all data in one place."""
    frame = credit()
    rng = np.random.default_rng(8)
    predictor = frame["age"] / 40 + 0.4 * frame["late"] - 0.8 * (frame["grade"] == "low")
    exact = np.exp(predictor - 2)
    frame["default"] = (
        rng.poisson(exact) if link == "log" else np.round(1000 + 50 * predictor + rng.normal(0, 5, len(frame)), 1)
    )
    held = ["age", "late", "grade"]
    folder = tmp_path / "deployment"
    cloison.try_table(
        frame[["customer", *held, "default"]],
        id="customer",
        label="default",
        passive=["late", "grade"],
        number=True,
        link=link,
        policies=["none"],
        deployment=folder,
    )
    found = Folder(folder, programs).scores(["train"])["default"]
    trained = frame[frame["customer"].isin((folder / "active/data/train.ids").read_text().split())]
    columns = ColumnTransformer([("grade", OneHotEncoder(drop="first"), ["grade"])], remainder="passthrough")
    head = PoissonRegressor(alpha=0, max_iter=1000) if link == "log" else LinearRegression()
    model = make_pipeline(columns, head).fit(trained[held], trained["default"])
    expected = model.predict(frame.set_index("customer").loc[found.index][held])
    # The folder's training stops early, so that both are near each other and not equal.
    away = np.abs(found.to_numpy() - expected).mean() / expected.std()
    assert away < 0.1, away


def test_a_verdict_takes_one_call(programs: Path) -> None:
    assert programs
    data = load_breast_cancer(as_frame=True)
    frame = data.frame.assign(target=np.where(data.frame["target"] == 1, "benign", "malignant"))
    passive = [name for name in frame.columns if name.startswith("worst")]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(
        frame[data.feature_names], frame["target"]
    )
    report = cloison.audit(model, frame, label="target", passive=passive)
    assert report.verdict is not None
    assert {"none", "class_label"} <= {policy.split(" ")[0] for policy in report.policies.index}
    tried = cloison.try_table(credit(), id="customer", label="default", passive=PASSIVE, policies=["class_label"])
    assert json.dumps(str(tried.verdict))
    counts = credit().assign(default=lambda frame: frame["late"] + (frame["age"] > 50))
    counts["late"] = np.random.default_rng(1).permutation(counts["late"])
    for link in (None, "log"):
        tried = cloison.try_table(
            counts, id="customer", label="default", passive=PASSIVE, number=True, link=link, policies=["none"]
        )
        assert tried.verdict is not None
    with pytest.raises(cloison.InputError, match="incom"):
        cloison.try_table(credit(300), id="customer", label="default", passive=["incom"])
