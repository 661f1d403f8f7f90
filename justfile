# The commands of daily work: `just NAME` (https://just.systems). Each line can be run without it.

# Names of the recipes.
default:
    @just --list

# Unit tests of the libraries: under a minute after a change to one crate.
fast:
    cargo test --workspace --lib

# All tests, with a PostgreSQL server where one is installed.
test:
    scripts/with-postgres.sh cargo test --workspace

# Everything that must hold before a change lands.
full:
    .ci/run

# One step of it, by name: `just step clippy` (`.ci/run --list`).
step name:
    .ci/run "{{name}}"

# The demonstration, on data that comes with the project.
demo:
    cargo run --release -- demo --dataset satellite

# What reads bytes from outside, each target for a minute.
fuzz:
    scripts/fuzz.sh

# The Python package, against the release binaries.
python:
    scripts/python-tests.sh
