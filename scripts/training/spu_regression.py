"""Softmax regression in SecretFlow's SPU: three processes over loopback sockets, ABY3 on a ring of 64 bits.

The data are those of `cloison partition`: active.csv, passive-1.csv, train.ids and test.ids. Every party centres and whitens its own
features in the clear, as `vfl-mpc` has it. The steps are Nesterov's, by full batches, with the step of that crate. Scores are computed
either by SPU's softmax, or along the changes of the logits by the midpoint rule, as that crate does.

    pip install spu==0.9.5
    regression.py DIR --epochs N [--scores softmax|midpoint]

Prints one line of JSON: seconds of the computation, without sharing and compilation, bytes over the loopback interface during it, and
the accuracy of the weights on the test records.
"""

import argparse
import csv
import json
import multiprocessing
import pathlib
import time

import numpy as np

PARTIES = 3
EARLY_EPOCHS, EARLY_SUBSTEPS = 10, 4
LARGEST_FEATURE = 8.0


def read_table(file):
    with open(file, newline="") as lines:
        header, *rows = csv.reader(lines)
    return header[1:], {row[0]: row[1:] for row in rows}


def read_ids(file):
    return file.read_text().split()


def whiten(train, test):
    """Centres and whitens one party's features, by the training records."""
    mean = train.mean(axis=0)
    values, vectors = np.linalg.eigh((train - mean).T @ (train - mean) / len(train))
    kept = values > 1e-10 * values.max()
    map_ = vectors[:, kept] / np.sqrt(values[kept])
    return [np.clip((x - mean) @ map_, -LARGEST_FEATURE, LARGEST_FEATURE) for x in (train, test)]


def read_data(directory):
    names, active = read_table(directory / "active.csv")
    _, passive = read_table(directory / "passive-1.csv")
    label = names.index("label")
    classes = sorted({row[label] for row in active.values()})
    ids = [read_ids(directory / name) for name in ("train.ids", "test.ids")]

    def features(rows, without):
        return [np.array([[float(v) for at, v in enumerate(rows[i]) if at != without] for i in part]) for part in ids]

    blocks = [whiten(*features(active, label)), whiten(*features(passive, None))]
    ones = [[np.ones((len(part), 1)) for part in ids]]
    x = [np.hstack(part) for part in zip(*blocks, *ones)]
    y = [np.array([classes.index(active[i][label]) for i in part]) for part in ids]
    return x, y, len(classes)


def training(epochs, penalty, scale, scores_by):
    """Returns the program: weights from prepared features and labels, on shares."""
    import jax.numpy as jnp

    shrink = np.ones((scale["features"], 1))
    shrink[:-1] -= 2 * penalty * scale["step"]

    def follow(scores, at, moved):
        return scores + (moved - (moved * at).sum(axis=1, keepdims=True)) * at

    def program(x, labels):
        n, k = labels.shape
        weights = reached = jnp.zeros((x.shape[1], k))
        scores = jnp.full((n, k), 1.0 / k)
        for epoch in range(epochs):
            # The features carry the step and the number of records (`Regression::feature_scale`); what is left is a power of two.
            stepped = shrink * weights - (x.T @ (scores - labels)) * scale["power"]
            change = stepped + epoch / (epoch + 3.0) * (stepped - reached) - weights
            weights, reached = weights + change, stepped
            if scores_by == "softmax":
                z = x @ weights
                z = z - jnp.max(z, axis=1, keepdims=True)
                e = jnp.exp(z)
                scores = e / e.sum(axis=1, keepdims=True)
                continue
            parts = EARLY_SUBSTEPS if epoch < EARLY_EPOCHS else 1
            moved = (x @ change) * (1.0 / parts)
            for _ in range(parts):
                half = follow(scores, scores, 0.5 * moved)
                scores = follow(scores, half, moved)
        return weights

    return program


def loopback_bytes():
    line = next(line for line in pathlib.Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split()[1])


def party(rank, ports, executable, shares, results):
    import spu
    from spu import libspu

    config = runtime_config(libspu)
    description = libspu.link.Desc()
    description.recv_timeout_ms = 600_000
    for at, port in enumerate(ports):
        description.add_party(f"party{at}", f"127.0.0.1:{port}")
    link = libspu.link.create_brpc(description, rank)
    runtime = spu.Runtime(link, config)
    for name, share in shares.items():
        runtime.set_var(name, share)
    link.barrier()
    began, bytes_before = time.perf_counter(), loopback_bytes()
    runtime.run(executable)
    link.barrier()
    seconds, sent = time.perf_counter() - began, loopback_bytes() - bytes_before
    results.put((rank, seconds, sent, [runtime.get_var(name) for name in executable.output_names]))
    link.barrier()


def runtime_config(libspu):
    config = libspu.RuntimeConfig(protocol=libspu.ProtocolKind.ABY3, field=libspu.FieldType.FM64)
    config.fxp_fraction_bits = 20
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--penalty", type=float, default=1e-4)
    parser.add_argument("--scores", choices=["softmax", "midpoint"], default="softmax")
    parser.add_argument("--ports", type=int, default=7310, help="the first of three")
    arguments = parser.parse_args()

    import spu
    from spu import libspu
    from spu.utils import frontend

    (x, x_test), (y, y_test), classes = read_data(arguments.directory)
    step = 1 / (0.5 * 2 + 2 * arguments.penalty)
    power = 2.0 ** int(np.ceil(np.log2(len(x))))
    factor = np.sqrt(step * power / len(x))
    scale = {"step": step, "power": 1 / power, "features": x.shape[1]}
    inputs = {"x": x * factor, "labels": np.eye(classes)[y]}
    program = training(arguments.epochs, arguments.penalty, scale, arguments.scores)
    secret = [libspu.Visibility.VIS_SECRET] * len(inputs)
    began = time.perf_counter()
    executable, _ = frontend.compile(
        frontend.Kind.JAX, program, list(inputs.values()), {}, list(inputs), secret, lambda out: [f"out{at}" for at in range(len(out))]
    )
    compiled = time.perf_counter() - began
    io = spu.Io(PARTIES, runtime_config(libspu))
    shares = {name: io.make_shares(value.astype(np.float32), libspu.Visibility.VIS_SECRET) for name, value in inputs.items()}

    results = multiprocessing.Queue()
    ports = range(arguments.ports, arguments.ports + PARTIES)
    parties = [
        multiprocessing.Process(target=party, args=(rank, ports, executable, {name: s[rank] for name, s in shares.items()}, results))
        for rank in range(PARTIES)
    ]
    for process in parties:
        process.start()
    outcomes = sorted((results.get(timeout=3600) for _ in parties), key=lambda outcome: outcome[0])
    for process in parties:
        process.join(60)
    weights = io.reconstruct([outputs[0] for _, _, _, outputs in outcomes])
    accuracy = float(np.mean((x_test * factor @ weights).argmax(axis=1) == y_test))
    print(
        json.dumps({
            "spu": spu.__version__, "scores": arguments.scores, "epochs": arguments.epochs, "records": len(x),
            "seconds": round(max(seconds for _, seconds, _, _ in outcomes), 2), "compiled_in": round(compiled, 1),
            "megabytes": round(max(sent for _, _, sent, _ in outcomes) / 1e6, 1), "accuracy": round(accuracy, 4),
        })
    )


if __name__ == "__main__":
    main()
