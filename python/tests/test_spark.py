"""Scores for a table of Spark: what needs no Spark, and a table where pyspark is (scripts/spark.sh)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pytest
from deployment import Deployment

import cloison
from cloison import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's own clients leave sockets to the collector.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    # The tasks' interpreter has the package too.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    yield made
    made.stop()


def party(deployment: Deployment) -> dict[str, Any]:
    files = {name: str(path) for name, path in deployment.tls("active").items()}
    return {"address": deployment.address("active"), **files}


def test_scores_are_those_of_the_client_and_a_retry_is_free(deployment: Deployment, session: SparkSession) -> None:
    ids = deployment.ids("test")
    with cloison.ActiveParty(**party(deployment)) as client:
        expected = client.predict(ids)
    table = session.createDataFrame(pd.DataFrame({"customer id": [*ids, ids[0], "nobody"]}))
    arguments: dict[str, Any] = {"request_id": "evening", "id": "customer id", "partitions": 3, "chunk": 50}
    first = spark.predict(table, party(deployment), **arguments).toPandas().set_index("id")
    assert sorted(first.index) == sorted([*ids, "nobody"])
    assert first.loc["nobody", "status"] == "not_found"
    assert first.loc["nobody", "scores"] is None
    wanted = expected.drop(columns="status")
    scores = pd.DataFrame(first["scores"].drop("nobody").to_dict()).T.loc[ids, wanted.columns]
    assert scores.to_numpy(dtype=float).tolist() == wanted.to_numpy().tolist()
    again = spark.predict(table, party(deployment), **arguments).toPandas().set_index("id").loc[first.index]
    assert again["scores"].tolist() == first["scores"].tolist()
    assert set(again["model_version"]) == {expected.attrs["model_version"]}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"request_id": ""}, "1 to 57"),
        ({"request_id": "x", "id": "no"}, "no column 'no'"),
        ({"request_id": "x", "chunk": 0}, "chunk"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        spark.predict(cast(Any, pd.DataFrame({"id": ["a"]})), {}, **arguments)


class Away:
    """A client whose service is away for a number of calls."""

    def __init__(self, calls: int) -> None:
        self.calls, self.asked = calls, list[tuple[list[str], str]]()

    def predict(self, ids: list[str], *, request_id: str) -> pd.DataFrame:
        self.asked.append((ids, request_id))
        if len(self.asked) <= self.calls:
            raise cloison.UnavailableError("away", "UNAVAILABLE")
        return pd.DataFrame({"status": ["ok"]}, index=pd.Index(ids, name="id"))


def test_a_service_that_is_away_is_asked_again_under_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("cloison.spark.time.sleep", slept.append)
    client = Away(3)
    spark._patiently(cast(Any, client), ["a"], "night/1", 300.0)
    assert client.asked == [(["a"], "night/1")] * 4
    assert slept == [0.5, 1.0, 2.0]
    with pytest.raises(cloison.UnavailableError):
        spark._patiently(cast(Any, Away(3)), ["a"], "night/1", 0.1)


def test_the_name_of_a_call_is_that_of_its_ids() -> None:
    names = [spark._digest(ids) for ids in (["a", "b"], ["b", "a"], ["ab"], ["a"])]
    assert len(set(names)) == len(names)
    assert spark._digest(["a", "b"]) == names[0]
    assert {len(name) for name in names} == {32}


def test_rows_have_scores_or_a_label() -> None:
    index = pd.Index(["a", "b"], name="id")
    scores = pd.DataFrame(
        {"no": [0.25, float("nan")], "yes": [0.75, float("nan")], "status": ["ok", "not_found"]}, index=index
    )
    scores.attrs.update(release="probabilities", model_version="m")
    rows = spark._rows(scores)
    assert rows["scores"].tolist() == [{"no": 0.25, "yes": 0.75}, None]
    assert rows["label"].tolist() == [None, None]
    label = pd.Categorical(["yes", None], categories=["no", "yes"])
    labels = pd.DataFrame({"label": label, "status": ["ok", "not_found"]}, index=index)
    labels.attrs.update(release="labels", model_version="m")
    rows = spark._rows(labels)
    assert rows["label"].tolist() == ["yes", None]
    assert rows["scores"].tolist() == [None, None]
    assert rows["id"].tolist() == ["a", "b"]


def test_scores_of_a_fallback_are_scores() -> None:
    """They are marked, and none of them is dropped."""
    answer = pd.DataFrame(
        {"no": [0.2, 0.4, np.nan], "yes": [0.8, 0.6, np.nan], "status": ["ok", "fallback", "not_found"]},
        index=pd.Index(["a", "b", "c"], name="id"),
    )
    answer.attrs.update(release="probabilities", model_version="")
    rows = spark._rows(answer)
    assert rows["scores"].tolist() == [{"no": 0.2, "yes": 0.8}, {"no": 0.4, "yes": 0.6}, None]
    assert rows["status"].tolist() == ["ok", "fallback", "not_found"]
