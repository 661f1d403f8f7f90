"""Audits of models of scikit-learn and of data frames: the same answers, and refusals that name the step."""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deployment import free_ports
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes
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
    TweedieRegressor,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, PowerTransformer, StandardScaler

import cloison
from cloison import _linear

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
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    words = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(drop="first"))
    columns = ColumnTransformer(
        [
            ("numbers", numbers, ["age", "income"]),
            ("words", words, ["branch", "employer"]),
            ("grades", OrdinalEncoder(categories=[["low", "mid", "high"]]), ["grade"]),
        ],
        remainder="passthrough",
    )
    return make_pipeline(columns, MinMaxScaler(), LogisticRegression(max_iter=1000))


def test_weights_are_folded_onto_the_columns() -> None:
    frame = credit()
    held = frame.drop(columns=["customer", "default"])
    model = pipeline().fit(held, frame["default"])
    folded = _linear.linear(model, held, "default")
    assert np.abs(folded.scores(np.arange(len(held))) - model.predict_proba(held)).max() < 1e-12
    kinds = {column.name: _linear.schema(column)["kind"] for column in folded.columns}
    assert kinds["employer"] == "categorical"
    assert (kinds["grade"], kinds["staff"], kinds["income"]) == ("ordinal", "binary", "numeric")
    assert "income is missing" in folded.features()
    # Labels of three classes, and no step at all.
    numbers = held[["age", "late"]]
    model = LogisticRegression(max_iter=1000).fit(numbers, frame["grade"])
    assert (
        np.abs(_linear.linear(model, numbers, "grade").scores(range(50)) - model.predict_proba(numbers[:50])).max()
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
    folded = _linear.linear(model, held, "default")
    assert np.abs(folded.scores(range(600)) - model.predict_proba(held[["age", "late", "staff"]])).max() < 1e-12
    # Whatever the model does not take is in no schema.
    assert [column.name for column in folded.columns] == ["age", "late", "staff"]
    with pytest.raises(cloison.FrameError, match="age"):
        _linear.linear(model, held[["late", "staff"]], "default")
    blank = held.assign(employer=pd.Series(["", None, "public"] * 200, dtype="object"))
    words = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(blank[["employer"]], frame["default"])
    with pytest.raises(cloison.FrameError, match="blank text"):
        _linear.linear(words, blank[["employer"]], "default")
    with pytest.raises(cloison.FrameError, match="no column 'defalt'"):
        cloison.audit(model, frame, label="defalt", passive=["late"])


def test_what_is_not_linear_is_refused_by_name() -> None:
    frame = credit(300)
    held, label = frame[["age", "late"]], frame["default"]
    for model, says in (
        (make_pipeline(PowerTransformer(), LogisticRegression()), r"powertransformer.*PowerTransformer"),
        (make_pipeline(StandardScaler(), MLPClassifier(max_iter=20)), "MLPClassifier"),
        (make_pipeline(MinMaxScaler(clip=True), LogisticRegression()), "clip"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(held, label)
        with pytest.raises(cloison.FrameError, match=says):
            cloison.audit(
                model, frame[["customer", "age", "late", "default"]], id="customer", label="default", passive=["late"]
            )


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
    folded = _linear.linear(whole, held, "claims")
    expected = whole.predict(held)
    assert folded.classes == ["claims"]
    assert folded.link in {"identity", "log"}
    assert (np.abs(folded.scores(range(600))[:, 0] - expected) / np.maximum(np.abs(expected), 1)).max() < 1e-12


def test_what_is_no_single_number_is_refused_by_name() -> None:
    frame = credit(300)
    held = frame[["age", "late"]]
    both = LinearRegression().fit(held, np.column_stack([held["age"], held["late"]]))
    with pytest.raises(cloison.FrameError, match="predicts 2 numbers"):
        _linear.linear(both, held, "claims")
    moved = TransformedTargetRegressor(LinearRegression(), func=np.log1p, inverse_func=np.expm1).fit(
        held, frame["age"] + 1
    )
    with pytest.raises(cloison.FrameError, match="TransformedTargetRegressor is not taken"):
        _linear.linear(moved, held, "claims")


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


@pytest.mark.parametrize("head", [LogisticRegression(max_iter=1000), PoissonRegressor(max_iter=1000)], ids=str)
def test_a_pipeline_is_served_with_the_same_answers(programs: Path, tmp_path: Path, head: Any) -> None:
    """The folder of the deployment, started as its README says, gives the answers of scikit-learn."""
    frame = credit()
    number = isinstance(head, PoissonRegressor)
    if number:
        frame["default"] = np.random.default_rng(3).poisson(frame["age"] / 20)
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
    ports = dict(zip((7100, 7101, 7102), free_ports(3), strict=True))
    for file in folder.glob("*/*.toml"):
        moved = re.sub(
            r"(coordinator|active|passive-1|0\.0\.0\.0|127\.0\.0\.1):(\d+)",
            lambda m: f"127.0.0.1:{ports[int(m[2])]}",
            file.read_text(),
        )
        file.write_text(moved)
    services = {"coordinator": "coordinator", "passive-1": "passive-party", "active": "active-party"}
    processes = []

    def run(party: str, *words: str) -> subprocess.CompletedProcess[str]:
        called = [str(programs / services[party]), *words]
        return subprocess.run(called, cwd=folder / party, capture_output=True, text=True, timeout=60, check=False)

    lent = ("--parameters", "parameters.json", "--active-party", "active")
    assert run("passive-1", "import-parameters", "--config", "passive-1.toml", *lent).returncode == 0
    assert (
        run("active", "import-parameters", "--config", "active.toml", "--parameters", "parameters.json").returncode == 0
    )
    try:
        for party, program in services.items():
            words = [str(programs / program), "serve", "--config", f"{party}.toml"]
            with (tmp_path / f"{party}.log").open("w") as log:
                processes.append(subprocess.Popen(words, cwd=folder / party, stdout=log, stderr=log))
        deadline = time.monotonic() + 30
        while run("active", "check", "--config", "active.toml", "--health").returncode != 0:
            assert time.monotonic() < deadline, (tmp_path / "active.log").read_text()
            time.sleep(0.1)
        published = run("active", "publish", "--config", "active.toml", "--training-ids", "data/train.ids")
        assert published.returncode == 0, published.stderr
        asked = (folder / "active/data/test.ids").read_text().split()
        tls = folder / "active/tls"
        with cloison.ActiveParty(
            f"127.0.0.1:{ports[7102]}", ca=tls / "ca.pem", cert=tls / "active.pem", key=tls / "active.key"
        ) as service:
            scores = service.predict(asked)
    finally:
        for process in processes:
            process.terminate()
            process.wait(timeout=15)
    rows = frame.set_index("customer").loc[asked]
    # The folder's policy is the first one, `none`.
    if number:
        assert np.abs(scores["default"] / model.predict(rows[held.columns]) - 1).max() < 1e-12
    else:
        expected = model.predict_proba(rows[held.columns])
        assert np.abs(scores[list(model.classes_)].to_numpy() - expected).max() < 1e-12


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
    with pytest.raises(cloison.InputError, match="incom"):
        cloison.try_table(credit(300), id="customer", label="default", passive=["incom"])
