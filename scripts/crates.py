#!/usr/bin/env python3
"""The crates of the workspace, floor by floor: lines of source, crates below, and lines that are compiled again after a change.

    scripts/crates.py            the table of ARCHITECTURE.md
    scripts/crates.py --check    fails where ARCHITECTURE.md has another one

Lines are of `src` without tests. The floors are those of lab/structure/tests/structure/lists.rs, which `cargo test -p vfl-structure` checks.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- scripts/crates.py -->", "<!-- end -->"


def lines(folder):
    """Lines of a crate's source without its tests."""
    total = 0
    for file in sorted((folder / "src").rglob("*.rs")):
        if file.name == "tests.rs" or "tests" in file.relative_to(folder).parts[:-1]:
            continue
        text = file.read_text(encoding="utf-8")
        total += text.split("#[cfg(test)]\nmod tests {")[0].count("\n")
    return total


def thousands(number):
    """A number of lines in thousands."""
    return f"{number / 1000:.1f}k"


def table():
    """The table, as Markdown."""
    lists = (ROOT / "lab/structure/tests/structure/lists.rs").read_text(encoding="utf-8")
    floors = re.findall(r"&\[((?:\s*\"[^\"]+\",?)+)\s*\]", lists[lists.index("const FLOORS") :])
    floors = [re.findall(r'"([^"]+)"', floor) for floor in floors]
    # What the mathematics are is a list of its own.
    floors = floors[: next(i for i, floor in enumerate(floors) if "fuzz/targets" in floor)]
    crates = {}
    for folder in (folder for floor in floors for folder in floor):
        manifest = tomllib.loads((ROOT / folder / "Cargo.toml").read_text(encoding="utf-8"))
        crates[manifest["package"]["name"]] = (folder, list(manifest.get("dependencies", {})), manifest["package"]["description"])
    names = {folder: name for name, (folder, _, _) in crates.items()}
    size = {name: lines(ROOT / folder) for name, (folder, _, _) in crates.items()}
    below = {name: [on for on in depends if on in crates] for name, (_, depends, _) in crates.items()}

    def again(name):
        found = {name}
        while more := {other for other in crates if other not in found and found & set(below[other])}:
            found |= more
        return sum(size[other] for other in found)

    def reduced(name):
        """The crates just below: those that no other one of them leads to."""
        def reach(start):
            todo, found = list(below[start]), set()
            while todo:
                on = todo.pop()
                if on not in found:
                    found.add(on)
                    todo += below[on]
            return found
        return [on for on in below[name] if not any(on in reach(other) for other in below[name])]

    rows = ["| floor | crate | lines | again | stands on |", "|---|---|---|---|---|"]
    for at, floor in enumerate(floors):
        for folder in floor:
            name = names[folder]
            on = ", ".join(f"`{crates[other][0].split('/')[-1]}`" for other in reduced(name))
            rows.append(f"| {at} | `{folder}` | {thousands(size[name])} | {thousands(again(name))} | {on or '–'} |")
    return "\n".join(rows)


def main():
    """Prints the table, or compares it."""
    if sys.argv[1:] == ["--check"]:
        text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
        there = text.split(BEGIN)[1].split(END)[0].strip()
        # Numbers of lines change with every commit; crates and arrows do not.
        plain = lambda rows: re.sub(r"[\d.]+k", "", rows)
        if plain(there) != plain(table()):
            sys.exit("ARCHITECTURE.md: the table of crates is another one: scripts/crates.py prints it")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        print(table())


main()
