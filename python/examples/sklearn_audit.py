# %% [markdown]
# # What do the scores of a scikit-learn model give away?
#
# A bank and a shop hold different columns of the same customers. They want to serve a logistic regression together, so that neither
# sees the other's columns. This notebook takes a model that was trained with scikit-learn, splits it between two parties, serves it
# with three processes on this machine, and audits what the scores tell the one party of the other's columns.
#
# The handwritten digits that come with scikit-learn stand for the customers: 64 columns, 10 classes. The passive party holds 8
# columns, one row of each image. Nothing is downloaded. The programs of Cloison must be on `PATH`, or in the directory that
# `CLOISON_BIN` names.

# %%
import atexit
import csv
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import cloison

work = Path(os.environ.get("CLOISON_OUT", "out/sklearn")).absolute()
for name in ("tls", "data", "state", "parameters"):
    shutil.rmtree(work / name, ignore_errors=True)
(work / "data").mkdir(parents=True)


def run(program: str, *arguments: str) -> None:
    """Runs a program of Cloison in the working directory."""
    where = os.environ.get("CLOISON_BIN")
    subprocess.run([Path(where, program) if where else program, *arguments], cwd=work, check=True)


# %% [markdown]
# ## The model
#
# An ordinary multinomial logistic regression on the pixels, which go from 0 to 16. Training, known and audited records are apart:
# the audit is of records that the model has not seen, and the adversary knows some others whole.

# %%
digits = load_digits()
pixels, labels = digits.data, digits.target.astype(int)
ids = [f"digit-{n}" for n in range(len(pixels))]
columns = [f"pixel_{n // 8}_{n % 8}" for n in range(64)]
passive = [n for n in range(64) if n // 8 == 3]
active = [n for n in range(64) if n not in passive]
order = np.random.default_rng(7).permutation(len(pixels))
train, known, audited = order[:1100], order[1100:1450], order[1450:]

model = LogisticRegression(C=0.01, solver="newton-cg").fit(pixels[train], labels[train])
print(f"accuracy on {len(audited)} other records: {model.score(pixels[audited], labels[audited]):.3f}")

# %% [markdown]
# ## Each party's files
#
# A CSV file with its columns and a schema that declares their public ranges. The parameters go into one file, which
# `cloison split-parameters` parts by the names in the schemas. `--raw` says that the weights are of pixels in their own units.


# %%
def write_csv(name: str, rows: np.ndarray, held: list[int], labelled: bool) -> None:
    """Records with the columns that a party holds."""
    with (work / "data" / name).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", *(columns[n] for n in held), *(["digit"] if labelled else [])])
        for n in rows:
            table.writerow([ids[n], *pixels[n, held], *([labels[n]] if labelled else [])])


def write_schema(name: str, held: list[int], labelled: bool) -> None:
    """The public description of a party's columns."""
    text = 'id = "id"\n'
    if labelled:
        text += f'\n[label]\ncolumn = "digit"\nclasses = {json.dumps([str(n) for n in range(10)])}\n'
    for n in held:
        text += f'\n[[features]]\nname = "{columns[n]}"\nkind = "numeric"\nmin = 0.0\nmax = 16.0\n'
    (work / "data" / name).write_text(text)


everybody = np.arange(len(pixels))
write_csv("active.csv", everybody, active, labelled=True)
write_schema("active.schema.toml", active, labelled=True)
write_csv("passive-1.csv", everybody, passive, labelled=False)
write_schema("passive-1.schema.toml", passive, labelled=False)
# What the adversary of the audit is taken to know: some records with the passive party's columns.
write_csv("known.csv", known, passive, labelled=False)
write_schema("known.schema.toml", passive, labelled=False)
for name, rows in (("train", train), ("known", known), ("audited", audited)):
    (work / "data" / f"{name}.ids").write_text("\n".join(ids[n] for n in rows) + "\n")

whole = {
    "schema": 1,
    "class_names": [str(n) for n in model.classes_],
    "feature_names": columns,
    "weights": model.coef_.tolist(),
    "bias": model.intercept_.tolist(),
}
(work / "model.json").write_text(json.dumps(whole))

# %% [markdown]
# ## Three processes
#
# One certificate for each party, one configuration file for each process. The passive party shows the active party its true
# parameters: the adversary of the papers. It answers the auditor exactly, since there is nobody behind these digits; without
# `mode = "trusted"` its answers have noise, under a budget for each record.

# %%
parties = ("coordinator/coordinator", "passive-party/passive-1", "active-party/active", "auditor/auditor")
run("cloison", "certs", "--out", "tls", *(word for party in parties for word in ("--party", party)))

listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
coordinator, passive_1, active_1 = (f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners)
for listener in listeners:
    listener.close()


def head(name: str, address: str) -> str:
    """What every party's configuration begins with."""
    tls = f'ca = "tls/ca.pem"\ncertificate = "tls/{name}.pem"\nkey = "tls/{name}.key"\n'
    data = "" if name == "coordinator" else f'[data]\ncsv = "data/{name}.csv"\nschema = "data/{name}.schema.toml"\n'
    return f'listen = "{address}"\nstate_dir = "state/{name}"\n[tls]\n{tls}{data}'


peer = f'[[passive_parties]]\nname = "passive-1"\naddress = "{passive_1}"\n'
configurations = {
    "coordinator": head("coordinator", coordinator) + peer + "[audit]\nallowed = true\n",
    "passive-1": head("passive-1", passive_1)
    + '[release]\nto_active_party = "true_parameters"\n[audit]\nallowed = true\nmode = "trusted"\n',
    "active": head("active", active_1)
    + peer
    + f'[coordinator]\nname = "coordinator"\naddress = "{coordinator}"\n'
    + '[audit]\nallowed = true\nknown_csv = "data/known.csv"\nknown_schema = "data/known.schema.toml"\n',
}
for name, text in configurations.items():
    (work / f"{name}.toml").write_text(text)

programs = {"coordinator": "coordinator", "passive-1": "passive-party", "active": "active-party"}
split = ("--active", "data/active.schema.toml", "--passive", "passive-1=data/passive-1.schema.toml")
run("cloison", "split-parameters", "--parameters", "model.json", "--raw", *split, "--out", "parameters")
share = ("import-parameters", "--config", "passive-1.toml", "--parameters", "parameters/passive-1.parameters.json")
run("passive-party", *share, "--active-party", "active")
run("active-party", "import-parameters", "--config", "active.toml", "--parameters", "parameters/active.parameters.json")

processes = []


def stop() -> None:
    """Stops the three processes."""
    while processes:
        process = processes.pop()
        process.terminate()
        process.wait(timeout=15)


atexit.register(stop)
for name, program in programs.items():
    where = os.environ.get("CLOISON_BIN")
    command = [Path(where, program) if where else program, "serve", "--config", f"{name}.toml"]
    with (work / f"{name}.log").open("w") as log:
        processes.append(subprocess.Popen(command, cwd=work, stdout=log, stderr=log))
for name, program in programs.items():
    where = os.environ.get("CLOISON_BIN")
    check = [Path(where, program) if where else program, "check", "--config", f"{name}.toml", "--health"]
    for _ in range(100):
        if subprocess.run(check, cwd=work, capture_output=True, check=False).returncode == 0:
            break
        time.sleep(0.2)
    else:
        raise RuntimeError(f"{name} is not healthy; see {work / name}.log")
run("active-party", "publish", "--config", "active.toml", "--training-ids", "data/train.ids")

# %% [markdown]
# ## The scores
#
# They are those of scikit-learn, though no process holds all columns or all weights.

# %%
ca, cert, key = (work / "tls" / name for name in ("ca.pem", "active.pem", "active.key"))
with cloison.ActiveParty(active_1, ca=ca, cert=cert, key=key, coordinator=coordinator) as party:
    print(party.describe())
    scores = party.predict([ids[n] for n in audited])
difference = np.abs(scores[whole["class_names"]].to_numpy() - model.predict_proba(pixels[audited])).max()
print(f"largest difference from scikit-learn: {difference:.1e}")
if difference > 1e-9:
    raise RuntimeError("the parties give other scores than scikit-learn")
scores.head()

# %% [markdown]
# ## The audit
#
# The auditor has the active party attack what it is given, behind each policy. The true columns never leave the passive party, which
# scores the estimates itself.

# %%
report = cloison.audit(
    {
        "ids": "data/audited.ids",
        "auxiliary_ids": "data/known.ids",
        "seed": 7,
        "attacks": ["half", "least_squares", "half_star", "rcc1"],
        "policies": ["none", "rounding (decimals = 2)", "rounding (decimals = 1)", "class_label"],
        "tls": {"ca": "tls/ca.pem", "certificate": "tls/auditor.pem", "key": "tls/auditor.key"},
        "coordinator": {"name": "coordinator", "address": coordinator},
        "active_party": {"name": "active", "address": active_1},
        "passive_parties": [{"name": "passive-1", "address": passive_1}],
    },
    root=work,
    out=work / "report",
    max_added_risk=0.2,
)
stop()
print(report.verdict)
print(
    report.policies[["attack", "mse", "control_mse", "added_risk", "low", "high", "accuracy_lost", "met"]].to_string()
)
print(f"report: {work / 'report' / 'report.html'}; the table below: {report.to_html(work / 'table.html')}")
report

# %% [markdown]
# There are fewer passive columns than classes, so exact scores give all of them away. The table says what each policy changes, and what
# it costs in accuracy. `added_risk` is the share of the error of an adversary without scores that the scores remove.
