#!/usr/bin/env bash
# The Python package: its linters, its tests against the release binaries, and its example, in a virtual environment of its own.
#
#   scripts/python-tests.sh [--out DIR]     everything goes to DIR (default: python-tests in cargo's target directory, or in target)
#
# environment:
#   PYTHON                 the interpreter (default: python3, at least 3.10)
#   CLOISON_BIN_DIR        use the binaries in this directory and build nothing
set -euo pipefail
# shellcheck source=scripts/local.sh
source "$(dirname "${BASH_SOURCE[0]}")/local.sh"

out=''
while (($#)); do
  case "$1" in
    --out)
      (($# >= 2)) || die '--out needs a directory'
      out=$2
      shift 2
      ;;
    --help | -h)
      sed -n '2,/^set /{s/^# \{0,1\}//;/^set /!p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown argument '$1'; --help says what there is" ;;
  esac
done

local_build
[[ -n "$out" || -n "${CLOISON_BIN_DIR:-}" ]] || out="${bin%/release}/python-tests"
out=${out:-$root/target/python-tests}
mkdir -p "$out"
out=$(cd "$out" && pwd)

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  die "'$python' is not Python 3.10 or newer (Debian: python3); name another one in PYTHON"
# Kept for the next run as long as what it holds is what is asked for.
wanted=$(cat "$root/python/pyproject.toml" <("$python" -c 'import sys; print(sys.version, sys.base_prefix)') | sha256sum)
if [[ "$(cat "$out/venv/wanted" 2>/dev/null)" != "$wanted" ]]; then
  rm -rf "$out/venv"
  "$python" -m venv "$out/venv" || die "'$python' has no venv (Debian: python3-venv)"
fi
say "installing the package and what tests it into $out/venv"
# Not editable: the tests see what the wheel holds. Built from a copy, so that nothing is left in the sources.
rm -rf "$out/source" && mkdir -p "$out/source"
cp -r "$root/python/"{pyproject.toml,hatch_build.py,README.md,src} "$out/source"
pip=("$out/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input)
if [[ ! -f "$out/venv/wanted" ]]; then
  "${pip[@]}" "$out/source[test]"
  printf '%s\n' "$wanted" >"$out/venv/wanted"
else
  "${pip[@]}" --no-deps --force-reinstall "$out/source"
fi

cd "$root/python"
export PYTHONDONTWRITEBYTECODE=1 RUFF_NO_CACHE=true
say 'ruff'
"$out/venv/bin/ruff" format --check --quiet . || die 'python/ is not formatted: run ruff format python'
"$out/venv/bin/ruff" check .
say 'mypy'
"$out/venv/bin/mypy" --cache-dir "$out/mypy"
say 'pytest'
CLOISON_BIN="$bin" CLOISON_REQUIRE_BINARIES=1 "$out/venv/bin/pytest" -p no:cacheprovider --durations=5
say 'the example'
rm -rf "$out/example"
(cd "$out" && CLOISON_BIN="$bin" CLOISON_OUT="$out/example" timeout 300 venv/bin/python "$root/python/examples/sklearn_audit.py")
[[ -s "$out/example/report/report.json" && -s "$out/example/table.html" ]] || die 'the example left no report'
