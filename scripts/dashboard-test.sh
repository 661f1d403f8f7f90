#!/usr/bin/env bash
# Three parties as three processes, the dashboard, and a browser that is driven by the keyboard alone: it starts an audit, watches it
# end, opens the report and looks up a record. Fails if a page cannot be reached so, if the browser's console says anything, or if a
# page is wider than the window. Leaves pictures of every page at 1280 and 390 pixels, light and dark.
set -euo pipefail
# shellcheck source=scripts/local.sh
source "$(dirname "${BASH_SOURCE[0]}")/local.sh"

local_options 'Has Chromium (Debian: chromium-driver) go through the dashboard of three parties on loopback.' "$@"
for program in chromium chromedriver python3; do
  command -v "$program" >/dev/null || die "no $program (Debian: chromium-driver)"
done

local_prepare
start_all

background=()
end_all() {
  local process
  for process in "${background[@]}"; do
    kill -TERM "$process" 2>/dev/null || true
    wait "$process" || true
  done
  background=()
  stop_all
}
trap end_all EXIT

say 'training and predicting'
train 300 >/dev/null || die "training failed; see $logs"
predict 120 "$out/scores.csv" || die "prediction failed; see $logs"

rm -rf "$work/audits" "$out/pictures"
mkdir -p "$out/pictures"
(cd "$work" && exec "$bin/cloison" dashboard --config "$(config audit)" --out audits --listen 127.0.0.1:8470 \
  --ledger sqlite:state/coordinator/ledger.sqlite) >"$work/dashboard.url" 2>"$logs/dashboard.log" </dev/null &
background+=($!)
chromedriver --port=9515 >"$logs/chromedriver.log" 2>&1 </dev/null &
background+=($!)

until=$((SECONDS + 30))
until [[ -s "$work/dashboard.url" ]] && (exec 3<>/dev/tcp/127.0.0.1/9515) 2>/dev/null; do
  ((SECONDS < until)) || { tail -n 5 "$logs/dashboard.log" "$logs/chromedriver.log" >&2; die 'the dashboard or chromedriver did not start'; }
  sleep 0.2
done

timeout 600 python3 "$root/scripts/dashboard/browse.py" --driver http://127.0.0.1:9515 --url "$(cat "$work/dashboard.url")" \
  --record "$(head -n 1 "$work/data/test.ids")" --pictures "$out/pictures" || die "the browser did not get through; see $logs"

say 'stopping the dashboard'
end_all
say "pictures: $out/pictures; logs: $logs"
