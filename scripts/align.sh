#!/usr/bin/env bash
# Aligns two parties as three processes on loopback, half of the ids in common, and measures time, bytes and peak memory.
#
# usage: scripts/align.sh [RECORDS [DIR]]
#   RECORDS   ids of each party (default: 1000000)
#   DIR       where everything goes (default: out/align in the project)
# environment:
#   CLOISON_BIN_DIR   use the binaries in this directory; otherwise they are built with the profile `release`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
records=${1:-1000000}
dir=${2:-$root/out/align}
[[ "$records" =~ ^[1-9][0-9]*$ ]] || { echo "align.sh: RECORDS must be a number above 0, it is '$records'" >&2; exit 2; }
bin=${CLOISON_BIN_DIR:-}
if [[ -z "$bin" ]]; then
  (cd "$root" && cargo build --locked --release --workspace --bins --features full)
  bin=${CARGO_TARGET_DIR:-$root/target}/release
fi
bin=$(cd "$bin" && pwd)

rm -rf "$dir"
mkdir -p "$dir"
cd "$dir"
pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait; }
trap stop EXIT

"$bin/cloison" certs --out tls --trust-domain cloison.demo --party coordinator/coordinator --party active-party/active \
  --party passive-party/passive-1 >/dev/null

# The passive party holds the second half of the active party's ids, and as many others. Rows stand in another order.
awk -v n="$records" 'BEGIN { print "id,x,label"; for (i = 0; i < n; i++) printf "customer-%09d,0.5,%s\n", i, i % 2 ? "yes" : "no" }' >active.csv
awk -v n="$records" 'BEGIN { print "id,x"; for (i = n - 1; i >= 0; i--) printf "customer-%09d,0.5\n", i + int(n / 2) }' >passive-1.csv
feature='[[features]]\nname = "x"\nkind = "numeric"\nmin = 0.0\nmax = 1.0\n'
printf 'id = "id"\n%b' "$feature" >passive-1.schema.toml
printf 'id = "id"\n[label]\ncolumn = "label"\nclasses = ["no", "yes"]\n%b' "$feature" >active.schema.toml

tls() { printf '[tls]\nca = "tls/ca.pem"\ncertificate = "tls/%s.pem"\nkey = "tls/%s.key"\n' "$1" "$1"; }
data() { printf '[data]\ncsv = "%s.csv"\nschema = "%s.schema.toml"\n' "$1" "$1"; }
port=7110
{
  printf 'listen = "127.0.0.1:%d"\nstate_dir = "state/coordinator"\n' $((port))
  tls coordinator
  printf '[[passive_parties]]\nname = "passive-1"\naddress = "127.0.0.1:%d"\n' $((port + 1))
} >coordinator.toml
{
  printf 'listen = "127.0.0.1:%d"\nstate_dir = "state/passive-1"\n' $((port + 1))
  tls passive-1
  data passive-1
  printf '[alignment]\nallowed = true\nactive_party = "active"\nleast_common = 0\n'
} >passive-1.toml
{
  printf 'listen = "127.0.0.1:%d"\nstate_dir = "state/active"\n' $((port + 2))
  tls active
  data active
  printf '[coordinator]\nname = "coordinator"\naddress = "127.0.0.1:%d"\n[alignment]\nallowed = true\n' $((port))
} >active.toml

serve() { # name, binary
  "$bin/$2" serve --config "$1.toml" >"$1.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 240); do
    if "$bin/$2" check --config "$1.toml" --health >/dev/null 2>&1; then
      return
    fi
    kill -0 "${pids[-1]}" 2>/dev/null || break
    sleep 0.5
  done
  echo "align.sh: $1 does not serve; see $dir/$1.log" >&2
  exit 1
}
serve passive-1 passive-party
serve coordinator coordinator
serve active active-party

peak() { # label, pid
  awk -v label="$1" '/^VmHWM/ { printf "%-12s %6.0f MiB\n", label, $2 / 1024 }' "/proc/$2/status"
}
names=(passive-1 coordinator active)
echo "peak memory before the alignment:"
for i in 0 1 2; do peak "${names[i]}" "${pids[i]}"; done
"$bin/active-party" align --config active.toml --passive-party passive-1 --out common.ids
echo "peak memory after it:"
for i in 0 1 2; do peak "${names[i]}" "${pids[i]}"; done

# The second half of the active party's ids, by another program.
expected=$((records - records / 2))
found=$(wc -l <common.ids)
awk -v n="$records" 'BEGIN { for (i = int(n / 2); i < n; i++) printf "customer-%09d\n", i }' | cmp - common.ids
cmp common.ids state/passive-1/alignments/1-active.ids
[[ "$found" == "$expected" ]]
echo "both parties have the $found ids that they have in common"
