#!/usr/bin/env bash
# Scores a table by Spark from Parquet to Parquet, between three processes on loopback: two executors, of which one is killed in the
# middle. Every record may be asked for once. So a record that was charged twice is one without scores.
#
# usage: scripts/spark.sh [ROWS [DIR]]
#   ROWS   records (default: 1000000); 10 million take about 4 GB
#   DIR    where everything goes (default: out/spark in the project)
# environment:
#   CLOISON_BIN_DIR        use the binaries in this directory, among them examples/bulk_rows; otherwise they are built (`release`)
# Needs Java (Debian: default-jre-headless); takes pyspark from PyPI.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rows=${1:-1000000}
dir=${2:-$root/out/spark}
die() { echo "spark.sh: $*" >&2; exit 1; }
[[ "$rows" =~ ^[1-9][0-9]{4,7}$ ]] || { echo "spark.sh: ROWS must be from 10000 to 99999999, it is '$rows'" >&2; exit 2; }
command -v java >/dev/null || die 'no java (Debian: default-jre-headless)'
bin=${CLOISON_BIN_DIR:-}
if [[ -z "$bin" ]]; then
  (cd "$root" && cargo build --locked --release --workspace --bins --features full --example bulk_rows)
  bin=${CARGO_TARGET_DIR:-$root/target}/release
fi
bin=$(cd "$bin" && pwd)
rm -rf "$dir"
mkdir -p "$dir"
cd "$dir"

python3 -m venv venv
cp -r "$root/python/"{pyproject.toml,hatch_build.py,README.md,src} "$(mkdir -p source && echo source)"
venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input './source[spark]'

"$bin/cloison" certs --out tls --trust-domain cloison.demo --party coordinator/coordinator --party active-party/active \
  --party passive-party/passive >/dev/null
"$bin/examples/bulk_rows" "$rows" .
head -n 10000 in-order.ids >train.ids
tls() { printf '[tls]\nca = "tls/ca.pem"\ncertificate = "tls/%s.pem"\nkey = "tls/%s.key"\n' "$1" "$1"; }
port=7130
patient='peer_timeout_ms = 600000\n'
{
  printf 'listen = "127.0.0.1:%d"\nstate_dir = "state/coordinator"\n%b' "$port" "$patient"
  tls coordinator
  printf '[[passive_parties]]\nname = "passive"\naddress = "127.0.0.1:%d"\n' $((port + 1))
  printf '[training]\nallowed = true\n[serving]\ntraining_records = true\n'
  printf '[budget]\nrecords = "unlimited"\nqueries_per_record = 1\nrows_per_minute = "unlimited"\n'
} >coordinator.toml
{
  printf 'listen = "127.0.0.1:%d"\nstate_dir = "state/active"\n%b' $((port + 2)) "$patient"
  tls active
  printf '[data]\ncsv = "active.csv"\nschema = "active.schema.toml"\n'
  printf '[coordinator]\nname = "coordinator"\naddress = "127.0.0.1:%d"\n' "$port"
  printf '[training]\nepochs = 5\n[client]\naddress = "127.0.0.1:%d"\n' $((port + 2))
} >active.toml
{
  printf 'listen = "127.0.0.1:%d"\nstate_dir = "state/passive"\n' $((port + 1))
  tls passive
  printf '[data]\nschema = "passive.schema.toml"\n[data.parquet]\nfile = "passive.parquet"\nmemory = false\n'
  printf '[training]\nallowed = true\nactive_party = "active"\n'
} >passive.toml

declare -A pids=()
end() {
  for party in "${!pids[@]}"; do
    kill "${pids[$party]}" 2>/dev/null || true
    wait "${pids[$party]}" 2>/dev/null || true
  done
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
serve() { # party
  local party=$1 binary=$1
  [[ $party == coordinator ]] || binary=$party-party
  "$bin/$binary" serve --config "$party.toml" >"$party.log" 2>&1 </dev/null &
  pids[$party]=$!
  for _ in $(seq 600); do
    "$bin/$binary" check --config "$party.toml" --health >/dev/null 2>&1 && return
    kill -0 "${pids[$party]}" 2>/dev/null || break
    sleep 0.5
  done
  tail -n 5 "$party.log" >&2
  die "$party does not serve"
}
for party in passive coordinator active; do serve "$party"; done
"$bin/active-party" train --config active.toml --ids train.ids >train.out 2>&1 || { tail -n 5 train.out >&2; die 'the training failed'; }

cat >job.py <<'PYTHON'
"""Scores all ids by Spark, kills an executor on the way, and counts."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession, functions

from cloison import spark

rows, port = int(sys.argv[1]), sys.argv[2]
here = pathlib.Path.cwd()
session = (
    SparkSession.builder.master("local-cluster[2,1,1536]")
    .config("spark.executor.memory", "1g")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
session.sparkContext.setLogLevel("ERROR")
party = {"address": f"127.0.0.1:{port}", **{name: str(here / "tls" / f"{file}.pem") for name, file in [("ca", "ca"), ("cert", "active")]}}
party["key"] = str(here / "tls" / "active.key")
table = session.read.parquet("passive.parquet").select("id")


def scored(name: str, out: str) -> dict[str, int]:
    began = time.monotonic()
    spark.predict(table, party, request_id=name, partitions=64).write.mode("overwrite").parquet(out)
    seconds = time.monotonic() - began
    statuses = {row["status"]: row["count"] for row in session.read.parquet(out).groupBy("status").count().collect()}
    print(f"{name}: {sum(statuses.values())} rows in {seconds:.1f} s, {rows / seconds:.0f} rows/s: {statuses}", flush=True)
    return statuses


killed = []


def kill_one() -> None:
    """Ends an executor of this session, by its id, once it has scored for a while."""
    time.sleep(float(os.environ.get("KILL_AFTER", "15")))
    found = subprocess.run(["pgrep", "-f", "CoarseGrainedExecutorBackend.*--app-id"], capture_output=True, text=True, check=False)
    mine = [pid for pid in map(int, found.stdout.split()) if session.sparkContext.applicationId in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]
    if mine:
        os.kill(mine[0], signal.SIGKILL)
        killed.append(mine[0])


threading.Thread(target=kill_one, daemon=True).start()
first = scored("night", "night.parquet")
assert killed, "no executor was killed: more rows are needed"
print(f"executor {killed[0]} was killed", flush=True)
assert first == {"ok": rows}, first
assert scored("night", "again.parquet") == {"ok": rows}
same = session.read.parquet("night.parquet").join(session.read.parquet("again.parquet").withColumnRenamed("scores", "again"), "id")
differ = same.filter(functions.col("scores")["yes"] != functions.col("again")["yes"]).count()
assert differ == 0, differ
assert same.count() == rows
other = scored("morning", "morning.parquet")
assert other == {"budget_spent": rows}, other
session.stop()
PYTHON
timeout 3000 venv/bin/python job.py "$rows" $((port + 2)) 2>job.err || { tail -n 20 job.err >&2; die "the job failed; see $dir/job.err"; }

# The command line beside it, one more query of each record.
kill "${pids[coordinator]}"
wait "${pids[coordinator]}" || true
sed -i 's/^queries_per_record = 1$/queries_per_record = 2/' coordinator.toml
serve coordinator
from=$(date +%s.%N)
"$bin/active-party" predict --config active.toml --ids in-order.ids --out bulk.csv 2>bulk.err
awk -v n="$(wc -l <in-order.ids)" -v from="$from" -v to="$(date +%s.%N)" \
  'BEGIN { printf "active-party predict: %d rows in %.1f s, %.0f rows/s\n", n, to - from, n / (to - from) }'
