#!/usr/bin/env python3
"""Cases of kind `one_feature` with a known population mean (R footnote 15), computed with NumPy.

    python3 scripts/numpy/one_feature_cases.py tests/golden/cases

The two readings of v, u and 1 - u, are weighed by normal densities of their means about the population's, written out as such; the
program uses their ratio in closed form. Seeded: the same bytes on every run.
"""

import json
import sys
from pathlib import Path

import numpy as np


def estimate(v, mean):
    u = (v - v.min()) / (v.max() - v.min())
    deviation = u.std() / np.sqrt(len(u))
    density = [np.exp(-0.5 * ((reading.mean() - mean) / deviation) ** 2) for reading in (u, 1 - u)]
    weight = density[0] / sum(density)
    return weight * u + (1 - weight) * (1 - u)


def main(folder):
    rng = np.random.default_rng(15)
    # n, omega, beta, exponent of the uniform number, stated mean: sure, the other way round, unsure, and one that tells nothing.
    for number, (n, omega, beta, power, mean) in enumerate(
        [(40, 2.0, -0.7, 2, 1 / 3), (40, -3.0, 1.1, 2, 1 / 3), (6, 1.0, -0.4, 1.5, 0.45), (12, -2.0, 0.9, 1, 0.5)]
    ):
        x = rng.random(n) ** power
        x[:2] = [0.0, 1.0]
        v = omega * x + beta
        case = {
            "schema": 1,
            "kind": "one_feature",
            "case": "3",
            "v": v.tolist(),
            "mean": mean,
            "expected": {"x_hat": estimate(v, mean).tolist()},
        }
        path = Path(folder) / f"one_feature_mean_{number:02}.json"
        path.write_text(json.dumps(case, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/cases")
