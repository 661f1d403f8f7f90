#!/usr/bin/env python3
"""Times PyTorch on the networks of `cargo bench -p vfl-core --bench networks`: same shapes, batches and rows.

Needs PyTorch (Debian: python3-torch). Prints a row for each network, number of threads and type of numbers: milliseconds for a
training step of 64 records (both parties and the head, Adam), and microseconds a record for one party's outputs. Then the time of
gradient inversion of 1000 records through two perceptrons, 1000 steps each, and of 10 epochs of generative regression, as `cargo bench -p vfl-attack --bench
gradient_inversion -- perceptron` has them.
"""

import os
import time

import torch
from torch import nn

from networks import Residual, perceptron

BATCH = 64


def best(runs, run):
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


def row(name, make, features, classes, head, steps, records, dtype):
    torch.manual_seed(1)
    parties = [make(True), make(False)]
    everything = nn.ModuleList(parties + ([head] if head is not None else [])).to(dtype)
    batches = [torch.rand(BATCH, features, dtype=dtype) for _ in parties]
    labels = torch.arange(BATCH) % classes
    optimiser = torch.optim.Adam(everything.parameters(), lr=1e-3)
    loss = nn.CrossEntropyLoss()

    def step():
        outputs = [party(batch) for party, batch in zip(parties, batches)]
        logits = sum(outputs) if head is None else head(torch.cat(outputs, 1))
        optimiser.zero_grad()
        loss(logits, labels).backward()
        optimiser.step()

    step()
    ms = best(3, lambda: [step() for _ in range(steps)]) * 1e3 / steps
    many = torch.rand(records, features, dtype=dtype)
    parties[0].eval()
    with torch.no_grad():
        us = best(3, lambda: parties[0](many)) * 1e6 / records
    kind = "64 bit" if dtype == torch.float64 else "32 bit"
    print(f"{name:<40} {torch.get_num_threads():>8} {kind:>8} {ms:>16.3f} {us:>24.2f}", flush=True)


def served(dtype):
    """J's perceptrons on 18 + 18 features of 1000 records: the passive one, the active one's outputs, and the scores."""
    torch.manual_seed(1)
    own, passive = (perceptron(18, [8, 8], 6, "sigmoid", active).to(dtype) for active in (True, False))
    for parameter in passive.parameters():
        parameter.requires_grad_(False)
    with torch.no_grad():
        share = own(torch.rand(1000, 18, dtype=dtype))
        scores = torch.softmax(share + passive(torch.rand(1000, 18, dtype=dtype)), 1)
    return passive, share, scores


def inversion(loss, dtype):
    """Seconds for 1000 steps of Adam on the 18 passive features of 1000 records at once, clipped to [0, 1]."""
    passive, share, scores = served(dtype)
    logs = scores.log()

    def run():
        x = torch.zeros(1000, 18, dtype=dtype, requires_grad=True)
        optimiser = torch.optim.Adam([x], lr=0.01)
        for _ in range(1000):
            logits = share + passive(x)
            if loss == "mse":
                value = ((torch.softmax(logits, 1) - scores) ** 2).mean(1).sum()
            else:
                value = ((torch.log_softmax(logits, 1) - logs) ** 2).sum()
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            with torch.no_grad():
                x.clamp_(0, 1)

    return best(3, run)


def generation(dtype):
    """Seconds for 10 epochs of a generative regression network on the same, batches of 64."""
    # The features that the generator takes are the active party's own outputs, as in the benchmark.
    passive, share, scores = served(dtype)
    layers, inputs = [], 6 + 18
    for width in [600, 200, 100]:
        layers += [nn.Linear(inputs, width), nn.LayerNorm(width), nn.ReLU()]
        inputs = width
    generator = nn.Sequential(*layers, nn.Linear(inputs, 18), nn.Sigmoid()).to(dtype)

    def run():
        optimiser = torch.optim.Adam(generator.parameters(), lr=1e-4)
        for _ in range(10):
            for batch in torch.randperm(1000).split(64):
                noise = torch.randn(len(batch), 18, dtype=dtype)
                x = generator(torch.cat([share[batch], noise], 1))
                found = torch.softmax(share[batch] + passive(x), 1)
                value = ((found - scores[batch]) ** 2).sum() + 0.25 * x.var(dim=0).sum()
                optimiser.zero_grad()
                value.backward()
                optimiser.step()

    return best(3, run)


def main():
    print(f"PyTorch {torch.__version__}")
    print(f"{'':<40} {'threads':>8} {'':>8} {'ms a step of 64':>16} {'us a record, outputs':>24}")
    sigmoid = 18, [8, 8], 6, "sigmoid"
    relu = 392, [128], 64, "relu"
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        for dtype in [torch.float64, torch.float32]:
            make = lambda active: perceptron(*sigmoid, active)
            row("J, 2 x (18-8-8-6), summed", make, 18, 6, None, 500, 10_000, dtype)
            make = lambda active: perceptron(*relu, active)
            row("P, 2 x (392-128-64), concat-10", make, 392, 10, nn.Linear(128, 10), 100, 10_000, dtype)
        make = lambda active: Residual(1536, 64, channels=3, height=32)
        row("P, 2 x residual (3x32x16), concat-10", make, 1536, 10, nn.Linear(128, 10), 4, 500, torch.float32)
    print(f"\n{'':<40} {'threads':>8} {'':>8} {'s for 1000 records x 1000 steps':>32}")
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        for loss in ["mse", "logsq"]:
            for dtype in [torch.float64, torch.float32]:
                kind = "64 bit" if dtype == torch.float64 else "32 bit"
                seconds = inversion(loss, dtype)
                print(f"{'gradient inversion, ' + loss:<40} {threads:>8} {kind:>8} {seconds:>32.3f}", flush=True)
        for dtype in [torch.float64, torch.float32]:
            kind = "64 bit" if dtype == torch.float64 else "32 bit"
            print(f"{'generative regression, 10 epochs':<40} {threads:>8} {kind:>8} {generation(dtype):>32.3f}", flush=True)


if __name__ == "__main__":
    main()
