#!/usr/bin/env bash
# Runs every command of docs/tutorial.md, in order, as its reader would. CLOISON_BIN_DIR names built programs; without it they are
# built as the tutorial says.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() { echo "usage: tutorial-test.sh [--out DIR]     DIR: where the commands run (default: out/tutorial in the project)"; }

out="$root/out/tutorial"
while (($#)); do
  case $1 in
    --out) out=${2:?--out takes a directory}; shift 2 ;;
    --help | -h) usage; exit ;;
    *) usage >&2; exit 2 ;;
  esac
done
rm -rf "$out"
mkdir -p "$out"
cp -r "$root/examples" "$out"
if [[ -n "${CLOISON_BIN_DIR:-}" ]]; then
  bin=$(cd "$CLOISON_BIN_DIR" && pwd)
else
  (cd "$root" && cargo build --release --locked --workspace --bins --features full)
  bin=$(cd "$root" && cargo metadata --format-version 1 --no-deps --locked |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release
fi
export PATH="$bin:$PATH"
{
  echo 'set -euo pipefail; set -m; trap "kill %1 %2 %3 2>/dev/null || true" EXIT'
  awk '/^```console$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/docs/tutorial.md" |
    grep -vE '^(cargo build|export PATH=)'
} >"$out/commands.sh"
(cd "$out" && timeout --kill-after=5 600 bash commands.sh)
for report in out/report.html out/rounded/report.json out/own/report/report.html out/own/nightly/report.json; do
  [[ -s "$out/$report" ]] || { echo "tutorial-test.sh: $report is missing" >&2; exit 1; }
done
# A header and a row for each record that was asked for.
(($(wc -l <"$out/out/own/scores.csv") == 1001)) || { echo 'tutorial-test.sh: scores.csv is not whole' >&2; exit 1; }
echo 'tutorial-test.sh: every command of docs/tutorial.md works'
