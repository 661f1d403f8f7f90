#!/usr/bin/env bash
# The whole way once with three real processes: certificates, data, training, prediction, attacks, audit, report.
set -euo pipefail
# shellcheck source=scripts/local.sh
source "$(dirname "${BASH_SOURCE[0]}")/local.sh"

local_options 'Trains, predicts, attacks and audits with three parties as three processes on loopback.' "$@"
local_prepare
start_all

say 'training over the three processes'
train 300 || die "training failed; see $logs"
say 'predicting the test records'
predict 120 "$out/scores.csv" || die "prediction failed; see $logs"
say 'attacking and auditing'
bounded 600 "$bin/cloison" audit --config "$(config audit)" --out "$out" || die "the audit failed; see $logs"

for file in report.json report.html report.csv scores.csv; do
  [[ -s "$out/$file" ]] || die "$out/$file was not written"
done
stop_all
say "report: $out/report.html and $out/report.json; scores: $out/scores.csv; logs: $logs"
