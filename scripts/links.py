#!/usr/bin/env python3
"""Checks that every relative link of the Markdown files leads to a file that is there, and to a heading in it."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def anchors(text):
    """The anchors of a page, as they are made of its headings."""
    found = {}
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {name if not n else f"{name}-{n}" for name, most in found.items() for n in range(most + 1)}


def main():
    """Names every link that leads nowhere."""
    files = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in files}
    links, broken = 0, []
    for name, text in pages.items():
        plain = re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
        for target in re.findall(r"\]\(([^)\s]+)\)", plain):
            if re.match(r"[a-z]+:", target):
                continue
            links += 1
            path, _, anchor = target.partition("#")
            file = (ROOT / name).parent / path if path else ROOT / name
            if not file.exists():
                broken.append(f"{name}: {target}: no such file")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
                broken.append(f"{name}: {target}: no such heading")
    print(f"{links} links in {len(pages)} pages")
    if broken:
        sys.exit("\n".join(broken))


main()
