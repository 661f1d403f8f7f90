#!/usr/bin/env python3
"""Trains a small generator of a generative regression network in PyTorch, in 64 bits, and writes what it started from and what came
out: the case that the test `a_training_is_that_of_pytorch` of the active party repeats.

    python3 scripts/pytorch/generator.py > shared/attack/src/generative_regression/pytorch.json
"""

import json

import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(20211)

OWN, PASSIVE, CLASSES, RECORDS = 3, 4, 3, 11
HIDDEN = [7, 5]
RATE, VARIANCE = 1e-2, 0.25


def generator():
    layers, inputs = [], OWN + PASSIVE
    for width in HIDDEN:
        layers += [nn.Linear(inputs, width), nn.LayerNorm(width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, PASSIVE), nn.Sigmoid())


def main():
    model = generator()
    weights = [p.detach().flatten().tolist() for p in model.parameters()]
    w_pas = torch.randn(CLASSES, PASSIVE)
    y, x = torch.rand(RECORDS, OWN), torch.rand(RECORDS, PASSIVE)
    known = y @ torch.randn(CLASSES, OWN).T
    scores = torch.softmax(known + x @ w_pas.T, dim=1)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    steps, misfits = [], []
    for _ in range(6):
        order = torch.randperm(RECORDS)
        for batch in (order[:6], order[6:]):
            noise = torch.randn(len(batch), PASSIVE)
            steps.append((batch.tolist(), noise.tolist()))
            estimates = model(torch.cat([y[batch], noise], dim=1))
            found = torch.softmax(known[batch] + estimates @ w_pas.T, dim=1)
            misfit = ((found - scores[batch]) ** 2).sum()
            misfits.append(misfit.item())
            optimiser.zero_grad()
            (misfit + VARIANCE * estimates.var(dim=0).sum()).backward()
            optimiser.step()
    last = torch.randn(RECORDS, PASSIVE)
    with torch.no_grad():
        estimates = model(torch.cat([y, last], dim=1))
    print(json.dumps({
        "pytorch": f"torch {torch.__version__.split('+')[0]}",
        "own": OWN, "passive": PASSIVE, "classes": CLASSES, "hidden": HIDDEN,
        "weights": weights, "w_pas": w_pas.flatten().tolist(),
        "y": y.tolist(), "known": known.tolist(), "scores": scores.tolist(),
        "learning_rate": RATE, "variance_weight": VARIANCE,
        "steps": steps, "misfits": misfits,
        "last_noise": last.tolist(), "estimates": estimates.tolist(),
    }))


if __name__ == "__main__":
    main()
