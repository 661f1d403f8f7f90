#!/usr/bin/env bash
# Three parties as three processes, and a Prometheus server that reads their metrics as deploy/prometheus has it, every second. Fails if
# one of the parties is not read, if a rule is not as its test says, if an alert is raised while all is well, or if none is raised
# when a budget is spent and when a party is gone.
set -euo pipefail
# shellcheck source=scripts/local.sh
source "$(dirname "${BASH_SOURCE[0]}")/local.sh"

local_options 'Has a Prometheus server (Debian: prometheus) read the metrics of three parties on loopback.' "$@"
for program in prometheus promtool; do
  command -v "$program" >/dev/null || die "no $program (Debian: prometheus)"
done
rules="$root/deploy/prometheus"
server=127.0.0.1:19090
declare -A metrics=([coordinator]=127.0.0.1:9100 [passive-1]=127.0.0.1:9101 [active]=127.0.0.1:9102)

say 'checking the rules'
promtool check rules "$rules/rules.yml"
promtool test rules "$rules/rules.test.yml"
promtool check config "$rules/prometheus.yml" >/dev/null

local_prepare
for party in "${parties[@]}"; do
  { cat "$(config "$party")" && printf '\n[metrics]\nlisten = "%s"\n' "${metrics[$party]}"; } >"$work/$party.toml"
  configs[$party]="$work/$party.toml"
done
sed -i 's/^queries_per_record = .*/queries_per_record = 2/' "$(config coordinator)"
start_all

prometheus_stop() {
  [[ -z "${prometheus:-}" ]] || { kill -TERM "$prometheus" 2>/dev/null && wait "$prometheus"; } || true
  prometheus=''
}
trap 'prometheus_stop; stop_all' EXIT

rm -rf "$work/prometheus"
mkdir -p "$work/prometheus"
sed -e 's/_interval: .*/_interval: 1s/' "$rules/prometheus.yml" >"$work/prometheus/prometheus.yml"
cp "$rules/rules.yml" "$work/prometheus/"
prometheus --config.file="$work/prometheus/prometheus.yml" --storage.tsdb.path="$work/prometheus/data" \
  --web.listen-address="$server" --log.level=warn >"$logs/prometheus.log" 2>&1 </dev/null &
prometheus=$!

ask() { promtool query instant "http://$server" "$1" 2>&1; } # expression

wait_for() { # seconds, what, expression: until it gives something
  local until=$((SECONDS + $1)) answer
  until answer=$(ask "$3") && [[ "$answer" == *'=>'* ]]; do
    kill -0 "$prometheus" 2>/dev/null || { tail -n 5 "$logs/prometheus.log" >&2; die 'prometheus stopped'; }
    ((SECONDS < until)) || die "not so after $1 s: $2 ($3); Prometheus says: $answer"
    sleep 0.5
  done
  say "$2"
}

never() { # what, expression: gives nothing
  local answer
  answer=$(ask "$2") || die "Prometheus does not answer: $answer"
  [[ -z "$answer" ]] || die "$1: $answer"
}

firing() { printf 'ALERTS{alertname="%s", alertstate="firing"%s}' "$1" "${2:+, $2}"; }

wait_for 20 'all three parties are read' 'sum(up{job="cloison"}) == 3'
wait_for 5 'each says who it is' \
  'count(cloison_build_info{identity=~"coordinator/coordinator|passive-party/passive-1|active-party/active"}) == 3'
wait_for 5 'no model is in service' 'cloison_model_in_service == 0'

# Records that are left for the end: of spent ones the passive party is not asked.
tail -n 10 "$work/data/test.ids" >"$work/spare.ids"
head -n -10 "$work/data/test.ids" >"$work/first.ids"
cp "$work/first.ids" "$work/data/test.ids"

say 'training and predicting'
train 300 >/dev/null || die "training failed; see $logs"
predict 120 "$out/scores.csv" || die "prediction failed; see $logs"
rows=$(wc -l <"$work/data/test.ids")
for party in coordinator passive-1 active; do
  wait_for 10 "$party counts $rows rows" "cloison_rows_total{party=\"$party\", status=\"ok\"} == $rows"
done
wait_for 5 'a model is in service' 'cloison_model_in_service == 1 and on () count(cloison_model_info) == 1'
wait_for 5 'each hop is timed' \
  'count(cloison_peer_call_seconds_count{peer=~"coordinator|passive-1", method=~"Coordinator/Predict.*|PassiveParty/ComputeLogitsStream"} > 0) == 2'
wait_for 5 'the ledger is timed' 'cloison_ledger_commit_seconds_count > 0'
wait_for 5 'what is left is told' "cloison_budget_records_left{active_party=\"active\"} == 1e6 - $rows"
never 'an alert while all is well' 'ALERTS{alertstate="firing"}'

say 'spending the budget of two queries of a record'
predict 120 "$out/scores.csv" || die "prediction failed; see $logs"
wait_for 10 "all $rows records are exhausted" "cloison_budget_exhausted_records_total == $rows"
never 'an alert before a row was refused' "$(firing CloisonBudgetSpent)"
predict 120 "$out/refused.csv" >"$logs/refused.log" 2>&1 || true
wait_for 10 "$rows rows are refused" "cloison_budget_refused_rows_total{budget=\"queries_per_record\"} == $rows"
wait_for 10 'the alert of a spent budget is raised' "$(firing CloisonBudgetSpent 'budget="queries_per_record"')"
never 'an alert of another budget' "$(firing CloisonBudgetSpent 'budget!="queries_per_record"')"

say 'no metric names a record'
for party in "${parties[@]}"; do
  exec 3<>"/dev/tcp/${metrics[$party]/://}"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
  timeout 10 cat <&3 >"$logs/$party.metrics"
  exec 3>&-
  grep -q '^# EOF' "$logs/$party.metrics" || die "the metrics of $party are cut off; see $logs/$party.metrics"
  if grep -Fwf "$work/data/test.ids" "$logs/$party.metrics"; then die "the metrics of $party name a record"; fi
done

say 'losing the passive party'
stop passive-1
cp "$work/spare.ids" "$work/data/test.ids"
predict 120 "$out/lost.csv" >"$logs/lost.log" 2>&1 && die 'a prediction without the passive party did not fail'
wait_for 10 'the alert of a peer that is gone is raised' "$(firing CloisonPeerUnreachable 'party="coordinator", peer="passive-1"')"
wait_for 10 'its metrics are missed' 'up{party="passive-1"} == 0'

prometheus_stop
stop_all
say "metrics and logs: $logs"
