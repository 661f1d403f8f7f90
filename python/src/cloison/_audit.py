"""Audits of a running deployment, with the program `cloison`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from . import _binary, _toml
from .report import Report, load_report

# The thresholds are not met; everything was written.
_NOT_MET: Final = 3


def audit(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    metrics: Sequence[str] | None = None,
    max_added_risk: float | None = None,
    max_exact_share: float | None = None,
    max_exact: float | None = None,
    max_bits: float | None = None,
    root: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> Report:
    """Audits a running deployment as its auditor, and reads the report.

    The program `cloison` does it: of the directory that `CLOISON_BIN` names, or on `PATH`. A policy that does not meet a threshold is no
    error; `verdict.met` of the report says so.

    Args:
        config: The configuration file of the audit (TOML), or the same as a dictionary.
        out: Directory for `report.html`, `report.json` and `report.csv`; by default nothing is kept but the report that is returned.
        metrics: Metrics beside the mean squared error.
        max_added_risk: Largest added risk of any attribute of any passive party that is accepted, from 0 to 1.
        max_exact_share: Largest share of records that may come back to within 0.1, from 0 to 1.
        max_exact: Largest share of records that an attack may be certain to have rebuilt whole; 0.01 if another share is given.
        max_bits: Most bits that the policy may tell of a record, above 0; exact scores have no bound.
        root: Where relative paths of the configuration start; by default the working directory.
        timeout: Seconds after which the audit is ended.

    Raises:
        BinaryNotFoundError: The program is not there.
        InputError: The configuration is not taken; the message names the key.
        CommandError: The audit failed.
    """
    with tempfile.TemporaryDirectory(prefix="cloison-") as scratch:
        if isinstance(config, Mapping):
            place = Path(scratch, "audit.toml")
            place.write_text(_toml.dumps(config), encoding="utf-8")
        else:
            place = Path(config).absolute()
        kept = Path(out).absolute() if out is not None else Path(scratch, "out")
        arguments = ["audit", "--config", str(place), "--out", str(kept)]
        if metrics is not None:
            arguments += ["--metrics", ",".join(metrics) or "none"]
        thresholds = {
            "added-risk": max_added_risk,
            "exact-share": max_exact_share,
            "exact": max_exact,
            "bits": max_bits,
        }
        for name, limit in thresholds.items():
            if limit is not None:
                arguments += [f"--max-{name}", repr(float(limit))]
        start = Path(root) if root is not None else None
        _binary.run("cloison", arguments, cwd=start, timeout=timeout, accepted=(0, _NOT_MET))
        return load_report(kept)
