#!/usr/bin/env python3
"""Writes likelihood ratios of memberships (Carlini et al. 2022, algorithm 1, online) of a few records and models: the vector of the
test `ratios_are_those_of_numpy` in lab/studies/src/membership/ratio/vectors.rs.

    python3 scripts/numpy/likelihood_ratio.py > lab/studies/src/membership/ratio/numpy.json

Needs NumPy. Everything is written out by lists: for each target, the values of its shadows with and without a record, their means and
variances, and the difference of two logarithms of normal densities.

With up to 64 models variances are pooled over the records about each record's own mean, as the paper does with few models; with more each
record has its own. Beside the target one more shadow is left out: the next model that has the record where the target has not, or the
other way round.
"""

import json
import math

import numpy as np

RNG = np.random.default_rng(20223)


def phi(p, label):
    """ln p_y − ln Σ others, of one vector of scores."""
    others = sum(max(p[j], 0.0) for j in range(len(p)) if j != label)
    return math.log(max(p[label], 1e-12)) - math.log(max(others, 1e-12))


def log_normal(x, mean, variance):
    return -0.5 * math.log(2 * math.pi * variance) - (x - mean) ** 2 / (2 * variance)


def shadows(values, members, target):
    """The values of the target's shadows: those without the record, those with it."""
    n = len(values)
    after = [(target + step) % n for step in range(1, n)]
    partner = next((m for m in after if members[m] != members[target]), None)
    kept = [m for m in range(n) if m not in (target, partner)]
    return [[values[m] for m in kept if members[m] == side] for side in (False, True)]


def ratios(values, members, target):
    """By record; `values` and `members` are record by record, each over the models."""
    each = [shadows(v, m, target) for v, m in zip(values, members)]
    pooled = []
    for side in (0, 1):
        spread = sum(np.sum((np.array(s[side]) - np.mean(s[side])) ** 2) for s in each)
        pooled.append(spread / sum(len(s[side]) - 1 for s in each))
    found = []
    for record, sides in enumerate(each):
        x, of_side = values[record][target], []
        for side in (0, 1):
            variance = np.var(sides[side], ddof=1) if len(values[record]) > 64 else pooled[side]
            of_side.append(log_normal(x, np.mean(sides[side]), variance))
        found.append(of_side[1] - of_side[0])
    return found


def case(records, models, classes, targets):
    labels = RNG.integers(0, classes, records).tolist()
    # Every record in half of the models.
    members = np.array([RNG.permutation(models) < models // 2 for _ in range(records)])
    logits = RNG.normal(0, 1, (records, 1, classes)) + RNG.normal(0, 0.5, (records, models, classes))
    for record, label in enumerate(labels):
        logits[record, :, label] += 1 + 0.8 * members[record]
    scores = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    values = [[phi(scores[r, m], labels[r]) for m in range(models)] for r in range(records)]
    return {
        "numpy": np.__version__, "labels": labels, "members": members.tolist(),
        # By model and record.
        "scores": scores.transpose(1, 0, 2).tolist(),
        "phi": np.array(values).T.tolist(),
        "ratios": [{"target": t, "by_record": ratios(values, members.tolist(), t)} for t in targets],
    }


print(json.dumps([case(6, 10, 4, range(10)), case(3, 68, 3, (0, 1, 33, 67))]))
