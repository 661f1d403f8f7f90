#!/usr/bin/env bash
# The wheel of a release in an empty environment, from anywhere: a model of scikit-learn and a table with gaps and dates are audited by
# the programs in it.
#
#   scripts/wheel-test.sh DIR     DIR holds the wheel that scripts/release.sh made
set -euo pipefail
(($# == 1)) || { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /!p}' "${BASH_SOURCE[0]}" >&2; exit 2; }
wheel=$(realpath "$(find "$1" -maxdepth 1 -name 'cloison-*.whl' | sort -V | tail -n 1)")
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
cd "$own"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input "cloison[examples] @ file://$wheel"
unset CLOISON_BIN
# pip made the programs commands of the environment.
export PATH="$own/venv/bin:/usr/bin:/bin"
[[ $(command -v cloison) == "$own/venv/bin/cloison" ]] || { echo 'wheel-test.sh: there is no command cloison' >&2; exit 1; }
cat >verdict.py <<'PYTHON'
"""Audits a pipeline of scikit-learn, and a table of one's own."""

import cloison
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

frame = load_breast_cancer(as_frame=True).frame
features = list(frame.columns.drop("target"))
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame[features], frame["target"])
report = cloison.audit(model, frame, label="target", passive=features[:3], records=200)
print(report.verdict)
assert {"none", "class_label"} <= set(report.policies.index), report.policies

draw = np.random.default_rng(3)
n = 2000
income = draw.normal(3000, 900, n).round()
opened = pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 1500, n), unit="D")
table = pd.DataFrame({
    "income": np.where(draw.random(n) < 0.1, np.nan, income),
    "opened": opened,
    "age": draw.integers(18, 90, n),
    "late": np.where(income + draw.normal(0, 500, n) < 2500, "yes", "no"),
})
report = cloison.try_table(table, label="late", passive=["income", "opened"], recommend=False)
print(report.verdict)
assert {"income", "opened"} <= set(report.attributes["attribute"]), report.attributes
PYTHON
# The package finds its programs beside it, whatever PATH is.
PATH=/usr/bin:/bin timeout 300 venv/bin/python verdict.py
