#!/usr/bin/env python3
"""Writes what a purifier of given weights makes of score vectors, its loss and the slopes of it: the vector of the test
`what_numpy_makes_of_it` in shared/defense/src/purifier/vectors.rs.

    python3 scripts/numpy/purifier.py > shared/defense/src/purifier/numpy.json

Needs NumPy. Slopes are complex steps, Im f(w + ih) / h with h = 1e-30: no backward pass is written.
"""

import json

import numpy as np

RNG = np.random.default_rng(20222)
STEP = 1e-30
NAMES = ("encoder", "encoder_bias", "decoder", "decoder_bias")


def output(w, c):
    """G(c) = softmax(D tanh(E c + e) + d) of one vector."""
    z = w["decoder"] @ np.tanh(w["encoder"] @ c + w["encoder_bias"]) + w["decoder_bias"]
    z = np.exp(z - np.max(z.real))
    return z / np.sum(z)


def loss(w, c, t, label_weight):
    """Mean of ‖t − G(c)‖² and λ times the cross-entropy of G(c) with the class of c; J (26) with a squared distance."""
    total = 0
    for of_record, target in zip(c, t):
        p = output(w, of_record)
        total += np.sum((target - p) ** 2) - label_weight * np.log(p[np.argmax(of_record)])
    return total / len(c)


def slopes(f, at):
    found = np.zeros(at.size)
    for place in range(at.size):
        moved = at.astype(complex)
        moved.flat[place] += 1j * STEP
        found[place] = np.imag(f(moved)) / STEP
    return found.reshape(at.shape)


def case(k, n):
    h = k // 2
    w = {
        "encoder": RNG.uniform(-1, 1, (h, k)), "encoder_bias": RNG.uniform(-0.5, 0.5, h),
        "decoder": RNG.uniform(-1.5, 1.5, (k, h)), "decoder_bias": RNG.uniform(-0.5, 0.5, k),
    }
    c, t = (np.array([RNG.dirichlet(np.full(k, 0.7)) for _ in range(n)]) for _ in range(2))
    losses = []
    for label_weight in (0.0, 0.3):
        gradients = {name: slopes(lambda v: loss({**w, name: v}, c, t, label_weight), w[name]).tolist() for name in NAMES}
        value = loss(w, c, t, label_weight)
        losses.append({"label_weight": label_weight, "loss": value, "gradients": gradients})
    outputs = [output(w, of_record) for of_record in c]
    jacobian = [[slopes(lambda v, j=j: output(w, v)[j], of_record).tolist() for j in range(k)] for of_record in c]
    return {
        "numpy": np.__version__, **{name: w[name].tolist() for name in NAMES}, "inputs": c.tolist(), "targets": t.tolist(),
        "outputs": [p.tolist() for p in outputs], "slopes": jacobian, "losses": losses,
    }


print(json.dumps([case(5, 4), case(6, 3)]))
