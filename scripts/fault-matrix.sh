#!/usr/bin/env bash
# Faults of network, process, disk and clock, each at a prediction, a stream, a plain and a private training, an audit and an alignment, between
# three machines in one: each party has a network and a state directory of its own. Prints a table and writes it to matrix.md. Fails if a call
# outlives its deadline, if an error names nothing, if something is lost or spent twice, or if the next call does not work.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'USAGE'
usage: fault-matrix.sh [--quick] [--faults NAMES] [--calls NAMES] [--private-releases] [--out DIR]

  --quick           four faults alone: none, a cut, a killed party, a full disk
  --faults NAMES    these alone, with commas between them (--faults help lists them)
  --calls NAMES     of predict, stream, audit, align, train, private
  --private-releases
                    answers are computed on secret shares
  --out DIR         where matrix.md, its figures and the logs go (default: out/fault-matrix in the project)

environment:
  CLOISON_BIN_DIR   the directory of the binaries (default: target/release, which is built)

Needs root, Linux with namespaces, /dev/net/tun and nf_tables, and the programs ip, nft, nsenter, unshare, curl and python3. With
libfaketime the clock is a fault too.
USAGE
}

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

out="$root/out/fault-matrix"
options=()
while (($#)); do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --quick | --private-releases) options+=("$1"); shift ;;
    --faults | --calls) (($# >= 2)) || { usage >&2; exit 2; }; options+=("$1" "$2"); shift 2 ;;
    --out) (($# >= 2)) || { usage >&2; exit 2; }; out=$2; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
[[ $(id -u) -eq 0 ]] || die 'needs root, for namespaces'
for program in ip nft nsenter unshare curl python3; do
  command -v "$program" >/dev/null || die "no $program (Debian: iproute2, nftables, util-linux, curl, python3)"
done
[[ -c /dev/net/tun ]] || die 'no /dev/net/tun, of which the wire between the machines is made'
mkdir -p "$out"
out=$(cd "$out" && pwd)

if [[ -n "${CLOISON_BIN_DIR:-}" ]]; then
  bin=$(cd "$CLOISON_BIN_DIR" && pwd)
else
  (cd "$root" && cargo build --release --locked --workspace --bins --features full)
  bin=$(cd "$root" && cargo metadata --format-version 1 --no-deps --locked |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release
fi
for binary in cloison coordinator passive-party active-party; do
  [[ -x "$bin/$binary" ]] || die "no binary '$binary' in $bin"
done

own=$(mktemp -d /tmp/cloison-faults.XXXXXX)
runner=

# Networks, mounts and processes are of namespaces that end with the runner, however it ends.
clean_up() {
  [[ -z "$runner" ]] || { kill -KILL "$runner" 2>/dev/null && wait "$runner" 2>/dev/null; } || true
  rmdir "$own" 2>/dev/null || true
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

unshare --net --mount --pid --fork --kill-child --mount-proc \
  python3 -B "$root/scripts/fault_matrix" --bin "$bin" --own "$own" --out "$out" "${options[@]}" </dev/null &
runner=$!
wait "$runner"
