#!/usr/bin/env bash
# Runs what takes longer than a change should wait for: the gate without a limit of time and with the images compiled as
# `docker compose up --build` does, the semidefinite oracle and the benchmarks, the whole fault matrix, the figures of trainings
# (beside SecretFlow's SPU), a classifier on many views of private trainings, the labels of a million private releases, ten million
# records scored by Spark, the five highest of encrypted scores, and fuzzing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
usage: nightly.sh [--fuzz SECONDS] [--out DIR]

  --fuzz SECONDS    how long each fuzz target runs (default: 600; 0: not at all)
  --out DIR         where fault matrix and figures go (default: out/nightly in the project)

Some hours on two cores. Needs what .ci/run needs; the images need a Docker engine, Spark needs Java, fuzzing needs a nightly Rust.
USAGE
}

fuzz=600 out=out/nightly
while (($#)); do
  case $1 in
    --fuzz) fuzz=${2:?--fuzz takes seconds}; shift 2 ;;
    --out) out=${2:?--out takes a directory}; shift 2 ;;
    --help | -h) usage; exit ;;
    *) usage >&2; exit 2 ;;
  esac
done

CLOISON_NIGHTLY=1 CLOISON_GATE_SECONDS=0 .ci/run
scripts/fault-matrix.sh --out "$out/fault-matrix"
scripts/fault-matrix.sh --private-releases --calls predict,stream,audit --out "$out/fault-matrix-private"
scripts/training-figures.sh --out "$out/training-figures"
CLOISON_ROWS=1000000 cargo test --release --workspace --locked --test integration many_labels
CLOISON_VIEWS=40000 cargo test --release -p vfl-mpc --locked --test computation distinguisher
scripts/spark.sh 10000000 "$out/spark"
cargo test --release --locked --manifest-path scripts/homomorphic/Cargo.toml
cargo run --release --locked --manifest-path scripts/homomorphic/Cargo.toml -- 10 100
((fuzz == 0)) || scripts/fuzz.sh --seconds "$fuzz"
