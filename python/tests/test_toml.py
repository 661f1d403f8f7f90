"""Configurations as TOML, against the parser of the standard library."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from cloison import _toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_what_is_written_is_read_again() -> None:
    table = {
        "ids": "data/test.ids",
        "seed": 7,
        "aware": False,
        "rho": 1e-05,
        "attacks": ["rcc1", {"name": "agnostic", "alpha": 1.5}],
        "odd": 'quote " backslash \\ tab \t del \x7f ü 漢 🙂',
        "tls": {"ca": "tls/ca.pem", "deeper": {"a b": 1}},
        "defenses": [{"name": "none"}, {"name": "rounding", "decimals": 2}],
        "numbers": [1.0, 1e300, -0.0],
        "empty": [],
    }
    assert tomllib.loads(_toml.dumps(table)) == table


def test_paths_and_numbers_of_numpy_are_written_and_none_is_left_out() -> None:
    text = _toml.dumps({"ids": Path("a/b"), "seed": np.int64(3), "rho": np.float64(0.25), "left": None})
    assert tomllib.loads(text) == {"ids": "a/b", "seed": 3, "rho": 0.25}


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        _toml.dumps({"a": object()})
