#!/usr/bin/env python3
"""Carries networks between PyTorch and Cloison.

  exchange.py write DIR       small networks with random parameters, and what PyTorch makes of random records
  exchange.py check DIR       reads *.safetensors that Cloison has written, and compares with the outputs in *.json beside them

Needs PyTorch (Debian: python3-torch) and the package safetensors. `write` made the files in shared/core/tests/pytorch; `check` reads what
`cargo run -p vfl-core --example pytorch_exchange -- DIR` writes.
"""

import json
import pathlib
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from networks import Residual, perceptron


def build(kind, settings, features, state):
    """The module that a file is of."""
    if kind == "mlp":
        places = sorted(int(name.split(".")[0]) for name in state if name.endswith(".weight"))
        *hidden, width = (state[f"{place}.weight"].shape[0] for place in places)
        return perceptron(features, hidden, width, settings.get("activation", "sigmoid"), f"{places[-1]}.bias" in state)
    if kind == "residual":
        width = state["linear.weight"].shape[0] if "linear.weight" in state else settings.get("filters", [64])[-1]
        return Residual(features, width, last_bias="linear.bias" in state, **settings)
    return nn.Linear(features, state["weight"].shape[0], bias="bias" in state)


def shaken(module):
    """Running statistics and batch norms away from where they start."""
    with torch.no_grad():
        for name, values in module.state_dict().items():
            if values.is_floating_point() and values.dim() == 1:
                values.copy_(torch.rand_like(values) + (0.5 if name.endswith(("var", "weight")) else -0.5))
    return module.eval()


def write(target):
    torch.manual_seed(7)
    networks = [
        ("mlp", "mlp", {"activation": "tanh"}, 5, perceptron(5, [4, 3], 3, "tanh"), torch.float64),
        ("mlp_32", "mlp", {"activation": "relu"}, 6, perceptron(6, [8], 2, "relu"), torch.float32),
        ("linear", "softmax_regression", {}, 4, nn.Linear(4, 3), torch.float64),
        (
            "residual",
            "residual",
            {"channels": 2, "height": 6, "blocks": 2, "filters": [4, 8]},
            60,
            Residual(60, 3, 2, 6, 2, (4, 8)),
            torch.float32,
        ),
    ]
    for name, kind, settings, features, module, dtype in networks:
        module = shaken(module.to(dtype))
        inputs = torch.rand(4, features, dtype=dtype)
        with torch.no_grad():
            outputs = module(inputs)
        metadata = {
            "kind": kind,
            "settings": json.dumps(settings),
            "feature_names": json.dumps([f"x{i + 1}" for i in range(features)]),
            "class_names": json.dumps([f"class {i + 1}" for i in range(outputs.shape[1])]),
        }
        save_file(module.state_dict(), target / f"{name}.safetensors", metadata=metadata)
        records = {"inputs": inputs.tolist(), "outputs": outputs.tolist()}
        (target / f"{name}.json").write_text(json.dumps(records) + "\n")


def check(target):
    worst = 0.0
    files = sorted(target.glob("*.safetensors"))
    for path in files:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
        state = load_file(path)
        settings, features = json.loads(metadata["settings"] or "{}"), len(json.loads(metadata["feature_names"]))
        module = build(metadata["kind"], settings, features, state).double()
        missing = module.load_state_dict(state, strict=False)
        odd = [name for name in missing.missing_keys if not name.endswith("num_batches_tracked")] + missing.unexpected_keys
        if odd:
            sys.exit(f"{path.name}: missing or unexpected {odd}")
        records = json.loads(path.with_suffix(".json").read_text())
        with torch.no_grad():
            found = module.eval()(torch.tensor(records["inputs"], dtype=torch.float64))
        expected = torch.tensor(records["outputs"], dtype=torch.float64)
        difference = ((found - expected).abs().max() / expected.abs().max()).item()
        print(f"{path.name:<32} {metadata['kind']:<20} largest difference, of the largest output {difference:.1e}")
        worst = max(worst, difference)
    if not files or worst > 1e-5:
        sys.exit("the outputs differ" if files else f"no *.safetensors in {target}")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    target = pathlib.Path(sys.argv[2])
    write(target) if sys.argv[1] == "write" else check(target)


if __name__ == "__main__":
    main()
