#!/usr/bin/env python3
"""Decodes lattice cases with fplll, as a second solver beside `active-party attack --attack lattice`, and times both.

    python3 scripts/numpy/lattice_fplll.py target/release/active-party ../shared/golden/cases/lattice_*.json

Needs numpy and fpylll (Debian: python3-numpy, python3-fpylll). fplll reduces the basis (2^48 A S, M) by LLL and takes the nearest plane
(Babai) for each record, M being the spread of the grid, or in a case with a prior an inverse root of its covariance. The time of the program
is that of its whole run, reading of the case included.
"""

import json
import subprocess
import sys
import time

import numpy as np
from fpylll import FPLLL, GSO, LLL, IntegerMatrix

EQUATIONS, COORDINATES = 2.0**68, 2.0**20


def prior(case, y):
    """Mean and covariance of the passive features of a record, in units of their ranges."""
    known = case["prior"]
    mean, cov = np.array(known["mean"]), np.array(known["covariance"])
    if "active_mean" not in known:
        return mean, cov
    cross = np.array(known["cross_covariance"])
    gain = cross @ np.linalg.pinv(np.array(known["active_covariance"]))
    return mean + gain @ (y - np.array(known["active_mean"])), cov - gain @ cross.T


def decode(case):
    """Estimates (n x d), seconds of the reduction, seconds of the decoding."""
    w_act, w, b = (np.array(case[key]) for key in ("w_act", "w_pas", "b"))
    step = np.array(case["grid"]["step"])
    d = len(step)
    a = np.diff(w, axis=0) * step
    records = case["records"]
    targets = []
    for record in records:
        y = np.array(record["y_act"])
        if "prior" in case:
            mean, cov = prior(case, y)
        else:
            mean, cov = np.full(d, 0.5), np.diag((1 + 2 * step) / 12)
        root = np.linalg.inv(np.linalg.cholesky(cov + 1e-9 * np.trace(cov) / d * np.eye(d)))
        rest = np.diff(np.log(np.array(record["c"])) - w_act @ y - b)
        targets.append((rest, root @ mean))
    metric = root * step
    columns = [np.concatenate([EQUATIONS * a[:, j], COORDINATES * metric[:, j]]) for j in range(d)]
    basis = IntegerMatrix.from_matrix([[int(round(v)) for v in column] for column in columns])
    began = time.perf_counter()
    moved = IntegerMatrix.identity(d)
    FPLLL.set_precision(120)
    gso = GSO.Mat(basis, U=moved, float_type="mpfr")
    gso.update_gso()
    LLL.Reduction(gso, delta=0.99)()
    gso.update_gso()
    reduced = time.perf_counter()
    whole = [[int(v) for v in row] for row in moved]
    found = []
    for rest, mean in targets:
        target = [int(round(v)) for v in np.concatenate([EQUATIONS * rest, COORDINATES * mean])]
        near = gso.babai(target)
        found.append(np.array([sum(n * row[j] for n, row in zip(near, whole)) for j in range(d)], dtype=float) * step)
    return np.array(found), reduced - began, time.perf_counter() - reduced


def main():
    program, *paths = sys.argv[1:]
    print(f"{'case':<38} {'d':>3} {'n':>3} {'fplll exact':>12} {'LLL, ms':>9} {'a record, ms':>13} {'active-party exact':>19} {'ms':>7}")
    for path in paths:
        case = json.load(open(path, encoding="utf-8"))
        name = path.split("/")[-1].removesuffix(".json")
        if "step" not in case.get("grid", {}) or case.get("groups"):
            continue
        truth = np.array([record["x_pas"] for record in case["truth"]])
        estimates, reduce, decoding = decode(case)
        began = time.perf_counter()
        method = "informed_lattice" if "prior" in case else "lattice"
        command = [program, "attack", "--case", path, "--attack", method, "--out", "-"]
        out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        whole = time.perf_counter() - began
        ours = np.array([record["x"] for record in out["attacks"][0]["estimates"]])
        exact = lambda x: int((np.abs(x - truth).max(1) < 1e-9).sum())
        print(
            f"{name:<38} {truth.shape[1]:>3} {len(truth):>3} {exact(estimates):>12} {1e3 * reduce:>9.1f} "
            f"{1e3 * decoding / len(truth):>13.2f} {exact(ours):>19} {1e3 * whole:>7.1f}"
        )


if __name__ == "__main__":
    main()
