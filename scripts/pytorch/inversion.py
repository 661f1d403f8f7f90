#!/usr/bin/env python3
"""Runs Adam of PyTorch on the models that `cargo run -p vfl-papers --example network_attacks -- CASES.json` wrote, beside its table.

usage: inversion.py CASES.json [SET]

Needs PyTorch (Debian: python3-torch) and numpy. Squared differences of the logarithms of the scores, from ½, kept in [0, 1], 10 000 steps of
0.01, one thread; on one data set, or on all.
"""

import json
import sys
import time

import numpy as np
import torch

TRAININGS = ("early", "late", "sharp")
SETS = ("satellite", "robot", "drive", "bank")
MET = 1e-10


class Case:
    def __init__(self, document):
        self.training, self.set, self.d = document["training"], document["set"], document["d"]
        self.layers = []
        inputs = self.d
        for layer in document["layers"]:
            outputs = layer["outputs"]
            bias = layer["bias"] or [0.0] * outputs
            self.layers.append((np.array(layer["weights"]).reshape(outputs, inputs), np.array(bias)))
            inputs = outputs
        self.classes = inputs
        self.own = np.array(document["own"]).reshape(-1, self.classes)
        self.truth = np.array(document["truth"]).reshape(-1, self.d)

    def logits(self, x):
        for at, (weights, bias) in enumerate(self.layers):
            x = x @ weights.T + bias
            if at + 1 < len(self.layers):
                x = 1.0 / (1.0 + np.exp(-x))
        return self.own + x

    def judge(self, x):
        difference = self.logits(x) - self.logits(self.truth)
        difference -= difference.mean(axis=1, keepdims=True)
        return ((x - self.truth) ** 2).mean(axis=1), (difference**2).sum(axis=1) < MET

    def adam(self):
        layers = [(torch.tensor(w).T, torch.tensor(b)) for w, b in self.layers]
        own = torch.tensor(self.own)
        wanted = torch.log_softmax(torch.tensor(self.logits(self.truth)), 1)
        x = torch.full(self.truth.shape, 0.5, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.Adam([x], lr=0.01)
        for _ in range(10_000):
            h = x
            for at, (weights, bias) in enumerate(layers):
                h = h @ weights + bias
                if at + 1 < len(layers):
                    h = torch.sigmoid(h)
            # The sum over records: each has a gradient of its own size.
            loss = ((torch.log_softmax(own + h, 1) - wanted) ** 2).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            with torch.no_grad():
                x.clamp_(0.0, 1.0)
        return x.detach().numpy()


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    torch.set_num_threads(1)
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = [Case(document) for document in json.load(file)]
    sets = sys.argv[2:] or SETS
    for training, name in enumerate(TRAININGS):
        errors, met, begun = {}, [], time.perf_counter()
        for case in (case for case in cases if case.training == training and case.set in sets):
            error, of_case = case.judge(case.adam())
            errors.setdefault(case.set, []).extend(error)
            met.extend(of_case)
        ms = (time.perf_counter() - begun) * 1e3 / len(met)
        row = ", ".join(f"{name} {np.mean(of_set):.4f}" for name, of_set in errors.items())
        print(f"{name}: {row}; {100 * np.mean(met):.0f} % met, {ms:.2f} ms", flush=True)


main()
