"""Models in files of ONNX: the same answers as their evaluator gives, and refusals that name the operator."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import cloison
from cloison import _onnx

RNG = np.random.default_rng(6)
COLUMNS = ["age", "income", "late", "debt"]


def frame(count: int = 400) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": RNG.integers(18, 90, count).astype("float32"),
            "income": np.round(RNG.lognormal(1, 0.5, count), 2).astype("float32"),
            "late": RNG.poisson(0.5, count).astype("float32"),
            "debt": RNG.random(count).astype("float32"),
        }
    )


DATA = frame()
TWO = np.where(DATA["late"] - DATA["income"] + RNG.logistic(size=400) > -2, "yes", "no")
THREE = np.digitize(DATA["age"] + 30 * DATA["debt"], [45, 75])


def saved(model: Any, place: Path, named: bool = True) -> str:
    """A fitted model as a file, of one tensor or of an input for each column."""
    rows: Any = DATA.iloc[:1] if named else DATA.to_numpy()[:1]
    # As the library writes it where nothing is said, a list of maps, and as an array.
    options = {type(model[-1]): {"zipmap": False}} if hasattr(model, "predict_proba") and named else None
    made = to_onnx(model, rows, options=options)
    if not named:
        helper.set_model_props(made, {"feature_names": json.dumps(COLUMNS)})
    onnx.save_model(made, place / "model.onnx")
    return str(place / "model.onnx")


MODELS = [
    (LogisticRegression(max_iter=2000), TWO),
    (LogisticRegression(max_iter=2000), THREE),
    (SGDClassifier(loss="log_loss", random_state=1), THREE),
    (MLPClassifier((6, 3), max_iter=80, random_state=1), THREE),
    (MLPClassifier((5,), activation="logistic", max_iter=80, random_state=1), TWO),
    (LinearRegression(), np.asarray(DATA["income"] * 2 + DATA["age"])),
    (PoissonRegressor(max_iter=2000), np.asarray(DATA["late"])),
]


@pytest.mark.parametrize("named", [True, False], ids=["columns", "a tensor"])
@pytest.mark.parametrize(("head", "label"), MODELS, ids=lambda one: str(one) if hasattr(one, "fit") else "")
def test_weights_are_those_of_the_file(tmp_path: Path, head: Any, label: Any, named: bool) -> None:
    columns = make_column_transformer((StandardScaler(), ["age", "income"]), remainder=MinMaxScaler())
    steps: list[Any] = [columns] if named else [SimpleImputer(), StandardScaler()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(*steps, head).fit(DATA if named else DATA.to_numpy(), label)
    loaded = _onnx.load(saved(model, tmp_path, named))
    given = DATA if named else DATA.to_numpy()
    expected = model.predict_proba(given) if hasattr(model, "predict_proba") else model.predict(given)[:, None]
    folded = loaded.folded(DATA, "label")
    found = folded.scores(range(400))
    assert np.abs(found / expected.max() - expected / expected.max()).max() < 2e-6
    if hasattr(model, "predict_proba"):
        assert folded.classes == [str(one) for one in model.classes_]
        assert np.abs(loaded.predict_proba(DATA) - expected).max() < 2e-6
        assert folded.link == ("one_vs_rest" if isinstance(head, SGDClassifier) else "softmax")
    else:
        assert np.abs(loaded.predict(DATA)[:, None] / expected.max() - expected / expected.max()).max() < 2e-6


def graph(
    nodes: Sequence[Any], constants: dict[str, Any], width: int, outputs: int, place: Path, **metadata: object
) -> str:
    """A file of operators from `x` to `y`."""
    made = helper.make_model(
        helper.make_graph(
            list(nodes),
            "model",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, width])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, outputs])],
            [numpy_helper.from_array(np.asarray(value, dtype="float32"), name) for name, value in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=8,
    )
    helper.set_model_props(made, {key: json.dumps(value) for key, value in metadata.items()})
    onnx.save_model(made, place / "model.onnx")
    return str(place / "model.onnx")


W = RNG.normal(size=(3, 4))
V = RNG.normal(size=(3, 3))
NODE = helper.make_node


def test_the_operators_of_other_libraries(tmp_path: Path) -> None:
    """As PyTorch writes a perceptron that ends with logits, with a normalisation before it, and metadata."""
    nodes = [
        NODE("Sub", ["x", "mean"], ["a"]),
        NODE("Div", ["a", "unit"], ["b"]),
        NODE("Gather", ["b", "order"], ["c"], axis=1),
        NODE("Gemm", ["c", "w", "v"], ["d"], transB=1, alpha=0.5, beta=2.0),
        NODE("Tanh", ["d"], ["e"]),
        NODE("MatMul", ["e", "u"], ["f"]),
        NODE("Mul", ["minus", "f"], ["y"]),
    ]
    constants = {
        "mean": [1, 2, 3, 4],
        "unit": [2, 1, 4, 0.5],
        "w": W,
        "v": [0.1, 0.2, 0.3],
        "u": V,
        "minus": -1.0,
    }
    made = helper.make_node("Constant", [], ["order"], value=numpy_helper.from_array(np.array([3, 2, 1, 0]), "order"))
    names = {"feature_names": ["debt", "age", "late", "income"], "class_names": ["a", "b", "c"]}
    loaded = _onnx.load(graph([made, *nodes], constants, 4, 3, tmp_path, **names))
    rows = DATA[["debt", "age", "late", "income"]].to_numpy(dtype="float64")
    inner = ((rows - [1, 2, 3, 4]) / [2, 1, 4, 0.5])[:, ::-1]
    logits = -(np.tanh(0.5 * inner @ W.T + 2.0 * np.array([0.1, 0.2, 0.3])) @ V)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    folded = loaded.folded(DATA, "label")
    assert folded.classes == ["a", "b", "c"]
    assert np.abs(folded.scores(range(400)) - expected).max() < 1e-5
    assert np.abs(loaded.predict_proba(DATA) - expected).max() < 1e-5


def test_what_is_no_perceptron_is_refused_by_its_operator(tmp_path: Path) -> None:
    classes: dict[str, Any] = {"class_names": ["a", "b", "c"], "feature_names": COLUMNS}
    layer = NODE("Gemm", ["x", "w", "v"], ["a"], transB=1)
    constants = {"w": W, "v": [0.0, 0.0, 0.0]}

    def refused(nodes: Sequence[Any], **metadata: object) -> str:
        loaded = _onnx.load(graph(nodes, constants, 4, 3, tmp_path, **metadata))
        with pytest.raises(cloison.FrameError) as error:
            loaded.folded(DATA, "label")
        return str(error.value)

    last = NODE("Softmax", ["b"], ["y"])
    assert "operator Erf" in refused([layer, NODE("Erf", ["a"], ["b"]), last], **classes)
    assert "Mul of two values" in refused([layer, NODE("Mul", ["a", "a"], ["b"]), last], **classes)
    different = [NODE("Relu", ["a"], ["c"]), NODE("Tanh", ["c"], ["b"])]
    assert "different activations" in refused([layer, *different, last], **classes)
    assert "do not add up" in refused([layer, NODE("Sigmoid", ["a"], ["y"])], **classes)
    softmax = [layer, NODE("Softmax", ["a"], ["y"])]
    assert "does not name its classes" in refused(softmax, feature_names=COLUMNS)
    assert "names 2 classes" in refused(softmax, **{**classes, "class_names": ["a", "b"]})
    assert "no column 'odd'" in refused(softmax, **{**classes, "feature_names": ["odd"] * 4})
    (tmp_path / "model.onnx").write_bytes(b"\x08\x08garbage")
    with pytest.raises(cloison.FrameError, match="no model of ONNX"):
        _onnx.load(tmp_path / "model.onnx")
    with pytest.raises(cloison.FrameError, match="cannot read"):
        _onnx.load(tmp_path / "nothing.onnx")


def test_what_would_be_another_answer_is_refused(tmp_path: Path) -> None:
    """Logits of two classes in one number, sigmoids of each class, whole numbers, casts, and columns without names."""
    binary: dict[str, Any] = {"feature_names": COLUMNS, "class_names": ["no", "yes"]}
    three: dict[str, Any] = {"feature_names": COLUMNS, "class_names": ["a", "b", "c"]}
    one = {"w": W[:1], "v": [0.0]}
    all_of_them = {"w": W, "v": [0.0, 0.0, 0.0]}
    layer = NODE("Gemm", ["x", "w", "v"], ["a"], transB=1)
    for constants, outputs, names, last in (
        (one, 1, binary, NODE("Identity", ["a"], ["y"])),
        (all_of_them, 3, three, NODE("Sigmoid", ["a"], ["y"])),
    ):
        loaded = _onnx.load(graph([layer, last], constants, 4, outputs, tmp_path, **names))
        with pytest.raises(cloison.FrameError, match="no scores of classes that add up"):
            loaded.predict_proba(DATA)
        with pytest.raises(cloison.FrameError, match="Sigmoid"):
            loaded.folded(DATA, "label")
    sigmoid = _onnx.load(graph([layer, NODE("Sigmoid", ["a"], ["y"])], one, 4, 1, tmp_path, **binary))
    assert np.abs(sigmoid.predict_proba(DATA) - sigmoid.folded(DATA, "label").scores(range(400))).max() < 1e-5
    # What adds up to 1 is scores, whatever operator comes last.
    scaled = [layer, NODE("Softmax", ["a"], ["p"]), NODE("Mul", ["one", "p"], ["y"])]
    loaded = _onnx.load(graph(scaled, {**all_of_them, "one": [1.0]}, 4, 3, tmp_path, **three))
    plain = _onnx.load(graph([layer, NODE("Softmax", ["a"], ["y"])], all_of_them, 4, 3, tmp_path, **three))
    assert np.abs(loaded.predict_proba(DATA) - plain.predict_proba(DATA)).max() < 1e-6
    nameless = graph([layer, NODE("Neg", ["a"], ["y"])], all_of_them, 4, 1, tmp_path, feature_names=COLUMNS)
    with pytest.raises(cloison.FrameError, match="gives 3 outputs"):
        _onnx.load(nameless).predict(DATA)
    cast = [NODE("Cast", ["x"], ["i"], to=TensorProto.INT64), NODE("Cast", ["i"], ["f"], to=TensorProto.FLOAT)]
    rest = [NODE("Gemm", ["f", "w", "v"], ["a"], transB=1), NODE("Softmax", ["a"], ["y"])]
    with pytest.raises(cloison.FrameError, match=r"a Cast of .* changes"):
        _onnx.load(graph([*cast, *rest], all_of_them, 4, 3, tmp_path, **three)).folded(DATA, "label")
    imputer = NODE("Imputer", ["x"], ["f"], domain="ai.onnx.ml", imputed_value_floats=[5.0] * 4)
    with pytest.raises(cloison.FrameError, match="an Imputer of something else"):
        _onnx.load(graph([imputer, *rest], all_of_them, 4, 3, tmp_path, **three)).folded(DATA, "label")
    softmax = [layer, NODE("Softmax", ["a"], ["y"])]
    with pytest.raises(cloison.FrameError, match="does not name its columns"):
        _onnx.load(graph(softmax, all_of_them, 4, 3, tmp_path, class_names=["a", "b", "c"]))
    whole = make_pipeline(StandardScaler(), LogisticRegression()).fit(DATA.astype(int).to_numpy(), TWO)
    onnx.save_model(to_onnx(whole, DATA.astype("int64").to_numpy()[:1]), tmp_path / "model.onnx")
    with pytest.raises(cloison.FrameError, match="not one of numbers with decimals"):
        _onnx.load(tmp_path / "model.onnx")
    wrong = _onnx.load(graph(softmax, {"w": W[:, :3], "v": [0.0] * 3}, 4, 3, tmp_path, **three))
    with pytest.raises(cloison.FrameError):
        wrong.folded(DATA, "label")
    with pytest.raises(cloison.FrameError):
        wrong.predict_proba(DATA)


def test_a_file_is_audited_as_the_model_that_it_came_from(programs: Path, tmp_path: Path) -> None:
    """In one call: a linear model with its weights, and a forest as a black box."""
    assert programs
    table = DATA.assign(label=TWO, customer=[f"c{n}" for n in range(400)])
    given: dict[str, Any] = {"id": "customer", "label": "label", "passive": ["late", "debt"]}
    model = make_pipeline(make_column_transformer((StandardScaler(), COLUMNS)), LogisticRegression()).fit(DATA, TWO)
    report = cloison.audit(saved(model, tmp_path), table, **given)
    same = cloison.audit(model, table, **given)
    assert set(report.policies.index) == set(same.policies.index)
    assert report.verdict is not None
    forest = RandomForestClassifier(5, max_depth=3, random_state=1).fit(DATA, TWO)
    path = saved(make_pipeline(make_column_transformer((StandardScaler(), COLUMNS)), forest).fit(DATA, TWO), tmp_path)
    with pytest.raises(cloison.FrameError, match=r"TreeEnsembleClassifier .* black_box=True"):
        cloison.audit(path, table, **given)
    assert cloison.audit(path, table, black_box=True, records=100, **given).verdict is not None
