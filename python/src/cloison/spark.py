"""Scores for a table of Spark, in its own tasks: `cloison.spark.predict`. Needs pyspark and pyarrow (the extra `spark`)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from .errors import BusyError, DeadlineExceededError, UnavailableError, UnreachableError
from .party import _CALL_SECONDS, CALL_RECORDS, ActiveParty, _chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SCHEMA: Final = "id string, scores map<string, double>, label string, status string, model_version string"
_REQUEST_BYTES: Final = 57
_MAX_CHUNK: Final = 1 << 16


def predict(
    frame: DataFrame,
    party: Mapping[str, Any],
    *,
    request_id: str,
    id: str = "id",  # noqa: A002
    partitions: int = 64,
    chunk: int = CALL_RECORDS,
    timeout: float = _CALL_SECONDS,
    patience: float = 300.0,
) -> DataFrame:
    """Scores the records of a table of Spark.

    Each task asks the active party's service itself. What it asks in one call is the same however often it runs: records go to tasks by
    the hash of their ids, each task sorts its own, and the name of a call is made of `request_id` and its ids. So a task that is tried
    again, or a job that is run again with the same ids, `request_id`, `partitions` and `chunk`, spends no budget twice, as long as the
    coordinator remembers the names.

    Args:
        frame: The table; other columns than `id` are left out, and ids that occur twice are scored once.
        party: The arguments of `ActiveParty`: `address`, `ca`, `cert` and `key`, whose files every executor has.
        request_id: The name of this job, up to 57 bytes.
        id: The column of the record ids.
        partitions: Number of tasks, each with a call in flight.
        chunk: Records of a call.
        timeout: Seconds that one call may take.
        patience: Seconds for which a task tries again while the service cannot be reached or is busy.

    Returns:
        A row per id: `scores`, by class, or `label`, whichever the policy releases (null where the record was not scored); `status`, as
        `ActiveParty.predict` has it; and `model_version`, which differs between rows if a model was published meanwhile.

    Raises:
        ValueError: An argument is not taken.
    """
    if not 1 <= len(request_id.encode()) <= _REQUEST_BYTES:
        raise ValueError(f"request_id is a name of 1 to {_REQUEST_BYTES} bytes, by which a retry is known")
    if partitions < 1 or not 1 <= chunk <= _MAX_CHUNK:
        raise ValueError(f"partitions is at least 1, and chunk from 1 to {_MAX_CHUNK}")
    if id not in frame.columns:
        raise ValueError(f"the table has no column {id!r}; name the column of the record ids (id=)")
    # pyspark is an extra.
    from pyspark.sql import functions  # noqa: PLC0415

    ids = frame.select(functions.col(f"`{id}`").cast("string").alias("id"))
    # A number of partitions that is said is not changed by adaptive execution.
    each = ids.repartition(partitions, "id").dropDuplicates(["id"]).sortWithinPartitions("id")
    return each.mapInPandas(_scorer({**party, "timeout": timeout}, request_id, chunk, patience), _SCHEMA)


def _scorer(
    party: Mapping[str, Any], request_id: str, chunk: int, patience: float
) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """The function of a task, which Spark sends to its executors."""

    def score(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        records = chain.from_iterable(frame["id"].tolist() for frame in frames)
        with ActiveParty(**party) as client:
            for _, ids in _chunks(records, chunk):
                yield _rows(_patiently(client, ids, f"{request_id}/{_digest(ids)}", patience))

    return score


def _patiently(client: ActiveParty, ids: list[str], request_id: str, patience: float) -> pd.DataFrame:
    """Asks again while the service is away or busy; the name of the request makes it one request."""
    began, wait = time.monotonic(), 0.5
    while True:
        try:
            return client.predict(ids, request_id=request_id)
        except (BusyError, DeadlineExceededError, UnavailableError, UnreachableError):
            if time.monotonic() - began + wait > patience:
                raise
        time.sleep(wait)
        wait = min(2 * wait, 30.0)


def _digest(ids: list[str]) -> str:
    """A name for some ids in their order, of 32 letters; an id holds no line break."""
    return hashlib.sha256("\n".join(map(str, ids)).encode()).hexdigest()[:32]


def _rows(answer: pd.DataFrame) -> pd.DataFrame:
    """An answer with the columns of the table that Spark makes."""
    release, nothing = answer.drop(columns="status"), [None] * len(answer)
    scores: list[Any] = list(nothing)
    label: list[Any] = list(nothing)
    ok = answer["status"].isin(["ok", "fallback"]).tolist()
    if answer.attrs["release"] == "labels":
        label = [name if scored else None for name, scored in zip(release["label"], ok, strict=True)]
    elif answer.attrs["release"] is not None:
        rows = release.to_numpy(dtype=float).tolist()
        named = [dict(zip(release.columns, row, strict=True)) for row in rows]
        scores = [row if scored else None for row, scored in zip(named, ok, strict=True)]
    # Of type object: pandas makes NaN of None among texts.
    nullable = {name: pd.Series(column, dtype=object) for name, column in (("scores", scores), ("label", label))}
    columns: dict[str, Any] = {"id": answer.index, **nullable, "status": answer["status"].tolist()}
    return pd.DataFrame({**columns, "model_version": answer.attrs["model_version"]})
