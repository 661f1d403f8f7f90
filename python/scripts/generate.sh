#!/usr/bin/env bash
# Makes the modules of cloison/_pb from proto/vfl/v1, with the pinned grpcio-tools of the test extras.
#
#   python/scripts/generate.sh [DIR]      writes to DIR (default: python/src/cloison/_pb)
#
# PYTHON names the interpreter that has grpcio-tools.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${1:-$here/src/cloison/_pb}
python=${PYTHON:-python3}
wanted=$(sed -n 's/.*"grpcio-tools==\([0-9.]*\)".*/\1/p' "$here/pyproject.toml")
found=$("$python" -c 'import importlib.metadata as m; print(m.version("grpcio-tools"))') || {
  echo "generate.sh: $python has no grpcio-tools; pip install grpcio-tools==$wanted, or name another interpreter in PYTHON" >&2
  exit 1
}
[[ "$found" == "$wanted" ]] || { echo "generate.sh: grpcio-tools is $found, pyproject.toml pins $wanted" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd "$here/../proto" && "$python" -m grpc_tools.protoc -I . --python_out="$scratch" --pyi_out="$scratch" \
  --grpc_python_out="$scratch" vfl/v1/*.proto)
mkdir -p "$out"
for file in "$scratch"/vfl/v1/*; do
  name=${file##*/}
  # These have no service.
  [[ "$name" != @(common|alignment|private_release)_pb2_grpc.py ]] || continue
  # Modules of this package import one another, whatever else is called vfl. The message Transform.None is no name in Python: the
  # annotations call it None_, and at run time it is getattr(Transform, "None").
  sed -e 's/^from vfl\.v1 import /from . import /' -e 's/class None(/class None_(/' -e 's/Transform\.None\b/Transform.None_/g' \
    "$file" >"$out/$name"
done
printf '"""Generated from proto/vfl/v1 by python/scripts/generate.sh."""\n' >"$out/__init__.py"
