#!/usr/bin/env bash
# Two coordinators behind one name on one PostgreSQL, 64 callers with budgets. Every five seconds one coordinator is killed (SIGKILL)
# and started again; in the second half the database is stopped hard (immediate) and started again between the kills. Fails unless every
# row released is recorded, once, no budget is passed by one, and a call is made twice at most while the database is there. The last
# lines count kills, stops, calls, rows and the queries of the record that was asked for most.
#
# With --passive the two processes are a passive party's, and 16 callers ask for predictions and 4 auditors for scorings. Fails unless every
# answer is the same to the bit, a call is made twice at most while the database is there, every scoring that was answered is
# recorded, and no budget is passed.
#   scripts/replicas.sh [--passive] [SECONDS]     60 by default; 300 for a figure to quote
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
test=replicas::kills::nothing_is_lost_and_nothing_spent_twice
if [[ ${1:-} == --passive ]]; then
  test=passive_processes::kills::callers_see_nothing_of_a_process_that_is_killed
  shift
fi
[[ $# -le 1 && ${1:-60} =~ ^[1-9][0-9]*$ ]] || { echo "usage: $0 [--passive] [SECONDS]" >&2; exit 2; }
export CLOISON_REPLICAS_S=${1:-60}
exec scripts/with-postgres.sh cargo test --workspace --locked --test integration -- --exact "$test" --nocapture
