#!/usr/bin/env python3
"""Writes the golden cases of attacks through networks, and of the metrics in an answer.

    python3 scripts/numpy/network_cases.py tests/golden/cases

Needs NumPy. What is expected is computed here and shares nothing with the project's code: gradients are complex steps,
Im f(x + ih) / h with h = 1e-30, so that no backward pass is written; least squares are numpy.linalg.pinv; bounds of a quadratic program
are all tried one after the other; permutations too.
"""

import itertools
import json
import math
import pathlib
import sys

import numpy as np

RNG = np.random.default_rng(20221)
STEP = 1e-30


# Networks, on numbers that may be complex.

ACTIVATIONS = {
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "tanh": np.tanh,
    "relu": lambda z: np.where(z.real > 0, z, 0),
}
INVERSES = {"sigmoid": lambda a: np.log(a / (1 - a)), "tanh": np.arctanh}
RANGES = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}


class Network:
    """Layers (W, b); the activation is between them. b of the last one may be missing."""

    def __init__(self, inputs, hidden, outputs, activation, bias=True, scale=1.5):
        self.activation, self.layers = activation, []
        for at, (m, n) in enumerate(itertools.pairwise([inputs, *hidden, outputs])):
            last = at == len(hidden)
            b = RNG.uniform(-0.5, 0.5, n) if bias or not last else None
            self.layers.append((RNG.uniform(-scale, scale, (n, m)), b))

    def __call__(self, x):
        for at, (w, b) in enumerate(self.layers):
            x = w @ x + (0 if b is None else b)
            if at + 1 < len(self.layers):
                x = ACTIVATIONS[self.activation](x)
        return x

    def text(self):
        parameters = {}
        for at, (w, b) in enumerate(self.layers):
            parameters[f"{2 * at}.weight"] = w.tolist()
            if b is not None:
                parameters[f"{2 * at}.bias"] = b.tolist()
        settings = {"activation": self.activation} if len(self.layers) > 1 else {}
        return {"kind": "mlp", "settings": settings, "features": self.layers[0][0].shape[1], "parameters": parameters}


class Linear(Network):
    """An active party's softmax regression."""

    def text(self):
        (w, b), = self.layers
        return {"kind": "softmax_regression", "features": w.shape[1], "parameters": {"weight": w.tolist(), "bias": b.tolist()}}


class Model:
    """The active party's network, those of the passive parties, and a top model or none."""

    def __init__(self, active, passive, top=None):
        self.active, self.passive, self.top = active, passive, top
        self.d = sum(p.layers[0][0].shape[1] for p in passive)

    def logits(self, y, x):
        outputs, at = [self.active(y)], 0
        for part in self.passive:
            d = part.layers[0][0].shape[1]
            outputs.append(part(x[at : at + d]))
            at += d
        return sum(outputs) if self.top is None else self.top(np.concatenate(outputs))

    def scores(self, y, x):
        return np.exp(log_softmax(self.logits(y, x)))

    def text(self):
        text = {"combiner": "sum" if self.top is None else "concat", "active": self.active.text()}
        text["passive"] = [p.text() for p in self.passive]
        return text if self.top is None else {**text, "top": self.top.text()}


def log_softmax(z):
    z = z - np.max(z.real)
    return z - np.log(np.sum(np.exp(z)))


# Gradient inversion.

LOSSES = {
    "mse": lambda c, log_p: np.mean((c - np.exp(log_p)) ** 2),
    "kl": lambda c, log_p: np.sum(c * (np.log(c) - log_p)),
    "rkl": lambda c, log_p: np.sum(np.exp(log_p) * (log_p - np.log(c))),
    "logsq": lambda c, log_p: np.sum((log_p - np.log(c)) ** 2),
}


def slopes(f, x):
    """The derivatives of f, a number or a vector, by each entry of x: one column for each."""
    columns = []
    for i in range(len(x)):
        moved = x.astype(complex)
        moved[i] += 1j * STEP
        columns.append(np.imag(f(moved)) / STEP)
    return np.stack(columns, axis=-1)


def descend(model, y, c, loss, start, projected, steps, rate):
    x = np.full(model.d, {"zero": 0.0, "half": 0.5}[start])
    m, v = np.zeros(model.d), np.zeros(model.d)
    for t in range(1, steps + 1):
        g = slopes(lambda at: LOSSES[loss](c, log_softmax(model.logits(y, at))), x)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x = x - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        x = np.clip(x, 0, 1) if projected else x
    return x


# Equations.

def differences(k):
    j = np.zeros((k - 1, k))
    for i in range(k - 1):
        j[i, i], j[i, i + 1] = -1, 1
    return j


def nearest(w, z, middle):
    """Of the best fits of W a = z the one nearest to the middle."""
    inverse = np.linalg.pinv(w, rcond=1e-10)
    return inverse @ z + middle - inverse @ (w @ middle)


def layerwise(model, y, c):
    """V remark 4. Of summed networks: the outputs of all last layers together, then each party's layers downwards."""
    j = differences(len(c))
    right = j @ (np.log(c) - model.active(y))
    for part in model.passive:
        if part.layers[-1][1] is not None:
            right = right - j @ part.layers[-1][1]

    def middle(part, place):
        n = part.layers[place][0].shape[1]
        return np.full(n, 0.5 if place == 0 else sum(RANGES[part.activation]) / 2)

    a = nearest(
        j @ np.hstack([p.layers[-1][0] for p in model.passive]),
        right,
        np.concatenate([middle(p, len(p.layers) - 1) for p in model.passive]),
    )
    found, at = [], 0
    for part in model.passive:
        inputs = a[at : at + part.layers[-1][0].shape[1]]
        at += len(inputs)
        for place in range(len(part.layers) - 2, -1, -1):
            low, high = RANGES[part.activation]
            margin = 1e-3 * (high - low)
            z = INVERSES[part.activation](np.clip(inputs, low + margin, high - margin))
            w, b = part.layers[place]
            inputs = nearest(w, z - b, middle(part, place))
        found.append(inputs)
    return np.clip(np.concatenate(found), 0, 1)


def given(prior, y):
    """What is known of a record before its scores: m and S."""
    mean, covariance = np.array(prior["mean"]), np.array(prior["covariance"])
    if "active_mean" not in prior:
        return mean, covariance
    gain = np.array(prior["cross_covariance"]) @ np.linalg.pinv(np.array(prior["active_covariance"]))
    return mean + gain @ (y - np.array(prior["active_mean"])), covariance - gain @ np.array(prior["cross_covariance"]).T


def conditional_mean(a, b, m, s):
    return m + s @ a.T @ np.linalg.pinv(a @ s @ a.T, rcond=1e-10) @ (b - a @ m)


def likeliest(a, b, m, s):
    """The likeliest x in the box with A x = b: every choice of which features are at which end is tried, and the best kept that satisfies
    all conditions of an optimum."""
    p, d, best = np.linalg.inv(s), len(m), None
    for ends in itertools.product((None, 0.0, 1.0), repeat=d):
        fixed = [i for i in range(d) if ends[i] is not None]
        rows = np.vstack([a, np.eye(d)[fixed]])
        right = np.concatenate([b, [ends[i] for i in fixed]])
        if np.linalg.matrix_rank(rows) < len(rows):
            continue
        n = len(rows)
        solved = np.linalg.solve(np.block([[p, rows.T], [rows, np.zeros((n, n))]]), np.concatenate([p @ m, right]))
        x, pull = solved[:d], solved[d + len(a) :]
        inside = np.all(x > -1e-11) and np.all(x < 1 + 1e-11)
        # P (x − m) + rowsᵀ λ = 0: at 0 the objective must rise inwards, λ ≤ 0; at 1 λ ≥ 0.
        signs = all((pull[at] <= 1e-11) if ends[i] == 0.0 else (pull[at] >= -1e-11) for at, i in enumerate(fixed))
        if inside and signs:
            value = (x - m) @ p @ (x - m)
            if best is None or value < best[0]:
                best = (value, x)
    return best[1]


def segment_mean(a, b, m, s):
    """The mean of the Gaussian on the segment of the box with A x = b, where one dimension is left: a truncated normal number."""
    x0 = conditional_mean(a, b, m, s)
    direction = np.linalg.svd(a)[2][-1]
    variance = 1 / (direction @ np.linalg.inv(s) @ direction)
    ends = [sorted([(0 - x) / n, (1 - x) / n]) for x, n in zip(x0, direction)]
    low, high = (max(e[0] for e in ends) / math.sqrt(variance), min(e[1] for e in ends) / math.sqrt(variance))
    density = lambda t: math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    share = 0.5 * (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)))
    return x0 + direction * math.sqrt(variance) * (density(low) - density(high)) / share


def through_tangents(model, y, c, m, s):
    """The likeliest x without bounds whose scores are the released ones: h(x) = b and S⁻¹ (x − m) = Jᵀ λ, J the slopes of h at x. Steps
    from m, each half of the way. `None` where they do not come to rest."""
    j = differences(len(c))
    h, b = (lambda x: j @ model.logits(y, x)), j @ np.log(c)
    x = np.clip(m, 0, 1)
    for _ in range(400):
        slope = slopes(h, x)
        step = conditional_mean(slope, b - h(x) + slope @ x, m, s) - x
        if np.max(np.abs(step)) < 1e-14:
            break
        x = x + 0.5 * step
    residual = np.linalg.inv(s) @ (x - m)
    slope = slopes(h, x)
    left = residual - slope.T @ np.linalg.lstsq(slope.T, residual, rcond=None)[0]
    return x if np.max(np.abs(b - h(x))) < 1e-11 and np.max(np.abs(left)) < 1e-8 else None


# Metrics. Records are rows here.

def metrics(found, truth):
    found = np.clip(found, 0, 1)
    n, d = truth.shape

    def correlation(e, x):
        e, x = e - e.mean(), x - x.mean()
        return abs(e @ x) / math.sqrt((e @ e) * (x @ x)) if np.ptp(e) > 0 and np.ptp(x) > 0 else 0.0

    orders = itertools.permutations(range(d))
    return {
        "correlation": np.mean([correlation(found[:, i], truth[:, i]) for i in range(d)]),
        "permutation_matched_mse": min(np.mean((found[:, list(o)] - truth) ** 2) for o in orders),
        "values_within": np.mean(np.abs(found - truth) <= 0.1),
        "records_within": np.mean(np.all(np.abs(found - truth) <= 0.1, axis=1)),
    }


def active_correlation(y, x):
    return [np.mean([abs(np.corrcoef(x[:, i], y[:, j])[0, 1]) for j in range(y.shape[1])]) for i in range(x.shape[1])]


def scored(found, truth, scores_at, c):
    return {
        "score_mismatch": np.mean((np.array([scores_at(r, x) for r, x in enumerate(found)]) - c) ** 2),
        "mse": np.mean((found - truth) ** 2),
        "half": np.mean((truth - 0.5) ** 2),
        "metrics": metrics(found, truth),
    }


# Cases.

def records(model, n, decimals=None):
    d_act = model.active.layers[0][0].shape[1]
    y, x = RNG.uniform(0, 1, (n, d_act)), RNG.uniform(0.05, 0.95, (n, model.d))
    c = np.array([model.scores(y[r], x[r]) for r in range(n)])
    c = c if decimals is None else np.round(c, decimals)
    assert np.all(c > 0)
    return y, x, c


def case(model_text, y, x, c, runs, prior=None):
    ids = [f"r{r + 1}" for r in range(len(y))]
    whole = {"schema": 1, "kind": "attack", **model_text}
    if prior is not None:
        whole["prior"] = prior
    whole["records"] = [{"id": i, "y_act": list(a), "c": list(s)} for i, a, s in zip(ids, y, c)]
    whole["truth"] = [{"id": i, "x_pas": list(t)} for i, t in zip(ids, x)]
    whole["expected"] = {"active_correlation": active_correlation(y, x), "runs": runs}
    return whole


def run(model, y, x, c, attack, found, tolerance, settings=None):
    found = np.array(found)
    figures = scored(found, x, lambda r, at: model.scores(y[r], at), c)
    return {"attack": attack, "settings": settings or {}, "x": found.tolist(), "tolerance": tolerance, **figures}


def inversions(model, n, steps, rate, decimals=None):
    y, x, c = records(model, n, decimals)
    runs = []
    for loss, (start, projected) in itertools.product(LOSSES, [("zero", True), ("half", False)]):
        found = [descend(model, y[r], c[r], loss, start, projected, steps, rate) for r in range(n)]
        settings = {
            "loss": loss, "start": start, "projected": str(projected).lower(), "steps": str(steps),
            "learning_rate": str(rate), "stop_loss": "0",
        }
        runs.append(run(model, y, x, c, "gradient_inversion", found, 1e-11, settings))
    return case({"networks": model.text()}, y, x, c, runs)


def layer_by_layer(model, n, exact):
    y, x, c = records(model, n)
    found = np.array([layerwise(model, y[r], c[r]) for r in range(n)])
    assert (np.max(np.abs(found - x)) < 1e-9) == exact, np.max(np.abs(found - x))
    return case({"networks": model.text()}, y, x, c, [run(model, y, x, c, "half_star_layerwise", found, 1e-11)])


def with_moments(model, n, joint, width=0.15):
    """Records of a Gaussian within [0.01, 0.99], with its moments, and the scores."""
    d, d_act = model.d, model.active.layers[0][0].shape[1]
    spread = width * (RNG.uniform(-1, 1, (d + d_act, d + d_act)) + np.eye(d + d_act))
    all_of_them, mean = spread @ spread.T, RNG.uniform(0.2, 0.8, d + d_act)
    drawn = []
    while len(drawn) < n:
        record = RNG.multivariate_normal(mean, all_of_them, method="cholesky")
        if np.all((record > 0.01) & (record < 0.99)):
            drawn.append(record)
    x, y = np.array(drawn)[:, :d], np.array(drawn)[:, d:]
    c = np.array([model.scores(y[r], x[r]) for r in range(n)])
    prior = {"mean": mean[:d].tolist(), "covariance": all_of_them[:d, :d].tolist()}
    if joint:
        prior["active_mean"] = mean[d:].tolist()
        prior["active_covariance"] = all_of_them[d:, d:].tolist()
        prior["cross_covariance"] = all_of_them[:d, d:].tolist()
    return y, x, c, prior


def affine(k, d, joint, width):
    """Networks without hidden layers, which are linear maps: what the equations give."""
    model = Model(Network(2, [], k, None), [Network(d, [], k, None, bias=False)])
    y, x, c, prior = with_moments(model, 3, joint, width)
    j = differences(k)
    a = j @ model.passive[0].layers[0][0]
    right = [j @ (np.log(c[r]) - model.active(y[r])) for r in range(3)]
    known = [given(prior, y[r]) for r in range(3)]
    solve = lambda method: [method(a, right[r], *known[r]) for r in range(3)]
    half_star = [np.clip(nearest(a, b, np.full(d, 0.5)), 0, 1) for b in right]
    runs = [
        run(model, y, x, c, "conditional_mean", solve(conditional_mean), 1e-12),
        run(model, y, x, c, "gaussian", solve(likeliest), 1e-10),
        run(model, y, x, c, "half_star_layerwise", half_star, 1e-12),
        run(model, y, x, c, "imputation", [np.clip(m, 0, 1) for m, _ in known], 1e-12),
    ]
    if d == k:
        # By expectation propagation, which on a segment is near the mean and not at it.
        runs.append(run(model, y, x, c, "posterior_mean", solve(segment_mean), 1e-2))
    return case({"networks": model.text()}, y, x, c, runs, prior)


def tangents(model, joint):
    found = [None]
    while any(x is None for x in found):
        y, x, c, prior = with_moments(model, 3, joint)
        found = [through_tangents(model, y[r], c[r], *given(prior, y[r])) for r in range(3)]
    return case({"networks": model.text()}, y, x, c, [run(model, y, x, c, "conditional_mean", found, 1e-8)], prior)


def linear():
    """Weights, fewer features than classes: what is exact has no error, and ½ says nothing. Features of two and three values."""
    k, d, n = 5, 3, 12
    w_act, w_pas, b = RNG.uniform(-2, 2, (k, 2)), RNG.uniform(-2, 2, (k, d)), RNG.uniform(-1, 1, k)
    y = RNG.uniform(0, 1, (n, 2))
    x = np.column_stack([RNG.integers(0, 2, n), RNG.integers(0, 3, n) / 2, RNG.uniform(0, 1, n)]).astype(float)
    scores_at = lambda r, at: np.exp(log_softmax(w_act @ y[r] + w_pas @ at + b))
    c = np.array([scores_at(r, x[r]) for r in range(n)])
    entropies = []
    for feature in range(2):
        shares = np.unique(x[:, feature], return_counts=True)[1] / n
        entropies.append(-np.sum(shares * np.log2(shares)))
    classes = lambda rows: np.argmax(rows @ w_pas.T, axis=1)
    j, runs = differences(k), []
    right = [j @ (np.log(c[r]) - w_act @ y[r] - b) for r in range(n)]
    for attack, found, entropy in [
        ("least_squares", np.array([np.linalg.pinv(j @ w_pas) @ right[r] for r in range(n)]), 0.0),
        ("half", np.full((n, d), 0.5), np.mean(entropies)),
    ]:
        figures = scored(found, x, scores_at, c)
        figures["metrics"] |= {
            "conditional_entropy": entropy,
            "attack_accuracy": np.mean(classes(np.clip(found, 0, 1)) == classes(x)),
        }
        runs.append({"attack": attack, "settings": {}, "x": found.tolist(), "tolerance": 1e-12, **figures})
    text = {"w_act": w_act.tolist(), "w_pas": w_pas.tolist(), "b": b.tolist()}
    return case(text, y, x, c, runs)


def main():
    out = pathlib.Path(sys.argv[1])
    perceptrons = lambda k, d, hidden, activation, d_act=2, scale=1.5: Model(
        Network(d_act, hidden, k, activation, scale=scale), [Network(d, hidden, k, activation, bias=False, scale=scale)]
    )
    several = Model(Linear(2, [], 3, None), [Network(2, [4], 3, "tanh", bias=False), Network(3, [5], 3, "sigmoid", bias=False)])
    under_top = Model(
        Network(2, [4], 3, "tanh"),
        [Network(3, [5], 4, "sigmoid"), Network(2, [], 2, None)],
        Network(9, [6], 4, "tanh", scale=1.0),
    )
    parts = [Network(3, [4], 6, "tanh", bias=False), Network(2, [2], 6, "sigmoid", bias=False)]
    cases = {
        "network_sum_sigmoid": inversions(perceptrons(4, 3, [8, 8], "sigmoid"), 3, 200, 0.01),
        "network_sum_relu": inversions(perceptrons(5, 6, [8, 8], "relu"), 3, 120, 0.02),
        "network_sum_rounded": inversions(perceptrons(3, 2, [8, 8], "sigmoid", 3, 0.5), 2, 60, 0.1, decimals=2),
        "network_sum_parties": inversions(several, 2, 100, 0.05),
        "network_concat": inversions(under_top, 3, 150, 0.02),
        "network_layerwise_sigmoid": layer_by_layer(perceptrons(4, 5, [8], "sigmoid"), 3, False),
        "network_layerwise_deep": layer_by_layer(perceptrons(4, 4, [6, 5], "tanh"), 3, False),
        "network_layerwise_parties": layer_by_layer(Model(Network(2, [3], 6, "tanh"), parts), 3, False),
        "network_layerwise_exact": layer_by_layer(perceptrons(6, 3, [4, 5], "sigmoid", scale=1.0), 3, True),
        "network_affine_own": affine(3, 5, False, 0.3),
        "network_affine_joint": affine(4, 6, True, 0.2),
        "network_affine_segment": affine(3, 3, True, 0.3),
        "network_tangent_sigmoid": tangents(perceptrons(4, 5, [8], "sigmoid"), True),
        "network_tangent_concat": tangents(under_top, False),
        "scored_linear": linear(),
    }
    for name, content in cases.items():
        (out / f"{name}.json").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()
