"""A fallback of the active party: records that another party does not hold, and parties that are down."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deployment import Deployment
from sklearn.linear_model import LogisticRegression
from test_inference import infer, open_client, texts
from tritonclient.utils import InferenceServerException

import cloison
from cloison._pb import active_party_pb2, common_pb2
from cloison.estimators import DeployedClassifier

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib


def own_model(deployment: Deployment, to: Path) -> tuple[Any, pd.DataFrame]:
    """A model of the active party's features, with its file in a folder; and the features by record."""
    schema = tomllib.loads((deployment.work / "data" / "active.schema.toml").read_text())
    rows = pd.read_csv(deployment.work / "data" / "active.csv", dtype={"id": str}).set_index("id")
    names = [feature["name"] for feature in schema["features"]]
    train = rows.loc[deployment.ids("train")]
    model = LogisticRegression(max_iter=2000).fit(train[names], train["label"])
    cloison.save_model(model, train[names], to, label="label")
    return model, rows[names]


def configure(deployment: Deployment, more: str = "") -> None:
    with (deployment.work / "active.toml").open("a") as file:
        file.write(f'\n[fallback]\nparameters = "own/model.json"\nraw = true\n{more}')


def test_the_partys_own_model_answers_where_the_others_cannot(programs: Path, tmp_path: Path) -> None:
    made = Deployment(programs, tmp_path)
    model, features = own_model(made, tmp_path / "own")
    configure(made)
    for name in ("coordinator", "active"):
        made.edit(name, "listen =", "peer_timeout_ms = 4000\nlisten =")
    test = made.ids("test")[:40]
    # The passive party loses some records before anything begins.
    table = tmp_path / "data" / "passive-1.csv"
    lost = set(test[::4])
    rows = table.read_text().splitlines()
    table.write_text("\n".join(row for row in rows if row.split(",")[0] not in lost) + "\n")
    mine = pd.DataFrame(model.predict_proba(features.loc[test]), index=test, columns=model.classes_)
    with made, cloison.ActiveParty.from_config(tmp_path / "active.toml", root=tmp_path) as party:
        made.run("active-party", "train", "--config", "active.toml")
        found = party.predict([*test, "nobody"])
        expected = ["fallback" if one in lost else "ok" for one in test]
        assert found["status"].tolist() == [*expected, "not_found"]
        version = found.attrs["model_version"]
        assert version
        scores = found[list(model.classes_)]
        own = scores.loc[[one for one in test if one in lost]]
        assert np.abs((own - mine.loc[own.index]).to_numpy()).max() < 1e-12
        others = scores.loc[[one for one in test if one not in lost]]
        assert np.abs((others - mine.loc[others.index]).to_numpy()).max() > 1e-3
        assert scores.loc["nobody"].isna().all()
        # An estimator takes both.
        frame = pd.DataFrame(index=test)
        assert (DeployedClassifier(party).predict_proba(frame) == found.iloc[:-1, :-1].to_numpy()).all()
        # The command line marks the rows.
        (tmp_path / "asked.ids").write_text("\n".join(test))
        made.run("active-party", "predict", "--config", "active.toml", "--ids", "asked.ids", "--out", "scores.csv")
        written = pd.read_csv(tmp_path / "scores.csv", dtype={"id": str}).set_index("id")
        assert written["status"].tolist() == expected
        assert (written[list(model.classes_)].to_numpy() == scores.loc[test].to_numpy()).all()
        # Without the passive party, and without the coordinator, the own model answers every record.
        for away, seconds in (("passive-1", 8), ("coordinator", 12)):
            made.stop(away)
            began = time.monotonic()
            alone = party.predict([*test, "nobody"])
            assert time.monotonic() - began < seconds
            assert alone["status"].tolist() == ["fallback"] * len(test) + ["not_found"]
            assert alone.attrs["model_version"] == ""
            assert np.abs((alone.loc[test, list(model.classes_)] - mine).to_numpy()).max() < 1e-12
        with pytest.raises(cloison.UnavailableError):
            party.predict(["nobody"])
        # By the Open Inference Protocol too; but no fallback stands in for a model asked for by its version.
        with open_client(made) as client:
            assert texts(infer(client, test[:2]), "row_status") == ["fallback", "fallback"]
            with pytest.raises(InferenceServerException) as refused:
                infer(client, test[:2], model_version=version)
            assert refused.value.status() == "StatusCode.UNAVAILABLE"


def test_a_service_for_fewer_parties_answers_in_place_of_a_party(programs: Path, tmp_path: Path) -> None:
    made = Deployment(programs, tmp_path, features=6, parties=("passive-2",))
    made.add("passive-2", "passive-1", ("passive-1", "passive-2"))
    made.edit("passive-2", "[training]", '[training]\ncomputing_party = "passive-1"')
    for name in ("coordinator", "active"):
        made.edit(name, "listen =", "peer_timeout_ms = 4000\nlisten =")
    # A second coordinator knows the first passive party alone; a second process of the active party asks it.
    made.add("coordinator-2", "coordinator", ("state/coordinator", "state/coordinator-2"))
    made.add(
        "active-2",
        "active",
        ("state/active", "state/active-2"),
        (made.address("coordinator"), made.address("coordinator-2")),
    )
    first = f'name = "passive-1"\naddress = "{made.address("passive-1")}"\n'
    second = f'[[passive_parties]]\nname = "passive-2"\naddress = "{made.address("passive-2")}"\n'
    for name in ("coordinator", "active"):
        made.edit(name, first, f"{first}\n{second}")
    for name, other in (("active", "active-2"), ("active-2", "active")):
        # Each is the other's fallback: they do not ask in circles.
        with (tmp_path / f"{name}.toml").open("a") as file:
            file.write(f'\n[fallback]\nservice = {{ address = "{made.address(other)}" }}\n')
    test = made.ids("test")[:40]
    table = tmp_path / "data" / "passive-2.csv"
    lost = set(test[::4])
    rows = table.read_text().splitlines()
    table.write_text("\n".join(row for row in rows if row.split(",")[0] not in lost) + "\n")
    party = cloison.ActiveParty.from_config
    with (
        made,
        party(tmp_path / "active.toml", root=tmp_path) as all_parties,
        party(tmp_path / "active-2.toml", root=tmp_path) as fewer,
    ):
        for name in ("active", "active-2"):
            made.run("active-party", "train", "--config", f"{name}.toml")
        alone = fewer.predict(test)
        assert (alone["status"] == "ok").all()
        found = all_parties.predict([*test, "nobody"])
        expected = ["fallback" if one in lost else "ok" for one in test]
        assert found["status"].tolist() == [*expected, "not_found"]
        assert found.attrs["model_version"] != alone.attrs["model_version"]
        classes = [name for name in alone.columns if name != "status"]
        filled = found.loc[sorted(lost), classes]
        assert (filled.to_numpy() == alone.loc[filled.index, classes].to_numpy()).all()
        others = found.loc[[one for one in test if one not in lost], classes]
        assert np.abs((others - alone.loc[others.index, classes]).to_numpy()).max() > 1e-3
        # The command line writes them in one table.
        (tmp_path / "asked.ids").write_text("\n".join(test))
        made.run("active-party", "predict", "--config", "active.toml", "--ids", "asked.ids", "--out", "scores.csv")
        written = pd.read_csv(tmp_path / "scores.csv", dtype={"id": str}).set_index("id")
        assert written["status"].tolist() == expected
        # While the second party is down, the model of the others scores all records.
        made.stop("passive-2")
        began = time.monotonic()
        without = all_parties.predict(test)
        assert time.monotonic() - began < 12
        assert (without["status"] == "fallback").all()
        assert without.attrs["model_version"] == ""
        assert (without[classes].to_numpy() == alone.loc[test, classes].to_numpy()).all()
        # Without both coordinators nobody answers, and neither service asks the other for ever.
        for name in ("coordinator", "coordinator-2"):
            made.stop(name)
        began = time.monotonic()
        with pytest.raises(cloison.UnavailableError):
            all_parties.predict(test)
        assert time.monotonic() - began < 25


def test_a_fallback_that_does_not_fit_is_refused_by_name(programs: Path, tmp_path: Path) -> None:
    made = Deployment(programs, tmp_path)
    own_model(made, tmp_path / "own")
    before = (tmp_path / "active.toml").read_text()
    content = json.loads((tmp_path / "own" / "model.json").read_text())

    def refused(more: str, **changed: Any) -> str:
        (tmp_path / "own" / "model.json").write_text(json.dumps(content | changed))
        (tmp_path / "active.toml").write_text(before)
        configure(made, more)
        return made.run("active-party", "check", "--config", "active.toml", codes=(1, 2)).stderr

    assert "`when` names no case" in refused("when = []")
    assert "one of `parameters` and `service`" in refused('service = { address = "127.0.0.1:1" }')
    assert "`fallback.when`: unknown variant" in refused('when = ["always"]')
    two: dict[str, Any] = {
        "class_names": ["a", "b"],
        "weights": content["weights"][:2],
        "bias": [0.0, 0.0],
        "samples": [],
    }
    assert "`class_names`" in refused("", **two)
    assert "one score per class" in refused("", **{**two, "samples": content["samples"]})
    assert content["feature_names"][0] in refused("", feature_names=["odd", *content["feature_names"][1:]])
    (tmp_path / "own" / "model.json").unlink()
    (tmp_path / "active.toml").write_text(before)
    configure(made)
    assert "model.json" in made.run("active-party", "check", "--config", "active.toml", codes=(1, 2)).stderr


def test_answers_of_different_forms_are_not_put_together() -> None:
    """A party that dies between two calls leaves labels of the first and scores of the fallback."""
    message = active_party_pb2.ScoreResponse
    label = common_pb2.Release(labels=common_pb2.Labels(classes=2, labels=[1]))
    score = common_pb2.Release(
        probabilities=common_pb2.Matrix(rows=1, columns=2, values=np.array([0.25, 0.75]).tobytes())
    )
    names = ["no", "yes"]
    first = message(model_version="m-1", class_names=names, row_status=[common_pb2.ROW_STATUS_OK], release=label)
    own = message(model_version="", class_names=names, row_status=[common_pb2.ROW_STATUS_FALLBACK], release=score)
    other = message(model_version="m-2", class_names=names, row_status=[common_pb2.ROW_STATUS_OK], release=label)

    class Stub:
        def __init__(self, *answers: Any) -> None:
            self.answers = list(answers)

        def Predict(self, request: Any, timeout: float | None) -> Any:  # noqa: N802
            return self.answers.pop(0)

    class Client(cloison.ActiveParty):
        def __init__(self, *answers: Any) -> None:
            self.stub, self._timeout, self._peer = Stub(*answers), 1.0, None  # type: ignore[assignment]

        def _active(self) -> Any:
            return self.stub

    def asked(*answers: Any) -> pd.DataFrame:
        return pd.concat(list(Client(*answers).predict_stream(["a", "b"], chunk=1)))

    assert asked(first, first)["label"].tolist() == ["yes", "yes"]
    with pytest.raises(cloison.ModelChangedError, match="different forms"):
        asked(first, own)
    with pytest.raises(cloison.ModelChangedError, match="another model"):
        asked(first, other)
    # The version of a fallback is not known, and no other.
    assert asked(own, own)["status"].tolist() == ["fallback", "fallback"]
