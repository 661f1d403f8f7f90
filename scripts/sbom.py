#!/usr/bin/env python3
"""What the binaries are made of, as CycloneDX 1.5: `cargo metadata --features full --filter-platform TRIPLE | sbom.py TRIPLE`.

The crates that a build for the platform links into the binaries, with version, licence and the checksum of the lock file. What only
tests and build scripts use is left out. The same input gives the same bytes: no time, and a serial number that follows from the content.
"""

import json
import sys
import tomllib
import uuid
from pathlib import Path

BINARIES = ("vfl-lab", "vfl-reproduce", "vfl-load", "vfl-coordinator", "vfl-passive-party", "vfl-active-party")


def linked(metadata):
    """Ids of the packages that normal dependencies lead to from the binaries."""
    edges = {
        node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        for node in metadata["resolve"]["nodes"]
    }
    todo = [package["id"] for package in metadata["packages"] if package["name"] in BINARIES and package["source"] is None]
    if len(todo) != len(BINARIES):
        sys.exit(f"sbom.py: {len(todo)} of the packages {', '.join(BINARIES)} are in the metadata")
    found = set()
    while todo:
        package = todo.pop()
        if package not in found:
            found.add(package)
            todo.extend(edges[package])
    return found, edges


def reference(package):
    """The package's name in the document: unique, and a package URL."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    """A crate as CycloneDX has it."""
    entry = {
        "type": "library" if package["name"] not in BINARIES else "application",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package["license"]:
        # Older crates separate alternatives by a slash, which is no SPDX.
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry


def main():
    """Reads the metadata and writes the document."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    metadata = json.load(sys.stdin)
    lock = tomllib.loads((Path(metadata["workspace_root"]) / "Cargo.lock").read_text(encoding="utf-8"))
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}
    found, edges = linked(metadata)
    packages = {package["id"]: package for package in metadata["packages"] if package["id"] in found}
    ordered = sorted(packages.values(), key=reference)
    version = next(package["version"] for package in ordered if package["name"] == "vfl-lab")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "cloison",
                "name": "cloison",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
                "properties": [{"name": "cloison:target", "value": sys.argv[1]}],
            }
        },
        "components": [component(package, checksums) for package in ordered],
        "dependencies": [
            {
                "ref": "cloison",
                "dependsOn": [reference(package) for package in ordered if package["name"] in BINARIES],
            }
        ]
        + [
            {
                "ref": reference(package),
                "dependsOn": sorted({reference(packages[to]) for to in edges[package["id"]] if to in packages}),
            }
            for package in ordered
        ],
    }
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, content).urn
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
