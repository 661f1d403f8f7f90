#!/usr/bin/env bash
# Two coordinators behind one name on one PostgreSQL, 64 callers with budgets. Every five seconds one coordinator is killed (SIGKILL)
# and started again; in the second half the database is stopped hard (immediate) and started again between the kills. Fails unless every
# row released is recorded, once, no budget is passed by one, and a call is made twice at most while the database is there. The last
# lines count kills, stops, calls, rows and the queries of the record that was asked for most.
#   scripts/replicas.sh [SECONDS]     60 by default; 300 for a figure to quote
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ ${1:-60} =~ ^[1-9][0-9]*$ ]] || { echo "usage: $0 [SECONDS]" >&2; exit 2; }
export CLOISON_REPLICAS_S=${1:-60}
exec scripts/with-postgres.sh cargo test --workspace --locked --test integration -- --exact replicas::kills::nothing_is_lost_and_nothing_spent_twice --nocapture
