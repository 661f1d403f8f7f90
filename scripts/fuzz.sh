#!/usr/bin/env bash
# Fuzzes what reads bytes from outside: scripts/fuzz.sh --help
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

usage() {
  cat <<'EOF'
Usage: scripts/fuzz.sh [--seconds N] [--rss MIB] [--minimise | --seeds | --build] [target...]

Builds the fuzz targets with coverage instrumentation and runs each of them on its corpus, one after the other. Stops at the first
input that makes a target panic, takes longer than 25 s or more than 2 GiB; that input is then in fuzz/artifacts/TARGET.

Targets (default: all): messages, csv, schema, config, case_files. What each reads is documented in fuzz/targets/src.

  --seconds N    how long each target is run, in seconds (default 60; a thorough run takes 1200)
  --minimise     instead of fuzzing, replace fuzz/corpus/TARGET.tar.gz by the fewest inputs with the same coverage, from the corpus and
                 from what earlier runs found; inputs named regression-* stay
  --seeds        instead of fuzzing, write the seeds of fuzz/targets/examples/seeds.rs to where earlier runs put what they found, so
                 that the next run and --minimise see them
  --build        build and do nothing else
  --rss MIB      the limit of memory, in MiB (default 2048)
  -h, --help     this text

New inputs go to target/fuzz/TARGET, which is kept from run to run; only --minimise writes to fuzz/corpus, which is in the
repository and is replayed by `cargo test -p vfl-fuzz-targets`. To look at an input again:

  fuzz/target/x86_64-unknown-linux-gnu/release/TARGET fuzz/artifacts/TARGET/crash-...

To keep it once it is mended: copy it to fuzz/corpus/TARGET/regression-WHAT, where the tests find it; --minimise puts it into the archive.

Needs a C++ compiler (for libFuzzer) and the stable toolchain: coverage instrumentation is a matter of LLVM passes. There is no
address sanitizer, because no crate here holds unsafe code. One thread, so that a run can be repeated.

Exit codes: 0 nothing was found, 1 something was, 2 usage.
EOF
}

seconds=60
rss=2048
action=run
all=(messages csv schema config case_files)
targets=()
while (($#)); do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --rss) rss=${2:?--rss needs a number}; shift ;;
    --minimise) action=minimise ;;
    --seeds) action=seeds ;;
    --build) action=build ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "unknown option $1 (see --help)" >&2; exit 2 ;;
    *)
      [[ " ${all[*]} " == *" $1 "* ]] || { echo "no target $1; there are: ${all[*]}" >&2; exit 2; }
      targets+=("$1")
      ;;
  esac
  shift
done
((${#targets[@]})) || targets=("${all[@]}")
[[ $seconds =~ ^[0-9]+$ && $rss =~ ^[0-9]+$ ]] || { echo '--seconds and --rss take whole numbers' >&2; exit 2; }

triple=$(rustc -vV | sed -n 's/^host: //p')
programs=fuzz/target/$triple/release
found=target/fuzz

build() {
  local -a flags=(-Cpasses=sancov-module)
  local option
  for option in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=("-Cllvm-args=-sanitizer-coverage-$option")
  done
  # With a target named, build scripts and procedural macros are not instrumented.
  (cd fuzz && RUSTFLAGS="${flags[*]}" cargo build --release --locked --target "$triple")
}

if [[ $action == seeds ]]; then
  cargo run --quiet --locked -p vfl-fuzz-targets --example seeds -- "$found"
  exit
fi

build
[[ $action != build ]] || exit 0

export RAYON_NUM_THREADS=1
options=(-max_len=65536 -timeout=25 "-rss_limit_mb=$rss" -malloc_limit_mb=1024 -print_final_stats=1)
for target in "${targets[@]}"; do
  corpus=$found/corpus/$target
  rm -rf "$corpus"
  mkdir -p "$corpus" "$found/$target" "fuzz/artifacts/$target"
  tar -xzf "fuzz/corpus/$target.tar.gz" -C "$corpus"
  [[ ! -d fuzz/corpus/$target ]] || cp -n "fuzz/corpus/$target"/* "$corpus"
  dictionary=fuzz/dictionaries/$target.dict
  if [[ $action == minimise ]]; then
    fewest=$(mktemp -d)
    "$programs/$target" "${options[@]}" -merge=1 "$fewest" "$corpus" "$found/$target"
    find "$corpus" -type f ! -name 'regression-*' -delete
    cp -n "$fewest"/* "$corpus"
    rm -r "$fewest"
    # The same inputs make the same bytes.
    (cd "$corpus" && find . -type f -printf '%P\n' | LC_ALL=C sort |
      tar --format=ustar --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r --mtime=@0 -T - -cf -) |
      gzip -9n >"fuzz/corpus/$target.tar.gz"
    rm -rf "fuzz/corpus/$target"
    echo "$target: $(find "$corpus" -type f | wc -l) inputs, $(du -sb "$corpus" | cut -f1) bytes"
    continue
  fi
  echo "== $target: $seconds s"
  extra=()
  [[ ! -f $dictionary ]] || extra=("-dict=$dictionary")
  "$programs/$target" "${options[@]}" "${extra[@]}" "-max_total_time=$seconds" "-artifact_prefix=fuzz/artifacts/$target/" \
    "$found/$target" "$corpus"
done
