#!/usr/bin/env python3
"""Tries what the lattice does to linear models on a network: a descent to convergence, and rounding to the grid.

    python3 scripts/numpy/lattice_networks.py

Needs numpy. The passive part is U tanh(V x + c) with 16 units and random weights, V of full column rank, behind six classes; features are
hundredths. Scores are doubles. Levenberg-Marquardt starts from the middle and seven random points. docs/lattice.md has the figures.
"""

import numpy as np

CLASSES, UNITS, RECORDS, STEPS = 6, 16, 200, 300
RNG = np.random.default_rng(3)


def descend(residual, jacobian, x):
    n, d = x.shape
    damping = np.full(n, 1e-2)
    r = residual(x)
    loss = (r**2).sum(1)
    for _ in range(STEPS):
        j = jacobian(x)
        square = np.einsum("nij,nik->njk", j, j)
        scale = np.maximum(np.einsum("njj->nj", square).max(1), 1e-12)
        damped = square + (damping * scale)[:, None, None] * np.eye(d)
        step = np.linalg.solve(damped, np.einsum("nij,ni->nj", j, r)[:, :, None])[:, :, 0]
        there = np.clip(x - step, 0, 1)
        r_there = residual(there)
        loss_there = (r_there**2).sum(1)
        better = loss_there < loss
        x[better], r[better], loss[better] = there[better], r_there[better], loss_there[better]
        damping = np.where(better, 0.3 * damping, np.minimum(4 * damping, 1e6)) + 1e-14
    return x, loss


def main():
    for d in (3, 4, 5, 6, 8):
        v, c, u = RNG.normal(size=(UNITS, d)) * 1.5, RNG.normal(size=UNITS) * 0.3, RNG.normal(size=(CLASSES, UNITS))
        assert np.linalg.matrix_rank(v) == d
        truth = RNG.integers(0, 101, size=(RECORDS, d)) / 100
        logits = np.tanh(truth @ v.T + c) @ u.T
        scores = np.exp(logits - logits.max(1, keepdims=True))
        told = np.diff(np.log(scores / scores.sum(1, keepdims=True)), axis=1)

        def differences(x):
            return np.diff(np.tanh(x @ v.T + c) @ u.T, axis=1)

        def jacobian(x):
            slope = 1 - np.tanh(x @ v.T + c) ** 2
            return np.diff(np.einsum("kh,nh,hd->nkd", u, slope, v), axis=1)

        starts = [np.full(truth.shape, 0.5)] + [RNG.random(truth.shape) for _ in range(7)]
        ends = [descend(lambda x: differences(x) - told, jacobian, start) for start in starts]
        best = np.argmin([loss for _, loss in ends], axis=0)
        x = np.array([ends[at][0][record] for record, at in enumerate(best)])
        exact = np.abs(np.round(100 * x) / 100 - truth).max(1) < 1e-9
        error, half = ((x - truth) ** 2).mean(), ((0.5 - truth) ** 2).mean()
        print(f"{d} features: {exact.sum()} of {RECORDS} exact, error {error:.4f} (of 1/2: {half:.4f})")


if __name__ == "__main__":
    main()
