#!/usr/bin/env bash
# Serves and trains with a passive party that is held to 1 GiB of memory and keeps its features in a Parquet file on disk, and, where
# CLOISON_POSTGRES_URL names a server (scripts/with-postgres.sh), in a PostgreSQL table. Three processes on loopback; ten passive features.
# Prints rows per second and the peak memory of the passive party: one epoch in blocks, then a million records (all, if there are
# fewer) in random order and in the order of the file.
#
# usage: scripts/bulk.sh [ROWS [DIR]]
#   ROWS   records of each party (default: 100000)
#   DIR    where everything goes (default: out/bulk in the project); 10 million rows take about 1.5 GB there
# environment:
#   CLOISON_BIN_DIR        use the binaries in this directory, among them examples/bulk_rows; otherwise they are built (`release`)
#   CLOISON_BULK_MIB       memory of the passive party (default: 1024)
#   CLOISON_POSTGRES_URL   a scratch database: the table cloison_bulk in it is made again, and dropped at the end
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rows=${1:-100000}
dir=${2:-$root/out/bulk}
mib=${CLOISON_BULK_MIB:-1024}
die() {
  echo "bulk.sh: $*" >&2
  exit 1
}
if [[ ! "$rows" =~ ^[1-9][0-9]{3,7}$ ]]; then
  echo "bulk.sh: ROWS must be from 1000 to 99999999, it is '$rows'" >&2
  exit 2
fi
bin=${CLOISON_BIN_DIR:-}
maker=$bin/examples/bulk_rows
if [[ -z "$bin" ]]; then
  # The example in the profile of the tests: with it, what the binaries depend on would be built a second time.
  (cd "$root" && cargo build --locked --release --workspace --bins --features full &&
    cargo build --locked --workspace --example bulk_rows)
  bin=${CARGO_TARGET_DIR:-$root/target}/release
  maker=${CARGO_TARGET_DIR:-$root/target}/debug/examples/bulk_rows
fi
bin=$(cd "$bin" && pwd)
maker=$(realpath "$maker")

rm -rf "$dir"
mkdir -p "$dir"
cd "$dir"
declare -A pids=()
group='' kind='' table=''

# What holds the passive party: a control group, a scope of systemd, or else a bound on its addresses.
choose() {
  local v2=/sys/fs/cgroup v1=/sys/fs/cgroup/memory bytes=$((mib << 20))
  if [[ -w "$v2/cgroup.procs" && -f "$v2/cgroup.controllers" ]] && grep -qw memory "$v2/cgroup.controllers" &&
    { echo +memory >"$v2/cgroup.subtree_control"; } 2>/dev/null && mkdir "$v2/cloison-bulk-$$" 2>/dev/null; then
    kind='cgroup v2' group="$v2/cloison-bulk-$$"
    echo "$bytes" >"$group/memory.max"
    { echo 0 >"$group/memory.swap.max"; } 2>/dev/null || true
  elif [[ -w "$v1/cgroup.procs" ]] && mkdir "$v1/cloison-bulk-$$" 2>/dev/null; then
    kind='cgroup v1' group="$v1/cloison-bulk-$$"
    echo "$bytes" >"$group/memory.limit_in_bytes"
    { echo "$bytes" >"$group/memory.memsw.limit_in_bytes"; } 2>/dev/null || true
  elif systemd-run --quiet --scope -p "MemoryMax=$bytes" true 2>/dev/null; then
    kind='systemd-run'
  else
    kind='prlimit --as'
  fi
}

held() { # command...: in this shell's place
  case "$kind" in
    cgroup*)
      echo "$BASHPID" >"$group/cgroup.procs"
      exec "$@"
      ;;
    systemd-run)
      exec systemd-run --quiet --scope --unit "cloison-bulk-$$-$store" -p "MemoryMax=$((mib << 20))" -p MemorySwapMax=0 "$@"
      ;;
    *)
      # Reserved and never touched counts as well: a thread's heap is not to reserve more than it needs.
      MALLOC_ARENA_MAX=1 exec prlimit "--as=$((mib << 20))" "$@"
      ;;
  esac
}

plain() { exec "$@"; }

# The most memory of the process, and of what holds it, files that are cached for it among it.
peaks() {
  local own of=-
  own=$(awk '/^VmHWM/ { printf "%.0f", $2 / 1024 }' "/proc/${pids[passive]}/status")
  case "$kind" in
    'cgroup v2') [[ ! -r "$group/memory.peak" ]] || of=$(($(<"$group/memory.peak") >> 20)) ;;
    'cgroup v1') of=$(($(<"$group/memory.max_usage_in_bytes") >> 20)) ;;
    systemd-run) of=$(systemctl show -p MemoryPeak --value "cloison-bulk-$$-$store.scope" 2>/dev/null |
      awk '/^[0-9]+$/ { printf "%.0f", $1 / 1048576 }') ;;
  esac
  printf '%s %s' "$own" "${of:--}"
}

stop() { # party
  [[ -n "${pids[$1]:-}" ]] || return 0
  kill "${pids[$1]}" 2>/dev/null || true
  wait "${pids[$1]}" 2>/dev/null || true
  unset "pids[$1]"
}
end() {
  for party in "${!pids[@]}"; do stop "$party"; done
  [[ -z "$group" ]] || rmdir "$group" 2>/dev/null || true
  [[ -z "$table" ]] || psql -q "$CLOISON_POSTGRES_URL" -c "DROP TABLE IF EXISTS $table" || true
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

serve() { # party, binary, command before it...
  local party=$1 binary=$2
  shift 2
  ("$@" "$bin/$binary" serve --config "$party.toml") >"$party.log" 2>&1 </dev/null &
  pids[$party]=$!
  for _ in $(seq 1200); do
    if "$bin/$binary" check --config "$party.toml" --health >/dev/null 2>&1; then return; fi
    kill -0 "${pids[$party]}" 2>/dev/null || break
    sleep 0.5
  done
  tail -n 5 "$party.log" >&2
  die "$party does not serve (held by $kind to $mib MiB); see $dir/$party.log"
}

timed() { # what, rows, command...
  local what=$1 count=$2 from to own of
  shift 2
  from=$(date +%s.%N)
  "$@" >"$what.out" 2>"$what.err" || {
    tail -n 5 "$what.err" passive.log >&2
    die "$store: $what failed; see $dir/$what.err"
  }
  to=$(date +%s.%N)
  read -r own of <<<"$(peaks)"
  awk -v store="$store" -v what="$what" -v n="$count" -v from="$from" -v to="$to" -v own="$own" -v of="$of" \
    'BEGIN { printf "%-10s %-16s %10d %9.1f %10.0f %9s %9s\n", store, what, n, to - from, n / (to - from), own, of }'
}

"$bin/cloison" certs --out tls --trust-domain cloison.demo --party coordinator/coordinator --party active-party/active \
  --party passive-party/passive >/dev/null
"$maker" "$rows" .
listed=$(wc -l <in-order.ids)

tls() { printf '[tls]\nca = "tls/ca.pem"\ncertificate = "tls/%s.pem"\nkey = "tls/%s.key"\n' "$1" "$1"; }
port=7120
patient='peer_timeout_ms = 600000\n'
{
  printf 'listen = "127.0.0.1:%d"\nstate_dir = "state/coordinator"\n%b' "$port" "$patient"
  tls coordinator
  printf '[[passive_parties]]\nname = "passive"\naddress = "127.0.0.1:%d"\n' $((port + 1))
  printf '[training]\nallowed = true\nstep_timeout_s = 7200\n[serving]\ntraining_records = true\n[ledger]\nkept = false\n'
} >coordinator.toml
{
  printf 'listen = "127.0.0.1:%d"\nstate_dir = "state/active"\n%b' $((port + 2)) "$patient"
  tls active
  printf '[data]\ncsv = "active.csv"\nschema = "active.schema.toml"\n'
  printf '[coordinator]\nname = "coordinator"\naddress = "127.0.0.1:%d"\n' "$port"
  printf '[training]\nmode = "plain"\nepochs = 1\nbatch_size = 1024\nlearning_rate = 0.05\nshuffle_block = 65536\n'
  printf '[client]\naddress = "127.0.0.1:%d"\n' $((port + 2))
} >active.toml

# The source in the words of a config file.
source_of() {
  case "$1" in
    parquet) printf '[data.parquet]\nfile = "passive.parquet"\nmemory = false\n' ;;
    postgres) printf '[data.postgres]\nurl_file = "postgres.url"\ntable = "%s"\ntimeout_ms = 60000\n' "$table" ;;
  esac
}

run() { # store
  store=$1
  {
    printf 'listen = "127.0.0.1:%d"\nstate_dir = "state/passive"\n' $((port + 1))
    tls passive
    printf '[data]\nschema = "passive.schema.toml"\n'
    source_of "$store"
    printf '[training]\nallowed = true\nactive_party = "active"\nmode = "plain"\n'
    printf 'plain_consent = "%s"\n' 'a plain training gives the active party our features of every training record'
  } >passive.toml
  rm -rf state
  local from to own of
  from=$(date +%s.%N)
  serve passive passive-party held
  to=$(date +%s.%N)
  read -r own of <<<"$(peaks)"
  awk -v store="$store" -v n="$rows" -v from="$from" -v to="$to" -v own="$own" -v of="$of" \
    'BEGIN { printf "%-10s %-16s %10d %9.1f %10s %9s %9s\n", store, "start", n, to - from, "", own, of }'
  serve coordinator coordinator plain
  serve active active-party plain
  timed epoch "$rows" "$bin/active-party" train --config active.toml
  timed predict-random "$listed" "$bin/active-party" predict --config active.toml --ids random.ids --out "random-$store.csv"
  timed predict-in-order "$listed" "$bin/active-party" predict --config active.toml --ids in-order.ids --out "in-order-$store.csv"
  [[ $(wc -l <"random-$store.csv") == $((listed + 1)) ]] || die "$store: not all records were scored"
  for party in active coordinator passive; do stop "$party"; done
  [[ "$kind" != 'cgroup v2' ]] || { rmdir "$group"; choose; }
  [[ "$kind" != 'cgroup v1' ]] || { rmdir "$group"; choose; }
}

choose
echo "$rows rows; the passive party is held to $mib MiB by $kind; memory in MiB"
printf '%-10s %-16s %10s %9s %10s %9s %9s\n' store what rows seconds rows/s VmHWM 'its group'
run parquet
if [[ -n "${CLOISON_POSTGRES_URL:-}" ]]; then
  table=cloison_bulk
  (umask 077 && printf '%s\n' "$CLOISON_POSTGRES_URL" >postgres.url)
  columns=$(printf 'f%s DOUBLE PRECISION, ' {0..9})
  psql -q -v ON_ERROR_STOP=1 "$CLOISON_POSTGRES_URL" -c "DROP TABLE IF EXISTS $table" \
    -c "CREATE TABLE $table (id TEXT, ${columns%, })"
  "$maker" "$rows" --csv | psql -q -v ON_ERROR_STOP=1 "$CLOISON_POSTGRES_URL" -c "COPY $table FROM STDIN (FORMAT csv, HEADER)"
  psql -q -v ON_ERROR_STOP=1 "$CLOISON_POSTGRES_URL" -c "ALTER TABLE $table ADD PRIMARY KEY (id)" -c "ANALYZE $table"
  run postgres
  # The same values from either store give the same model, and so the same scores.
  cmp random-parquet.csv random-postgres.csv
  echo 'both stores gave the same scores, to the last bit'
else
  echo 'PostgreSQL: not run, CLOISON_POSTGRES_URL is not set (scripts/with-postgres.sh sets it)'
fi
