"""Scores for a table of Spark, from three real processes. Run where pyspark is (scripts/spark.sh)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from deployment import Deployment

import cloison

pyspark = pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's own clients leave sockets to the collector.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
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
    from cloison import spark

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
def test_arguments_that_cannot_be_are_refused(session: SparkSession, arguments: dict[str, Any], says: str) -> None:
    from cloison import spark

    with pytest.raises(ValueError, match=says):
        spark.predict(session.createDataFrame(pd.DataFrame({"id": ["a"]})), {}, **arguments)
