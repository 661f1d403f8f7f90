#!/usr/bin/env bash
# A model leaves its parties and comes back: trains with three processes, exports what each party stores, imports the files
# into empty state directories and has them published without any training. The same records must get the same scores.
set -euo pipefail
# shellcheck source=scripts/local.sh
source "$(dirname "${BASH_SOURCE[0]}")/local.sh"

local_options 'Trains, exports every part of the model, imports it into empty parties and compares the scores.' "$@"
local_prepare
start_all
say 'training over the three processes'
train 300 >/dev/null || die "training failed; see $logs"
predict 120 scores-trained.csv || die "prediction failed; see $logs"

version=$(bounded 30 "$bin/passive-party" trainings --config "$(config passive-1)" --json |
  grep -o '"published":"[^"]*"' | tail -n 1 | cut -d '"' -f 4)
[[ -n "$version" ]] || die 'the passive party knows of no published training'
holders=(active passive-1)
# Under a top model the coordinator has a part too.
if [[ "$combiner" == concat ]]; then holders+=(coordinator); fi
# Both forms are tried: JSON is for softmax regression alone.
suffix=json
if [[ -n "$model" ]]; then suffix=safetensors; fi
rm -rf "$work/exchange" && mkdir -p "$work/exchange"
say "exporting model $version"
for party in "${holders[@]}"; do
  bounded 30 "$bin/${binaries[$party]}" export-parameters --config "$(config "$party")" --model "$version" \
    --out "exchange/$party.$suffix"
done
stop_all

say 'importing it into parties that know nothing of it'
rm -rf "$work/state" && mkdir -p "$work/state"
start_all
for party in "${holders[@]}"; do
  for_whom=()
  [[ "$party" == active ]] || for_whom=(--active-party active)
  bounded 30 "$bin/${binaries[$party]}" import-parameters --config "$(config "$party")" \
    --parameters "exchange/$party.$suffix" "${for_whom[@]}"
done
bounded 60 "$bin/active-party" publish --config "$(config active)" --training-ids data/train.ids ||
  die "the imported model was not published; see $logs"
predict 120 scores-imported.csv || die "prediction failed; see $logs"
cmp "$work/scores-trained.csv" "$work/scores-imported.csv" || die 'the imported model gives other scores'
stop_all
say "the imported model gives the scores of the trained one, to the last digit; files: $work/exchange"
