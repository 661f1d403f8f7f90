"""Messages to data frames and back."""

from __future__ import annotations

import struct

import numpy as np
import pandas as pd
import pytest

import cloison
from cloison import _wire
from cloison._pb import active_party_pb2, common_pb2

OK, MISSING = common_pb2.ROW_STATUS_OK, common_pb2.ROW_STATUS_NOT_FOUND


def answer(
    release: common_pb2.Release, statuses: list[int], classes: tuple[str, ...] = ("no", "yes")
) -> active_party_pb2.ScoreResponse:
    # Numbers that a later version may send are no names of this one.
    made = active_party_pb2.ScoreResponse(model_version="m-1", class_names=classes, release=release)
    made.row_status.extend(statuses)  # type: ignore[arg-type]
    return made


def doubles(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def test_ids_are_packed_by_the_byte() -> None:
    packed = _wire.pack_ids(["a", "größe", "漢字"])
    assert packed.text == "agröße漢字"
    assert list(packed.ends) == [1, 8, 14]
    # As the receiver takes them apart.
    text, starts = packed.text.encode(), [0, *packed.ends[:-1]]
    assert [text[start:end].decode() for start, end in zip(starts, packed.ends, strict=True)] == ["a", "größe", "漢字"]


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["a", "b", "a"], "id 2 is the same"),
        (["a", ""], "id 1 has 0 bytes"),
        (["x" * 129], "id 0 has 129 bytes"),
        (["ü" * 65], "id 0 has 130 bytes"),
        (["a", "b\nc"], "id 1 holds a control character"),
        (["\ud800"], "not valid Unicode"),
        ([1], "id 0 is of type int"),
        ([float("nan")], "id 0 is of type float"),
        ([1.0], r"astype\('Int64'\)"),
        (pd.DataFrame({"id": ["a"]}), "ids is a DataFrame"),
        ({"a": 1}, "ids is a dict"),
        ("abc", "ids is one text"),
    ],
)
def test_ids_that_are_none_are_named_by_position(ids: list[str], said: str) -> None:
    with pytest.raises(cloison.IdsError, match=said) as refused:
        _wire.checked_ids(ids)
    assert "b\nc" not in str(refused.value)


def test_ids_of_pandas_and_numpy_are_texts() -> None:
    assert _wire.checked_ids(pd.Series(["a", "b"])) == ["a", "b"]
    assert [type(one) for one in _wire.checked_ids(np.array(["a", "b"]))] == [str, str]


def test_scores_keep_their_bits_and_their_places() -> None:
    sent = [0.1, 0.9, 5e-324, 1.0]
    release = common_pb2.Release(probabilities=common_pb2.Matrix(rows=2, columns=2, values=doubles(*sent)))
    made = _wire.frame(["a", "b", "c"], answer(release, [OK, MISSING, OK]), "status")
    assert list(made.columns) == ["no", "yes", "status"]
    assert made.index.name == "id"
    assert made["status"].tolist() == ["ok", "not_found", "ok"]
    assert made.loc[["a", "c"], ["no", "yes"]].to_numpy().tobytes() == doubles(*sent)
    assert made.loc["b", ["no", "yes"]].isna().all()
    assert made.attrs == {"model_version": "m-1", "release": "probabilities"}


def test_numbers_of_32_bits_are_widened() -> None:
    release = common_pb2.Release(numbers=common_pb2.Matrix(rows=1, columns=2, values=struct.pack("<2f", 0.5, 0.1)))
    made = _wire.frame(["a"], answer(release, [OK]), "status")
    assert made.loc["a", "yes"] == np.float64(np.float32(0.1))


def test_labels_are_categories() -> None:
    release = common_pb2.Release(labels=common_pb2.Labels(classes=2, labels=[1, 0]))
    made = _wire.frame(["a", "b", "c"], answer(release, [OK, MISSING, OK]), "status")
    assert made["label"].cat.categories.tolist() == ["no", "yes"]
    assert made["label"].tolist()[::2] == ["yes", "no"]
    assert pd.isna(made["label"].iloc[1])


def test_ciphertexts_are_whole_numbers_of_64_bits() -> None:
    values = struct.pack("<2Q", 2**64 - 1, 2**53 + 1)
    release = common_pb2.Release(ciphertexts=common_pb2.Ciphertexts(rows=1, columns=2, values=values))
    made = _wire.frame(["a", "b"], answer(release, [MISSING, OK]), "status")
    assert [int(made[name].iloc[1]) for name in ("no", "yes")] == [2**64 - 1, 2**53 + 1]
    assert made.loc["a", "no"] is pd.NA


def test_no_record_scored_is_a_frame_too() -> None:
    release = common_pb2.Release(probabilities=common_pb2.Matrix(rows=0, columns=2))
    made = _wire.frame(["a"], answer(release, [MISSING]), "status")
    assert made[["no", "yes"]].isna().all(axis=None)


def test_statuses_of_later_versions_are_numbers() -> None:
    release = common_pb2.Release(probabilities=common_pb2.Matrix(rows=0, columns=2))
    assert _wire.frame(["a"], answer(release, [99]), "status")["status"].tolist() == ["status_99"]


def test_a_class_called_status_needs_another_name() -> None:
    release = common_pb2.Release(probabilities=common_pb2.Matrix(rows=1, columns=2, values=doubles(0.5, 0.5)))
    sent = answer(release, [OK], ("status", "other"))
    with pytest.raises(ValueError, match="status_column="):
        _wire.frame(["a"], sent, "status")
    assert list(_wire.frame(["a"], sent, "outcome").columns) == ["status", "other", "outcome"]


@pytest.mark.parametrize(
    ("release", "statuses"),
    [
        (common_pb2.Release(), [OK]),
        (common_pb2.Release(probabilities=common_pb2.Matrix(rows=1, columns=2, values=b"1234567")), [OK]),
        (common_pb2.Release(probabilities=common_pb2.Matrix(rows=1, columns=2, values=doubles(0.5, np.nan))), [OK]),
        (common_pb2.Release(probabilities=common_pb2.Matrix(rows=1, columns=3, values=doubles(0, 0, 1))), [OK]),
        (common_pb2.Release(probabilities=common_pb2.Matrix(rows=2, columns=2, values=doubles(0, 1, 0, 1))), [OK]),
        (common_pb2.Release(probabilities=common_pb2.Matrix(rows=1, columns=2, values=doubles(0, 1))), [OK, OK]),
        (common_pb2.Release(labels=common_pb2.Labels(classes=2, labels=[2])), [OK]),
        (common_pb2.Release(labels=common_pb2.Labels(classes=2, labels=[])), [OK]),
        (common_pb2.Release(ciphertexts=common_pb2.Ciphertexts(rows=1, columns=2, values=b"")), [OK]),
    ],
)
def test_an_answer_that_cannot_be_is_refused(release: common_pb2.Release, statuses: list[int]) -> None:
    with pytest.raises(cloison.ProtocolError):
        _wire.frame(["a"], answer(release, statuses), "status")
