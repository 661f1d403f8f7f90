# shellcheck shell=bash
# Three parties as three processes on loopback: what demo.sh and faults.sh share. Source it; it does nothing by itself.
#
# Whoever sources this sets -euo pipefail, calls `local_options "$@"`, then `local_prepare`, then starts parties. Every
# process started here is remembered by its id and stopped on exit, and only those.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
declare -A pids=()       # party name -> process id
declare -A binaries=([coordinator]=coordinator [passive-1]=passive-party [active]=active-party)
parties=(passive-1 coordinator active)

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

local_usage() {
  cat <<USAGE
$1

usage: ${0##*/} [--out DIR] [--dataset NAME [--data-dir DIR]] [--passive-features D] [--seed N]
             [--model KIND] [--combiner NAME]

  --out DIR              where everything goes (default: out in the project)
                           DIR/local   certificates, data and state of the three parties
                           DIR/logs    one log per party
  --dataset NAME         data set to split (default: synthetic, which is embedded)
  --data-dir DIR         where sets are that do not come with the project (default: \$CLOISON_DATA_DIR)
  --passive-features D   how many columns the passive party holds (default: 4)
  --seed N               seed of the synthetic data and of the split (default: 7)
  --model KIND           what the parties train, as mlp (default: what examples/local/active.toml says)
  --combiner NAME        how the coordinator combines it, as concat (default: what examples/local/active.toml says)

environment:
  CARGO_TARGET_DIR       honoured by the build
  CLOISON_BIN_DIR        use the binaries in this directory and build nothing

The parties listen where examples/local/*.toml say: 127.0.0.1, ports 7100 to 7102.
USAGE
}

local_options() { # description, arguments...
  local description=$1
  shift
  out="$root/out" dataset=synthetic data_dir='' passive_features=4 seed=7 model='' combiner=''
  while (($#)); do
    case "$1" in
      --help | -h)
        local_usage "$description"
        exit 0
        ;;
      --out | --dataset | --data-dir | --passive-features | --seed | --model | --combiner)
        (($# >= 2)) || { local_usage "$description" >&2; exit 2; }
        case "$1" in
          --out) out=$2 ;;
          --dataset) dataset=$2 ;;
          --data-dir) data_dir=$2 ;;
          --passive-features) passive_features=$2 ;;
          --seed) seed=$2 ;;
          --model) model=$2 ;;
          --combiner) combiner=$2 ;;
        esac
        shift 2
        ;;
      *)
        echo "${0##*/}: unknown argument '$1'" >&2
        local_usage "$description" >&2
        exit 2
        ;;
    esac
  done
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  work="$out/local" logs="$out/logs"
  # Absolute, since the binaries run in another directory.
  [[ -z "$data_dir" ]] || data_dir=$(cd "$data_dir" && pwd)
  if [[ -n "${CLOISON_DATA_DIR:-}" && -d "$CLOISON_DATA_DIR" ]]; then
    CLOISON_DATA_DIR=$(cd "$CLOISON_DATA_DIR" && pwd)
    export CLOISON_DATA_DIR
  fi
}

# Runs a command in the parties' working directory for at most so many seconds. --foreground keeps Ctrl-C working.
bounded() { # seconds, command...
  local seconds=$1 status=0
  shift
  (cd "$work" && exec timeout --foreground --kill-after=5 "$seconds" "$@") || status=$?
  if ((status == 124 || status == 137)); then
    say "not done within $seconds s: ${1##*/} ${*:2}" >&2
  fi
  return "$status"
}

config() { printf '%s' "${configs[$1]}"; }

local_build() {
  if [[ -n "${CLOISON_BIN_DIR:-}" ]]; then
    bin=$(cd "$CLOISON_BIN_DIR" && pwd)
  else
    command -v cargo >/dev/null || die "cargo is not on PATH: install Rust, or name built binaries in CLOISON_BIN_DIR"
    say 'building the binaries (release)'
    (cd "$root" && cargo build --release --locked --workspace --bins --features full)
    # Asked of cargo, so that CARGO_TARGET_DIR and any cargo configuration count.
    bin=$(cd "$root" && cargo metadata --format-version 1 --no-deps --locked |
      sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release
  fi
  local binary
  for binary in cloison coordinator passive-party active-party; do
    [[ -x "$bin/$binary" ]] || die "no binary '$binary' in $bin"
  done
}

local_prepare() {
  local_build
  # Fresh certificates, data and state: a run does not depend on the one before.
  mkdir -p "$work" "$logs"
  rm -rf "$work/tls" "$work/data" "$work/state"
  mkdir -p "$work/state"
  local party
  for party in "${parties[@]}"; do rm -f "$logs/$party.log"; done
  declare -gA configs=([audit]="$root/examples/local/audit.toml")
  for party in "${parties[@]}"; do configs[$party]="$root/examples/local/$party.toml"; done
  if [[ -n "$model$combiner" ]]; then
    # Networks are trained in the plain mode, to which the passive party consents.
    sed -e "${model:+s/^kind = .*/kind = \"$model\"/}" -e "${combiner:+s/^combiner = .*/combiner = \"$combiner\"/}" \
      -e 's/^# mode = "private"$/mode = "plain"/' "${configs[active]}" >"$work/active-model.toml"
    sed -e 's/^# \(mode = "plain"\)$/\1/' -e 's/^# \(plain_consent = .*\)$/\1/' "${configs[passive-1]}" >"$work/passive-plain.toml"
    configs[active]="$work/active-model.toml" configs[passive-1]="$work/passive-plain.toml"
  fi

  say 'making a certificate authority and one certificate per party'
  bounded 60 "$bin/cloison" certs --out tls --party coordinator/coordinator --party passive-party/passive-1 \
    --party active-party/active --party auditor/auditor
  say "splitting '$dataset' by columns ($passive_features to the passive party)"
  local -a where=()
  [[ -z "$data_dir" ]] || where=(--data-dir "$data_dir")
  bounded 120 "$bin/cloison" partition --dataset "$dataset" "${where[@]}" --seed "$seed" \
    --passive-features "$passive_features" --out data
  for party in "${parties[@]}"; do
    bounded 30 "$bin/${binaries[$party]}" check --config "$(config "$party")" ||
      die "$(config "$party") was refused"
  done
}

alive() { [[ -n "${pids[$1]:-}" ]] && kill -0 "${pids[$1]}" 2>/dev/null; }

start() { # party
  local party=$1
  # exec makes $! the party's own process id.
  (cd "$work" && exec "$bin/${binaries[$party]}" serve --config "$(config "$party")") \
    >>"$logs/$party.log" 2>&1 </dev/null &
  pids[$party]=$!
  say "started $party (process ${pids[$party]}, log $logs/$party.log)"
}

wait_healthy() { # party, seconds
  local party=$1 until=$((SECONDS + $2))
  until (cd "$work" && timeout 10 "$bin/${binaries[$party]}" check --config "$(config "$party")" --health) \
    >"$logs/$party.health.log" 2>&1; do
    if ! alive "$party"; then
      tail -n 20 "$logs/$party.log" >&2
      die "$party stopped before it was healthy (is its port taken?); see $logs/$party.log"
    fi
    if ((SECONDS >= until)); then
      tail -n 5 "$logs/$party.health.log" "$logs/$party.log" >&2
      die "$party is not healthy after $2 s; see $logs/$party.log"
    fi
    sleep 0.3
  done
  say "$party is healthy"
}

stop() { # party: asks, waits ten seconds, then kills
  local party=$1 tries=100
  if alive "$party"; then
    kill -TERM "${pids[$party]}" 2>/dev/null || true
    while alive "$party" && ((tries-- > 0)); do sleep 0.1; done
    if alive "$party"; then
      say "$party did not stop within 10 s and was killed" >&2
      kill -KILL "${pids[$party]}" 2>/dev/null || true
    fi
  fi
  [[ -z "${pids[$party]:-}" ]] || wait "${pids[$party]}" 2>/dev/null || true
  unset "pids[$party]"
}

stop_all() {
  local party
  for party in "${!pids[@]}"; do stop "$party"; done
}

start_all() {
  local party
  trap stop_all EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  for party in "${parties[@]}"; do start "$party"; done
  for party in "${parties[@]}"; do wait_healthy "$party" 30; done
}

train() { # seconds
  bounded "$1" "$bin/active-party" train --config "$(config active)"
}

predict() { # seconds, output
  bounded "$1" "$bin/active-party" predict --config "$(config active)" --ids data/test.ids --out "$2"
}
