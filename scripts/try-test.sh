#!/usr/bin/env bash
# A table of one's own by `cloison try`: gaps, dates, words for true and false. The deployment that it writes is then started without an
# edit, each party's folder in a network of its own, trains, predicts and is audited. CLOISON_BIN_DIR names built programs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() { echo "usage: try-test.sh [--out DIR]     DIR: where the commands run (default: out/try in the project). Needs root and ip."; }

out="$root/out/try"
while (($#)); do
  case $1 in
    --out) out=${2:?--out takes a directory}; shift 2 ;;
    --help | -h) usage; exit ;;
    *) usage >&2; exit 2 ;;
  esac
done
die() { echo "try-test.sh: $*" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"
bin=$(cd "${CLOISON_BIN_DIR:-$root/target/release}" && pwd)
export PATH="$bin:$PATH"
cd "$out"

awk 'BEGIN { srand(11); print "customer,age,branch,opened,staff,income,employer,late,last_credit,default"
  split("Paris,Lyon,Lille", branch, ","); split("public,private,", employer, ",")
  for (i = 1; i <= 3000; i++) {
    late = int(4 * rand() * rand()); income = int(1000 + 5000 * rand()); z = 1.5 * late - income / 2500 + rand()
    printf "c%d,%d,%s,20%02d-%02d-%02d,%s,%s,%s,%d,202%d-%02d-15 08:00:00,%s\n", i, 18 + 60 * rand(), branch[1 + int(3 * rand())],
      24 * rand(), 1 + 12 * rand(), 1 + 28 * rand(), (rand() < 0.1 ? "True" : "False"), (rand() < 0.1 ? "" : income),
      employer[1 + int(3 * rand())], late, 4 * rand(), 1 + 12 * rand(), (z > 0.4 ? "yes" : "no") } }' >table.csv

declare -A address=([coordinator]=10.79.0.1 [passive-1]=10.79.0.2 [active]=10.79.0.3)
declare -A program=([coordinator]=coordinator [passive-1]=passive-party [active]=active-party)
hosts=()
for party in "${!address[@]}"; do hosts+=(--host "$party=${address[$party]}"); done
cloison try table.csv --label default --passive income,employer,late,last_credit --epochs 30 "${hosts[@]}" >verdict.txt 2>progress.txt ||
  die "cloison try failed: $(tail -n 3 progress.txt)"
for line in 'last_credit .* days from 2020-01-15 to 2023-12-15' 'staff .* binary' 'income is missing .* binary' 'employer .* 3 categories'; do
  grep -Eq "$line" progress.txt || die "the schema does not say: $line"
done
[[ -s out/report.html ]] || die 'no report'
grep -q 'Behind none' verdict.txt || die 'no verdict'
cloison try table.csv --label default --passive income 2>again.txt && die 'a deployment was overwritten'
grep -q 'exists and is not overwritten' again.txt || die "another reason: $(cat again.txt)"

# A folder for each party, which nobody else may enter, with its own key and its own columns.
[[ $(stat -c %a out/deployment out/deployment/active out/deployment/passive-1/data | sort -u) == 700 ]] || die 'others may enter a folder'
[[ $(find out/deployment -name '*.key' | wc -l) == 5 && -f out/deployment/authority/ca.key ]] || die 'a key is missing, or there twice'
head -n 1 out/deployment/active/data/active.csv | grep -q income && die 'the active party has passive columns'
head -n 1 out/deployment/passive-1/data/passive-1.csv | grep -q default && die 'the passive party has the labels'

tag=t$$
serving=()
clean_up() {
  for pid in "${serving[@]}"; do kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
  for party in "${!address[@]}" wire; do ip netns delete "$tag-$party" 2>/dev/null || true; done
}
trap clean_up EXIT
ip netns add "$tag-wire"
ip -n "$tag-wire" link add bridge type bridge
ip -n "$tag-wire" link set bridge up
for party in "${!address[@]}"; do
  ip netns add "$tag-$party"
  ip -n "$tag-wire" link add "v${address[$party]##*.}" type veth peer name eth0 netns "$tag-$party"
  ip -n "$tag-wire" link set "v${address[$party]##*.}" master bridge up
  ip -n "$tag-$party" address add "${address[$party]}/24" dev eth0
  ip -n "$tag-$party" link set eth0 up
  ip -n "$tag-$party" link set lo up
  mv "out/deployment/$party" "machine-$party"
  (cd "machine-$party" && exec ip netns exec "$tag-$party" "${program[$party]}" serve --config "$party.toml") >"$party.log" 2>&1 &
  serving+=($!)
done
active() { (cd machine-active && ip netns exec "$tag-active" active-party "$@"); }
for ((tries = 100; tries > 0; tries--)); do
  ! active check --config active.toml --health >check.log 2>&1 || break
  sleep 0.2
done
((tries > 0)) || die "the parties do not find each other: $(tail -n 3 check.log)"
(cd machine-active && timeout 120 ip netns exec "$tag-active" active-party train --config active.toml) >train.log 2>&1 ||
  die "no training: $(tail -n 3 train.log)"
active predict --config active.toml --ids data/test.ids --out scores.csv >predict.log 2>&1 || die "no prediction: $(tail -n 3 predict.log)"
[[ $(wc -l <machine-active/scores.csv) == 1001 ]] || die 'not every test record has a score'
(cd out/deployment/auditor && timeout 120 ip netns exec "$tag-coordinator" cloison audit --config audit.toml --out report) \
  >audit.log 2>&1 || die "no audit: $(tail -n 3 audit.log)"
[[ -s out/deployment/auditor/report/report.html ]] || die 'the audit left no report'
echo 'try-test.sh: a table became a verdict, and its deployment serves without an edit'
