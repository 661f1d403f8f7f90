"""A configuration as TOML: what an audit's configuration needs, tables and lists of tables last."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any


def dumps(table: Mapping[str, Any]) -> str:
    """The text of a table.

    Raises:
        TypeError: A value is of a type that has no form in TOML.
    """
    return "\n".join(_table(table, ())) + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain, nested = [], []
    for key, value in table.items():
        if value is None:
            continue
        name = ".".join(_text(part) for part in (*path, key))
        if isinstance(value, Mapping):
            nested += ["", f"[{name}]", *_table(value, (*path, key))]
        elif isinstance(value, list | tuple) and value and all(isinstance(one, Mapping) for one in value):
            for one in value:
                nested += ["", f"[[{name}]]", *_table(one, (*path, key))]
        else:
            plain.append(f"{_text(key)} = {_value(value)}")
    return plain + nested


def _text(text: str) -> str:
    # A JSON string is one of TOML, but for DEL, which must be escaped there.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:  # noqa: PLR0911
    if hasattr(value, "item"):
        value = value.item()
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _text(value)
        case int():
            return str(value)
        case float():
            if not math.isfinite(value):
                return str(value)
            return repr(value) if "e" not in repr(value) or "." in repr(value) else repr(value).replace("e", ".0e")
        case os.PathLike():
            return _text(os.fspath(value))
        case list() | tuple():
            return f"[{', '.join(_value(one) for one in value)}]"
        case Mapping():
            return "{ " + ", ".join(f"{_text(key)} = {_value(one)}" for key, one in value.items()) + " }"
        case _:
            raise TypeError(f"a value of type {type(value).__name__} has no form in TOML")
