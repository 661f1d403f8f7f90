#!/usr/bin/env bash
# What happens when a party is lost: kills the passive party (by its process id) in the middle of a training run and in
# the middle of a prediction, shows what each side says, and shows that serving resumes when it is back. Then kills each
# party at several moments of a training. Fails if an error does not name the lost peer, if anything hangs, or if the
# model in service is neither the one before nor the one that was being trained, whole at every party.
set -euo pipefail
# shellcheck source=scripts/local.sh
source "$(dirname "${BASH_SOURCE[0]}")/local.sh"

lost=passive-1
patience_s=60 # no caller may wait longer than this for a party that is gone

# Bytes already in each log, so that only what follows is shown.
mark() {
  local party
  declare -gA marks=()
  for party in coordinator active; do marks[$party]=$(stat -c %s "$logs/$party.log"); done
}

said_since_mark() { tail -c "+$((marks[$1] + 1))" "$logs/$1.log"; }

must_name() { # side, text: shows the lines that name the lost peer, and fails if there are none
  local plain lines
  plain=$(printf '%s\n' "$2" | sed 's/\x1b\[[0-9;]*m//g')
  lines=$(grep -m 4 -F -- "$lost" <<<"$plain") ||
    die "$1 said nothing that names $lost. What it said:"$'\n'"$(tail -n 20 <<<"$plain")"
  while read -r line; do printf '    %s: %s\n' "$1" "$line"; done <<<"$lines"
}

each_side() { # what the caller printed
  must_name 'caller' "$1"
  local party text tries
  for party in coordinator active; do
    # The last line of a log may trail the caller's own error by a moment.
    for ((tries = 20; tries > 0; tries--)); do
      text=$(said_since_mark "$party" | grep -iE 'warn|error' || true)
      [[ "$text" != *"$lost"* ]] || break
      sleep 0.1
    done
    must_name "$party" "$text"
  done
}

lose() {
  kill -KILL "${pids[$lost]}"
  wait "${pids[$lost]}" 2>/dev/null || true
  unset "pids[$lost]"
}

must_fail() { # process id, file with its output, what it was doing
  local status=0
  wait "$1" || status=$?
  ((status != 0)) || die "$3 succeeded although $lost was killed"
  ((status != 124 && status != 137)) || die "$3 did not end within $patience_s s of losing $lost"
  each_side "$(cat "$2")"
}

local_options 'Kills the passive party during training and during a prediction; serving must resume.' "$@"
local_prepare
# The passive party must consent to a training that is too long to end by itself.
sed -E 's/^# max_epochs = .*/max_epochs = 100000\nmax_per_day = 100\nmax_total = 100/' "${configs[$lost]}" >"$work/$lost-long.toml"
configs[$lost]="$work/$lost-long.toml"
# Networks come out as another model of each training, and a record is answered under two of them by default.
sed 's/^\[budget\]$/[budget]\nmodels_per_record = "unlimited"/' "${configs[coordinator]}" >"$work/coordinator-models.toml"
configs[coordinator]="$work/coordinator-models.toml"
start_all
say 'training once, so that there is a model in service'
train 300 >/dev/null || die "training failed; see $logs"
predict 120 scores-before.csv || die "prediction failed; see $logs"

say "1. losing $lost during training"
# The same configuration with a training run too long to end by itself: what is asked for comes from the caller's file.
sed -E 's/^(epochs|patience) = .*/\1 = 100000/' "${configs[active]}" >"$work/active-long.toml"
short=${configs[active]}
mark
configs[active]="$work/active-long.toml"
train "$patience_s" >"$logs/train-lost.log" 2>&1 &
caller=$!
configs[active]=$short
sleep 3
kill -0 "$caller" 2>/dev/null || die "training ended before $lost could be killed: $(tail -n 3 "$logs/train-lost.log")"
lose
must_fail "$caller" "$logs/train-lost.log" training
start "$lost"
wait_healthy "$lost" 30
predict 120 scores-after-training.csv || die "serving did not resume after $lost came back; see $logs"
cmp -s "$work/scores-before.csv" "$work/scores-after-training.csv" ||
  die 'the model in service changed although no training was completed'
say "$lost is back: the last published model answers as before"
train 300 >/dev/null || die "training could not be started again; see $logs"
predict 120 scores-before.csv || die "prediction failed after training again; see $logs"
say 'training was started again and completed'

say "2. losing $lost during a prediction"
mark
# Stopped first and killed a second later: the call is in flight for certain when the party goes.
kill -STOP "${pids[$lost]}"
predict "$patience_s" scores-lost.csv >"$logs/predict-lost.log" 2>&1 &
caller=$!
sleep 1
kill -0 "$caller" 2>/dev/null || die "prediction ended while $lost was stopped: $(tail -n 3 "$logs/predict-lost.log")"
lose
must_fail "$caller" "$logs/predict-lost.log" prediction
start "$lost"
wait_healthy "$lost" 30
predict 120 scores-after.csv || die "serving did not resume after $lost came back; see $logs"
cmp -s "$work/scores-before.csv" "$work/scores-after.csv" || die 'the scores changed over the loss of a party'
say "$lost is back: the same records get the same scores"

say '3. losing each party at several moments of a training'
for lost in coordinator active passive-1; do
  for delay in 0.1 0.4 0.8 1.6; do
    train "$patience_s" >"$logs/train-$lost-$delay.log" 2>&1 &
    caller=$!
    sleep "$delay"
    lose
    status=0
    wait "$caller" || status=$?
    ((status != 124 && status != 137)) || die "training did not end within $patience_s s of losing $lost"
    start "$lost"
    wait_healthy "$lost" 30
    predict 120 "scores-$lost.csv" || die "serving did not resume after $lost was lost $delay s into a training; see $logs"
    cmp -s "$work/scores-before.csv" "$work/scores-$lost.csv" && found='the model of before' || found='the new model'
    say "$lost, $delay s: $found answers"
    mv "$work/scores-$lost.csv" "$work/scores-before.csv"
  done
done
stop_all
say "done; logs: $logs"
