"""A deployment as an estimator of scikit-learn (the extra `examples`): `fit` has it trained, `predict_proba` has records scored.

Features and labels stay where they are, at the parties. Of a frame only the record ids are used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from .errors import FrameError, RecordsNotScoredError
from .model import TrainingConfig
from .party import ActiveParty

_STATUS = "status of the record"


class _Deployed(BaseEstimator):  # type: ignore[misc]
    """What both have in common."""

    def __init__(self, party: ActiveParty, id: str | None = None, config: TrainingConfig | None = None) -> None:  # noqa: A002
        """Names the deployment. Nothing is connected.

        Args:
            party: The client of the active party's service.
            id: The column of the record ids in the frames to come; by default their index.
            config: The settings of a training; by default those of the client.
        """
        self.party = party
        self.id = id
        self.config = config

    def __sklearn_clone__(self) -> Any:
        """Another estimator of the same deployment, which has one model in service."""
        return type(self)(self.party, self.id, self.config)

    def fit(self, X: pd.DataFrame, y: object = None) -> Any:  # noqa: ARG002, N803
        """Has a model trained by all parties on the records of a frame, and put in service for everybody.

        Args:
            X: A row for each record. Other columns than the ids are not used.
            y: Not used: the active party has the labels.

        Raises:
            FrameError: There are no ids.
            CloisonError: As `ActiveParty.train`.
        """
        self.published_ = self.party.train(_ids(X, self.id), self.config)
        return self

    def _scored(self, frame: pd.DataFrame) -> pd.DataFrame:
        ids = _ids(frame, self.id)
        found = self.party.predict(ids, status_column=_STATUS)
        status = found.pop(_STATUS)
        if (missed := status[~status.isin(["ok", "fallback"])]).size:
            counts = ", ".join(f"{count} {name}" for name, count in missed.value_counts().items())
            raise RecordsNotScoredError(
                f"{missed.size} of {len(ids)} records were not scored: {counts}. `ActiveParty.predict` has the status of each"
            )
        return found


class DeployedClassifier(ClassifierMixin, _Deployed):  # type: ignore[misc]
    """The classifier of a deployment.

    Example:
        >>> with cloison.ActiveParty.from_config("active.toml") as party:
        ...     model = DeployedClassifier(party, id="customer").fit(train)
        ...     probabilities = model.predict_proba(test)
    """

    def predict_proba(self, X: pd.DataFrame) -> npt.NDArray[np.float64]:  # noqa: N803
        """The released scores: records × classes, in the order of `classes_`, which is known from then on.

        Raises:
            FrameError: There are no ids, or the policy releases labels and no scores.
            RecordsNotScoredError: A record was not scored: it is not there, was trained on, or its budget is spent. Scores of a
                fallback count as scores.
            CloisonError: As `ActiveParty.predict`.
        """
        found = self._scored(X)
        if found.attrs["release"] != "probabilities":
            raise FrameError(f"the policy in service releases {found.attrs['release']} and no probabilities")
        self.classes_ = found.columns.to_numpy(dtype=object)
        return found.to_numpy(dtype=np.float64)

    def predict(self, X: pd.DataFrame) -> npt.NDArray[np.object_]:  # noqa: N803
        """The class with the largest released score of each record, or the released label.

        Raises:
            FrameError: There are no ids, or the policy releases neither.
            RecordsNotScoredError: As `predict_proba`.
            CloisonError: As `ActiveParty.predict`.
        """
        found = self._scored(X)
        kind = found.attrs["release"]
        if kind == "labels":
            self.classes_ = found["label"].cat.categories.to_numpy(dtype=object)
            return found["label"].to_numpy(dtype=object)
        if kind == "ciphertexts" or found.shape[1] == 1:
            raise FrameError(f"the model in service releases {kind} and no class")
        self.classes_ = found.columns.to_numpy(dtype=object)
        return np.asarray(self.classes_[found.to_numpy().argmax(axis=1)])


class DeployedRegressor(RegressorMixin, _Deployed):  # type: ignore[misc]
    """The model of a number of a deployment. Its training is one on secret shares."""

    def predict(self, X: pd.DataFrame) -> npt.NDArray[np.float64]:  # noqa: N803
        """The released number of each record.

        Raises:
            FrameError: There are no ids, or the model in service is not of a number.
            RecordsNotScoredError: A record was not scored.
            CloisonError: As `ActiveParty.predict`.
        """
        found = self._scored(X)
        if found.attrs["release"] != "numbers" or found.shape[1] != 1:
            raise FrameError("the model in service is of classes: take DeployedClassifier")
        return found.to_numpy(dtype=np.float64)[:, 0]


def _ids(frame: pd.DataFrame, column: str | None) -> list[str]:
    """The record ids of a frame.

    Raises:
        FrameError: It is no frame, or has no such column, or an index that nobody gave it.
    """
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(f"X is a {type(frame).__name__}: give a data frame, which has the record ids")
    if column is None:
        # Rows that were selected keep their numbers.
        if frame.index.name is None and pd.api.types.is_integer_dtype(frame.index.dtype):
            raise FrameError(
                "the index of the frame numbers its rows: name the column of the record ids with id=, or give the index a name"
            )
        return [str(one) for one in frame.index]
    if column not in frame.columns:
        raise FrameError(f"the frame has no column {column!r} with the record ids")
    return [str(one) for one in frame[column]]
