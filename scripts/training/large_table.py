"""Writes a large table for two parties: large_table.py DIR RECORDS FEATURES.

Half of the features go to active.csv, with a label of two classes that depends on all of them, and half to passive-1.csv. Features are
uniform in [0, 1] with three decimals. train.ids has RECORDS of them, test.ids 1000 more.
"""

import math
import pathlib
import random
import sys

TESTED = 1000


def write_schema(file, names, label):
    text = 'id = "id"\n'
    if label:
        text += '\n[label]\ncolumn = "label"\nclasses = ["no", "yes"]\n'
    for name in names:
        text += f'\n[[features]]\nname = "{name}"\nkind = "numeric"\nmin = 0.0\nmax = 1.0\n'
    file.write_text(text)


def main():
    directory, records, features = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    directory.mkdir(parents=True, exist_ok=True)
    draw = random.Random(7)
    weights = [draw.gauss(0, 1) for _ in range(features)]
    cells = [f"{at / 1000:.3f}" for at in range(1001)]
    half = features // 2
    names = [f"x{at}" for at in range(features)]
    ids = [f"r{at:08d}" for at in range(records + TESTED)]
    write_schema(directory / "active.schema.toml", names[:half], True)
    write_schema(directory / "passive-1.schema.toml", names[half:], False)
    with open(directory / "active.csv", "w") as active, open(directory / "passive-1.csv", "w") as passive:
        active.write(",".join(["id", *names[:half], "label"]) + "\n")
        passive.write(",".join(["id", *names[half:]]) + "\n")
        for record in ids:
            values = draw.choices(range(1001), k=features)
            logit = sum(weight * (value / 250 - 2) for weight, value in zip(weights, values))
            label = "yes" if draw.random() < 1 / (1 + math.exp(-logit)) else "no"
            row = [cells[value] for value in values]
            active.write(f"{record},{','.join(row[:half])},{label}\n")
            passive.write(f"{record},{','.join(row[half:])}\n")
    (directory / "train.ids").write_text("\n".join(ids[:records]) + "\n")
    (directory / "test.ids").write_text("\n".join(ids[records:]) + "\n")


if __name__ == "__main__":
    main()
