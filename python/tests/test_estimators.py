"""A deployment as an estimator of scikit-learn, against three real processes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from deployment import Deployment
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score
from sklearn.model_selection import PredefinedSplit, cross_val_score

import cloison
from cloison.estimators import DeployedClassifier, DeployedRegressor


def frame(deployment: Deployment, part: str) -> pd.DataFrame:
    """The ids and the labels of some records, as the active party has them."""
    rows = pd.read_csv(deployment.work / "data" / "active.csv", dtype=str).set_index("id")
    return rows.loc[deployment.ids(part), ["label"]]


@pytest.fixture
def party(deployment: Deployment) -> Iterator[cloison.ActiveParty]:
    with cloison.ActiveParty.from_config(deployment.work / "active.toml", root=deployment.work) as made:
        yield made


def test_scores_are_those_of_the_service(deployment: Deployment, party: cloison.ActiveParty) -> None:
    test = frame(deployment, "test")
    expected = party.predict(list(test.index)).drop(columns="status")
    model = DeployedClassifier(party)
    assert model.predict_proba(test).tobytes() == expected.to_numpy().tobytes()
    assert list(model.classes_) == list(expected.columns)
    assert list(model.predict(test)) == list(expected.idxmax(axis=1))
    # With the ids in a column, in another order.
    mixed = test.iloc[::-1].rename_axis("customer").reset_index()
    assert (DeployedClassifier(party, id="customer").predict_proba(mixed) == expected.to_numpy()[::-1]).all()
    assert model.score(test, test["label"]) == accuracy_score(test["label"], model.predict(test)) > 0.5
    assert is_classifier(model)
    assert is_regressor(DeployedRegressor(party))


def test_what_is_not_scored_and_what_is_no_frame_is_refused(deployment: Deployment, party: cloison.ActiveParty) -> None:
    test, model = frame(deployment, "test"), DeployedClassifier(party)
    both = pd.concat(
        [test.iloc[:5], frame(deployment, "train").iloc[:2], test.iloc[:1].rename(index=lambda _: "nobody")]
    )
    with pytest.raises(cloison.RecordsNotScoredError, match=r"3 of 8 .* 2 training_record, 1 not_found"):
        model.predict_proba(both)
    for numbered in (test.reset_index(), test.reset_index().sample(frac=0.5, random_state=1)):
        with pytest.raises(cloison.FrameError, match="numbers its rows"):
            model.predict(numbered)
    with pytest.raises(cloison.FrameError, match="no column 'customer'"):
        DeployedClassifier(party, id="customer").predict(test)
    with pytest.raises(cloison.FrameError, match="is a ndarray"):
        model.predict(np.zeros((2, 2)))  # type: ignore[arg-type]
    with pytest.raises(cloison.FrameError, match="of classes"):
        DeployedRegressor(party).predict(test)
    with pytest.raises(cloison.IdsError, match="the same as an id before it"):
        model.predict(pd.concat([test.iloc[:1], test.iloc[:1]]))


def test_fit_has_a_model_trained_on_the_records_of_the_frame(untrained: Deployment) -> None:
    train, test = frame(untrained, "train"), frame(untrained, "test")
    with cloison.ActiveParty.from_config(untrained.work / "active.toml", root=untrained.work) as party:
        # The passive party takes part from 1000 records on.
        model = clone(DeployedClassifier(party)).fit(train.iloc[:1000], train["label"].iloc[:1000])
        described = party.describe()
        assert model.published_.model_version == described.version
        assert described.training.training_records + described.training.validation_records == 1000
        assert model.predict_proba(test).sum(axis=1) == pytest.approx(1)
        # Each fold trains a model and puts it in service, and may not ask about what another fold was trained on.
        whole = pd.concat([train, test.iloc[:40]])
        folds = PredefinedSplit([-1] * len(train) + [0] * 40)
        (accuracy,) = cross_val_score(model, whole, whole["label"], cv=folds)
        assert 0.3 < accuracy <= 1
        assert party.describe().version != described.version
