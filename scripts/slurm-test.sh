#!/usr/bin/env bash
# A sweep on a real Slurm: starts one on this machine, has examples/slurm/reproduce.sbatch share twelve small cards out over an
# array of four tasks, kills a task in the middle and has it queued again. Fails if the merged files are not those of one process,
# byte for byte, or if a card that the killed task had finished was computed again. Then examples/slurm/audit.sbatch shares an audit out over two
# tasks, one of which is killed, and its report is compared with that of one process.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'USAGE'
usage: slurm-test.sh [--out DIR]

  --out DIR         where results and logs go (default: out/slurm in the project)

environment:
  CLOISON_BIN_DIR   the directory of the binary `cloison` (default: target/release, which is built)
  CLOISON_STEPS     how long each card takes, in steps of its attack (default: 5000; a debug build takes 1000)

Needs slurmctld, slurmd, sbatch and munged (Debian: slurmctld slurmd slurm-client munge). The daemons are this script's own, with
ports, keys and folders of their own, and end with it.
USAGE
}

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

out="$root/out/slurm"
while (($#)); do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --out) (($# >= 2)) || { usage >&2; exit 2; }; out=$2; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
tasks=4 cells=12 killed=2 # the array, the cards, and the task that is killed
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "${out:?}/cards" "$out/whole" "$out/shared" "$out/uneven" "$out/audit" "$out/audit-whole" "$out"/*.log
for program in munged slurmctld slurmd sbatch scontrol squeue scancel; do
  command -v "$program" >/dev/null || die "no $program: Debian has it in slurmctld, slurmd, slurm-client or munge"
done

if [[ -n "${CLOISON_BIN_DIR:-}" ]]; then
  bin=$(cd "$CLOISON_BIN_DIR" && pwd)
else
  (cd "$root" && cargo build --release --locked --workspace --bins --features full)
  bin=$(cd "$root" && cargo metadata --format-version 1 --no-deps --locked |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release
fi
for program in cloison cloison-reproduce; do
  [[ -x "$bin/$program" ]] || die "no binary '$program' in $bin"
done
export PATH="$bin:$PATH"

# ---- Slurm ----------------------------------------------------------------------------------------------------------------------

# Sockets have short names, and munged wants a folder that nobody else writes to.
own=$(mktemp -d /tmp/cloison-slurm.XXXXXX)
export SLURM_CONF="$own/slurm.conf"
declare -a daemons=()
job=''

clean_up() {
  local pid tries
  if [[ -n "$job" ]]; then
    scancel --full --signal=KILL "$job" 2>/dev/null || true
    scancel "$job" 2>/dev/null || true
    for ((tries = 50; tries > 0; tries--)); do
      [[ -n $(squeue --noheader 2>/dev/null || true) ]] || break
      sleep 0.1
    done
  fi
  # The last one started goes first: the node, its controller, and the keeper of the key.
  for ((i = ${#daemons[@]} - 1; i >= 0; i--)); do
    pid=${daemons[i]}
    kill -TERM "$pid" 2>/dev/null || continue
    for ((tries = 50; tries > 0; tries--)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  # What a node that was killed leaves behind, known by this run's configuration.
  { grep -lz "^SLURM_CONF=$SLURM_CONF\$" /proc/[0-9]*/environ 2>/dev/null || true; } | sed 's|[^0-9]||g' | while read -r pid; do
    [[ $(cat "/proc/$pid/comm" 2>/dev/null || true) != slurmstepd ]] || kill -KILL "$pid" 2>/dev/null || true
  done
  cp "$own"/*.log "$out/" 2>/dev/null || true
  rm -rf "$own"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Two ports that nothing listens on.
free_ports() {
  local port found=0
  for ((port = 20000 + RANDOM % 10000; found < 2; port++)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; found=$((found + 1)); }
  done
}

daemon() { # name, command...
  local name=$1
  shift
  "$@" >>"$own/$name.log" 2>&1 </dev/null &
  daemons+=("$!")
}

await() { # seconds, what, command...
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    ((SECONDS < until)) || die "$what: not within the time; see $out"
    sleep 0.2
  done
}

mapfile -t ports < <(free_ports)
mkdir -m 0755 "$own/state" "$own/spool"
(umask 077 && head -c 1024 /dev/urandom >"$own/munge.key")
node=$(hostname -s)
me=$(id -un)
# More processors than there may be, so that all tasks run at once. No accounting and no cgroups, which one machine can do without. A
# task that is queued again waits until its old credential has expired: five seconds in place of 120.
cat >"$SLURM_CONF" <<CONF
ClusterName=cloison
SlurmctldHost=$node(127.0.0.1)
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
AuthInfo=socket=$own/munge.socket,cred_expire=5
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
SlurmctldPidFile=$own/slurmctld.pid
SlurmdPidFile=$own/slurmd.pid
SlurmdSpoolDir=$own/spool
StateSaveLocation=$own/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=5,sched_min_interval=0
ReturnToService=2
KillWait=2
NodeName=$node NodeAddr=127.0.0.1 CPUs=$tasks RealMemory=65536 State=UNKNOWN
PartitionName=all Nodes=$node Default=YES MaxTime=INFINITE State=UP
CONF

say 'starting Slurm: a keeper of the key, a controller and a node'
daemon munged munged --foreground --force --key-file="$own/munge.key" --socket="$own/munge.socket" \
  --pid-file="$own/munged.pid" --log-file="$own/munged.log" --seed-file="$own/munged.seed"
await 10 'the socket of munged' test -S "$own/munge.socket"
daemon slurmctld slurmctld -D
daemon slurmd slurmd -D
idle() { [[ $(sinfo --noheader --format=%T 2>/dev/null) == idle ]]; }
await 30 'an idle node' idle

# ---- the cards ------------------------------------------------------------------------------------------------------------------

mkdir "$out/cards"
for ((i = 1; i <= cells; i++)); do
  cat >"$out/cards/r-cell-$(printf %02d "$i").toml" <<CARD
paper = "R"
item = "figure 14"
title = "On generated data, $i"
figure = "r-fig14"
dataset = "synthetic"
setup = "Of no paper."

[full]
windows = 9
dimensions = [5, 7]
inversion = ["steps=${CLOISON_STEPS:-5000}"]
inversion_records = $((100 + i))

[quick]
windows = 4

[[claim]]
quote = "one half is a better start than zero"
where = "nowhere"
test = { kind = "below", curve = "from_half", than = "from_zero" }
CARD
done

say 'one process computes all cards'
began=$SECONDS
cloison reproduce --all --quick --cards "$out/cards" --out "$out/whole" >"$out/whole.log" 2>&1 || die "failed; see $out/whole.log"
say "done in $((SECONDS - began)) s"

# ---- the array ------------------------------------------------------------------------------------------------------------------

cd "$out"
job=$(CLOISON_OUT="$out/shared" sbatch --parsable --array="0-$((tasks - 1))" --cpus-per-task=1 --mem=0 \
  --output="$out/task-%a.log" "$root/examples/slurm/reproduce.sbatch" --quick --cards "$out/cards")
say "job $job: $tasks tasks"

# The cards that a log says were begun.
begun() { sed -n 's/^.*card [0-9]* of [0-9]*: \([^,]*\),.*/\1/p' "$@"; }

finished() { # log: the cards begun in it that are there
  local cell
  for cell in $(begun "$1"); do [[ ! -e "$out/shared/cards/$cell.json" ]] || echo "$cell"; done
}

# Which files those of cards are, and when they were written.
files_of() { (cd "$out/shared/cards" && stat -c '%n %i %y' "${@/%/.json}"); }

one_finished() { [[ -e "$out/task-$killed.log" && -n $(finished "$out/task-$killed.log") ]]; }

state() { scontrol show job "${job}_$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p' | head -n 1; }

not_running() { [[ ! $(state "$1") =~ ^(RUNNING|COMPLETING|PENDING)$ ]]; }

await 180 "the first card of task $killed" one_finished
scancel --full --signal=KILL "${job}_$killed"
await 20 "the end of task $killed" not_running "$killed"
[[ $(state "$killed") =~ ^(CANCELLED|FAILED)$ ]] || die "task $killed ended as $(state "$killed") although it was killed"
mapfile -t kept < <(finished "$out/task-$killed.log")
before=$(files_of "${kept[@]}")
lines=$(wc -l <"$out/task-$killed.log")
say "task $killed was killed: ${#kept[@]} of its $((cells / tasks)) cards are there (${kept[*]})"
((${#kept[@]} < cells / tasks)) || die 'the task was killed too late to show anything: its cards are too small'
scontrol requeue "${job}_$killed"

all_done() { [[ -z $(squeue --noheader --job "$job" 2>/dev/null) ]]; }
await 300 'the end of the array' all_done
for ((task = 0; task < tasks; task++)); do
  [[ $(state "$task") == COMPLETED ]] || die "task $task ended as $(state "$task"); see $out/task-$task.log"
done

# ---- what came of it ------------------------------------------------------------------------------------------------------------

for cell in "${kept[@]}"; do
  ! tail -n "+$((lines + 1))" "$out/task-$killed.log" | begun | grep -qx "$cell" ||
    die "$cell was finished when the task was killed, and was computed again"
done
after=$(files_of "${kept[@]}")
[[ "$before" == "$after" ]] || die "files of the killed task were written again: $after"
# All cards once, and the one that was under way when the task was killed twice.
count=$(begun "$out"/task-*.log | wc -l)
distinct=$(begun "$out"/task-*.log | sort -u | wc -l)
((distinct == cells)) || die "the tasks began $distinct cards of $cells"
((count <= cells + 1)) || die "the tasks began $count cards; $((cells + 1)) are enough"
say "$distinct cards were begun $count times"

# Tasks that are not numbered evenly are no parts, and say so.
uneven=$(CLOISON_OUT="$out/uneven" sbatch --parsable --array=1,3,7 --cpus-per-task=1 --mem=0 --output="$out/uneven-%a.log" \
  "$root/examples/slurm/reproduce.sbatch" --quick --cards "$out/cards")
gone() { [[ -z $(squeue --noheader --job "$uneven" 2>/dev/null) ]]; }
await 30 'the end of the uneven array' gone
for task in 1 3 7; do
  grep -q 'evenly numbered' "$out/uneven-$task.log" || die "an uneven array is not refused; see $out/uneven-$task.log"
done
[[ ! -e "$out/uneven" ]] || die 'a refused array wrote files'
say 'an array of the tasks 1, 3 and 7 is refused'

say 'merging'
cloison reproduce --all --quick --cards "$out/cards" --out "$out/shared" >"$out/merge.log" 2>&1 || die "failed; see $out/merge.log"
grep -q "cards computed: 0 .*there already: $cells" "$out/merge.log" || die "the merge computed cards; see $out/merge.log"
diff -r --exclude 'times*.json' "$out/whole" "$out/shared" || die 'the tasks made other files than one process'
say "$(find "$out/shared" -type f ! -name 'times*.json' | wc -l) files are those of one process, byte for byte"

# ---- an audit -------------------------------------------------------------------------------------------------------------------

audit=(--dataset synthetic --records 250 --mode plain --epochs 40 --policy none --policy 'rounding (decimals = 1)' --policy class_label
  --policy 'dp_gaussian (epsilon = 1.0)' --policy ranking --no-sweep)
pieces=6
say 'one process audits five policies'
began=$SECONDS
cloison demo "${audit[@]}" --out "$out/audit-whole" >"$out/audit-whole.log" 2>&1 || die "failed; see $out/audit-whole.log"
say "done in $((SECONDS - began)) s"
job=$(CLOISON_OUT="$out/audit" sbatch --parsable --array=0-1 --cpus-per-task=1 --mem=0 \
  --output="$out/audit-%a.log" "$root/examples/slurm/audit.sbatch" "${audit[@]}")
second_piece() { grep -qs 'piece 2 of 3' "$out/audit-1.log"; }
await 180 'the second piece of a task' second_piece
scancel --full --signal=KILL "${job}_1"
await 20 'the end of the task' not_running 1
[[ $(state 1) =~ ^(CANCELLED|FAILED)$ ]] || die "the task ended as $(state 1) although it was killed"
scontrol requeue "${job}_1"
await 300 'the end of the audit' all_done
for task in 0 1; do
  [[ $(state "$task") == COMPLETED ]] || die "task $task of the audit ended as $(state "$task"); see $out/audit-$task.log"
done
# The first of three was there when it was killed, and is not computed again.
grep -q 'pieces computed: [12]; there already: [1-5]' "$out/audit-1.log" || die "the killed task began anew; see $out/audit-1.log"
cloison demo "${audit[@]}" --merge --out "$out/audit" >"$out/audit-merge.log" 2>&1 || die "failed; see $out/audit-merge.log"
grep -q "pieces computed: 0; there already: $pieces" "$out/audit-merge.log" || die "the merge computed pieces; see $out/audit-merge.log"
diff -r --exclude pieces "$out/audit-whole" "$out/audit" || die 'the tasks made another report than one process'
say 'the report of the tasks is that of one process, byte for byte; one of them was killed'
