#!/usr/bin/env python3
"""Fits linear support vector machines with scikit-learn's LinearSVC (liblinear) and writes records, labels and what came out: the vector
of the test `machines_are_those_of_scikit_learn` in lab/datasets/src/evaluate.rs.

    python3 scripts/numpy/linear_svm.py > lab/datasets/src/evaluate/scikit_learn.json

Needs scikit-learn. `intercept_scaling` is 1: the bias is penalised as a weight.
"""

import json

import numpy as np
import sklearn
from sklearn.svm import LinearSVC

RNG = np.random.default_rng(20224)


def case(d, n, k, cost):
    centres = RNG.uniform(0.2, 0.8, (k, d))
    labels = RNG.integers(0, k, n)
    x = np.clip(centres[labels] + RNG.normal(0, 0.15, (n, d)), 0, 1)
    svc = LinearSVC(loss="hinge", C=cost, dual=True, tol=1e-10, max_iter=10_000_000, random_state=1).fit(x, labels)
    weights, bias = svc.coef_, svc.intercept_
    if k == 2:  # one machine, of class 1 against 0
        weights, bias = np.vstack([-weights, weights]), np.concatenate([-bias, bias])
    objectives = []
    for m in range(k):
        y = np.where(labels == m, 1, -1)
        hinges = np.maximum(0, 1 - y * (x @ weights[m] + bias[m]))
        objectives.append(0.5 * (weights[m] @ weights[m] + bias[m] ** 2) + cost * hinges.sum())
    return {
        "scikit_learn": sklearn.__version__, "cost": cost, "classes": k, "x": x.tolist(), "labels": labels.tolist(),
        "weights": weights.tolist(), "bias": bias.tolist(), "objectives": objectives, "predicted": svc.predict(x).tolist(),
    }


print(json.dumps([case(2, 30, 2, 1.0), case(4, 45, 3, 0.5), case(5, 50, 4, 10.0)]))
