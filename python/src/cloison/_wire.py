"""From messages to data frames and back. Messages are checked here; the rest of the package takes what comes out of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ._pb import active_party_pb2, common_pb2
from .errors import IdsError, ProtocolError

_MOST_ID_BYTES: Final = 128
_DOUBLE, _FLOAT = 8, 4
_PREFIX: Final = "ROW_STATUS_"


def refuse_containers(ids: object) -> None:
    """Refuses what gives something else than ids when it is iterated over.

    Raises:
        IdsError: It is one text, a data frame or a mapping.
    """
    if isinstance(ids, (str, bytes)):
        raise IdsError("ids is one text; give a list of ids")
    if isinstance(ids, (pd.DataFrame, Mapping)):
        kind = type(ids).__name__
        raise IdsError(f"ids is a {kind}, which gives its columns' names; give the column of ids, as `frame['id']`")


def checked_ids(ids: Iterable[str], first: int = 0) -> list[str]:
    """The ids as a list.

    Args:
        ids: Distinct record ids, 1 to 128 bytes each, without control characters.
        first: Position of the first one, for messages.

    Raises:
        IdsError: One of them is no id or comes twice. The message has its position and not the id.
    """
    refuse_containers(ids)
    checked: list[str] = []
    seen: set[str] = set()
    for position, given in enumerate(ids, start=first):
        # The text of NumPy is a str as well.
        if not isinstance(given, str):
            # Whole numbers become floats where one of them is missing, and `astype(str)` would keep the point.
            way = "ids.astype('Int64').astype(str)" if isinstance(given, float) else "ids.astype(str)"
            raise IdsError(f"id {position} is of type {type(given).__name__}; ids are texts, as `{way}` makes them")
        text = str(given)
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise IdsError(f"id {position} is not valid Unicode") from None
        if not 1 <= size <= _MOST_ID_BYTES:
            raise IdsError(f"id {position} has {size} bytes, expected 1 to {_MOST_ID_BYTES}")
        # Almost all ids are printable ASCII, where one pass settles it.
        if not (text.isascii() and text.isprintable()) and any(unicodedata.category(letter) == "Cc" for letter in text):
            raise IdsError(f"id {position} holds a control character")
        if text in seen:
            raise IdsError(f"id {position} is the same as an id before it")
        seen.add(text)
        checked.append(text)
    return checked


def pack_ids(ids: Sequence[str]) -> common_pb2.RecordIds:
    """Ids as a message: their text end to end, and the byte at which each one ends."""
    lengths = [len(record_id.encode()) for record_id in ids]
    return common_pb2.RecordIds(text="".join(ids), ends=np.cumsum(lengths, dtype=np.uint32).tolist() if lengths else [])


def matrix(message: common_pb2.Matrix) -> npt.NDArray[np.float64]:
    """A matrix, rows × columns.

    Raises:
        ProtocolError: Its bytes do not fit its shape, or a value is not finite.
    """
    shape = (message.rows, message.columns)
    count = message.rows * message.columns
    if len(message.values) == _DOUBLE * count:
        values = np.frombuffer(message.values, dtype="<f8").astype(np.float64)
    elif len(message.values) == _FLOAT * count:
        values = np.frombuffer(message.values, dtype="<f4").astype(np.float64)
    else:
        raise ProtocolError(f"a matrix of {shape[0]} × {shape[1]} came with {len(message.values)} bytes")
    if not np.isfinite(values).all():
        raise ProtocolError("a matrix holds a value that is not finite")
    return values.reshape(shape)


def status_name(status: int) -> str:
    """A row's status as it stands in a data frame: `ok`, `not_found` and so on."""
    try:
        return common_pb2.RowStatus.Name(status).removeprefix(_PREFIX).lower()
    except ValueError:
        return f"status_{status}"


def frame(ids: Sequence[str], answer: active_party_pb2.ScoreResponse, status_column: str) -> pd.DataFrame:
    """A scored request as a data frame, indexed by id: the release, then the status of each record.

    Scores and numbers have a column of float64 per class, NaN where the record was not scored; labels have one categorical column
    `label`; ciphertexts have a column of UInt64 per class.

    Raises:
        ProtocolError: The answer does not fit the request.
        ValueError: A column of the release has the name of the status column.
    """
    if len(answer.row_status) != len(ids):
        raise ProtocolError(f"{len(ids)} records were asked for, {len(answer.row_status)} statuses came")
    scored = (common_pb2.ROW_STATUS_OK, common_pb2.ROW_STATUS_FALLBACK)
    ok = np.isin(np.asarray(answer.row_status, dtype=np.int64), scored)
    kind = answer.release.WhichOneof("kind")
    columns = _columns(answer, kind, ok)
    if status_column in columns:
        raise ValueError(
            f"the release has a column {status_column!r}; name another one for the status (status_column=)"
        )
    names = {status: status_name(status) for status in set(answer.row_status)}
    columns[status_column] = [names[status] for status in answer.row_status]
    made = pd.DataFrame(columns, index=pd.Index(list(ids), name="id"))
    made.attrs.update(model_version=answer.model_version, release=kind)
    return made


def _columns(answer: active_party_pb2.ScoreResponse, kind: str | None, ok: npt.NDArray[np.bool_]) -> dict[str, Any]:
    classes, rows, release = list(answer.class_names), int(ok.sum()), answer.release
    if kind in {"probabilities", "numbers"}:
        values = matrix(release.probabilities if kind == "probabilities" else release.numbers)
        _fits(values.shape, (rows, len(classes)))
        whole = np.full((len(ok), len(classes)), np.nan)
        whole[ok] = values
        return {name: whole[:, place] for place, name in enumerate(classes)}
    if kind == "labels":
        _fits((len(release.labels.labels), release.labels.classes), (rows, len(classes)))
        codes: npt.NDArray[np.int64] = np.full(len(ok), -1, dtype=np.int64)
        codes[ok] = np.asarray(release.labels.labels, dtype=np.int64)
        if codes.size and codes.max() >= len(classes):
            raise ProtocolError("a label is beyond the number of classes")
        return {"label": pd.Categorical.from_codes(codes, categories=pd.Index(classes))}
    if kind == "ciphertexts":
        sent = release.ciphertexts
        _fits((sent.rows, sent.columns), (rows, len(classes)))
        if len(sent.values) != _DOUBLE * rows * len(classes):
            raise ProtocolError(f"ciphertexts of {rows} × {len(classes)} came with {len(sent.values)} bytes")
        numbers = np.zeros((len(ok), len(classes)), dtype=np.uint64)
        numbers[ok] = np.frombuffer(sent.values, dtype="<u8").reshape(rows, len(classes))
        return {name: pd.arrays.IntegerArray(numbers[:, place].copy(), ~ok) for place, name in enumerate(classes)}
    raise ProtocolError("the answer holds no release")


def _fits(found: tuple[int, ...], expected: tuple[int, int]) -> None:
    if tuple(found) != expected:
        raise ProtocolError(f"a release of {found[0]} × {found[1]} came, expected {expected[0]} × {expected[1]}")
