#!/usr/bin/env bash
# Times trainings of three real processes on loopback: private and plain ones, with a delay added, of a million records, and beside
# SecretFlow's SPU on the same data.
set -euo pipefail
# shellcheck source=scripts/local.sh
source "$(dirname "${BASH_SOURCE[0]}")/local.sh"

usage() {
  cat <<'USAGE'
usage: training-figures.sh [--out DIR] [--epochs N] [--delay MS] [--records N] [--python FILE]

  --out DIR        where everything goes (default: out/training-figures in the project)
  --epochs N       epochs of the trainings on satellite, all of them run (default: 60)
  --delay MS       what is added to each round trip, at both connections (default: 10)
  --records N      records of the large table, of 30 features; one epoch (default: 1000000; 0: not at all)
  --python FILE    a Python with spu 0.9.5 (default: one is made in DIR; 'none': not beside SPU)

Seconds are those of `active-party train`, from its start to the model in service. Those of SPU are of its computation alone. Bytes are those of
the loopback interface: run it when nothing else uses that. CLOISON_BIN_DIR has the binaries, or a release is built.
USAGE
}

target=$root/out/training-figures epochs=60 delay=10 records=1000000 python=''
while (($#)); do
  case $1 in
    --out) target=${2:?--out takes a directory}; shift 2 ;;
    --epochs) epochs=${2:?--epochs takes a number}; shift 2 ;;
    --delay) delay=${2:?--delay takes milliseconds}; shift 2 ;;
    --records) records=${2:?--records takes a number}; shift 2 ;;
    --python) python=${2:?--python takes a file}; shift 2 ;;
    --help | -h) usage; exit ;;
    *) usage >&2; exit 2 ;;
  esac
done

relay=''
end() {
  stop_all
  [[ -z "$relay" ]] || kill "$relay" 2>/dev/null || true
  relay=''
}

loopback_bytes() { awk '$1 == "lo:" { print $2 }' /proc/net/dev; }

# The example's settings with all epochs run, and the addresses of the relay where there is one.
configure() { # mode, epochs, relayed
  local -a active=(-e "s/^epochs = .*/epochs = $2/" -e '/^validation_share = /d' -e '/^patience = /d')
  local -a passive=() coordinator=()
  if [[ $1 == plain ]]; then
    active+=(-e 's/^# mode = "private"$/mode = "plain"/')
    passive+=(-e 's/^# \(mode = "plain"\)$/\1/' -e 's/^# \(plain_consent = .*\)$/\1/')
  fi
  if [[ $3 == relayed ]]; then
    active+=(-e 's/"127.0.0.1:7100"/"127.0.0.1:7200"/')
    coordinator+=(-e 's/"127.0.0.1:7101"/"127.0.0.1:7201"/')
  fi
  sed "${active[@]}" "$root/examples/local/active.toml" >"$work/active.toml"
  sed "${passive[@]}" -e '' "$root/examples/local/passive-1.toml" >"$work/passive-1.toml"
  sed "${coordinator[@]}" -e '' "$root/examples/local/coordinator.toml" >"$work/coordinator.toml"
  configs[active]=$work/active.toml configs[passive-1]=$work/passive-1.toml configs[coordinator]=$work/coordinator.toml
}

# Classes by name in the header of the scores, and the label as the last column of the active party's table.
accuracy() {
  awk -F, 'NR == FNR { label[$1] = $NF; next }
    FNR == 1 { for (at = 2; at <= NF; at++) class[at] = $at; next }
    { best = 2; for (at = 3; at <= NF; at++) if ($at > $best) best = at; right += class[best] == label[$1]; all++ }
    END { printf "%.2f", 100 * right / all }' "$work/data/active.csv" "$out/scores.csv"
}

measure() { # what, mode, epochs, relayed or direct
  local began bytes seconds
  rm -rf "$work/state"
  mkdir -p "$work/state"
  configure "$2" "$3" "$4"
  if [[ $4 == relayed ]]; then
    python3 "$root/scripts/training/relay.py" "$(awk "BEGIN { print $delay / 2 }")" 7200:7100 7201:7101 &
    relay=$!
  fi
  start_all >/dev/null
  trap end EXIT
  if [[ -n "$relay" ]]; then
    for _ in {1..100}; do
      ! (exec 3<>/dev/tcp/127.0.0.1/7201) 2>/dev/null || break
      sleep 0.1
    done
  fi
  bytes=$(loopback_bytes) began=$(date +%s.%N)
  train 3600 >"$out/train.log" 2>&1 || { tail -n 5 "$out/train.log" >&2; die "$1: the training failed; see $logs"; }
  seconds=$(awk "BEGIN { printf \"%.2f\", $(date +%s.%N) - $began }") bytes=$(($(loopback_bytes) - bytes))
  predict 600 "$out/scores.csv" >"$out/predict.log" 2>&1 || die "$1: the prediction failed; see $logs"
  printf '%-52s %6d epochs %9s s %9.1f MB %8s %%\n' "$1" "$3" "$seconds" "$(awk "BEGIN { print $bytes / 1e6 }")" "$(accuracy)"
  end
}

local_options 'Times trainings.' --out "$target" --dataset satellite --passive-features 12
local_prepare >"$out/prepare.log" 2>&1
if [[ -z "$python" ]]; then
  python=$out/venv/bin/python
  [[ -x "$python" ]] || { python3 -m venv "$out/venv" && "$out/venv/bin/pip" install --quiet 'spu==0.9.5'; }
fi

echo 'seconds, bytes over loopback, and accuracy on the test records'
measure 'satellite, private' private "$epochs" direct
measure 'satellite, plain (batches of 64)' plain "$epochs" direct
measure "satellite, private, $delay ms more a round trip" private "$epochs" relayed
measure "satellite, plain, $delay ms more a round trip" plain "$epochs" relayed
if [[ $python != none ]]; then
  for scores in softmax midpoint; do
    "$python" "$root/scripts/training/spu_regression.py" "$work/data" --epochs "$epochs" --scores "$scores" 2>"$out/spu.log" |
      sed -n 's/^{/SPU, ABY3: {/p' || die "SPU failed; see $out/spu.log"
  done
fi
if ((records > 0)); then
  rm -rf "$work/data"
  python3 "$root/scripts/training/large_table.py" "$work/data" "$records" 30
  measure "$records records, 30 features, private" private 1 direct
  measure "$records records, 30 features, plain" plain 1 direct
fi
