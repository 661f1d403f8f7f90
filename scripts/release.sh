#!/usr/bin/env bash
# What a release consists of: one archive per platform with static binaries, completions, the manual, units and examples; a Python
# wheel with the package and the programs; the list of what the binaries are made of (CycloneDX); and the checksums of all. Two runs on one commit make the same bytes from the same binaries.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'USAGE'
usage: release.sh [--out DIR] [--target TRIPLE] [--profile NAME] [--skip-build DIR]

  --out DIR          where the files go (default: out/release in the project)
  --target TRIPLE    platform (default: x86_64-unknown-linux-gnu)
  --profile NAME     profile of the build (default: dist, optimised at link time: half an hour on two cores)
  --skip-build DIR   build nothing and take the binaries in this directory

environment:
  SOURCE_DATE_EPOCH  time of all files (default: that of the last commit)

Needs tar, gzip, strip, sha256sum, python3 and its venv, which takes the wheel's builder from PyPI.
USAGE
}

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

out="$root/out/release" target=x86_64-unknown-linux-gnu profile=dist built=''
while (($#)); do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --out | --target | --profile | --skip-build)
      (($# >= 2)) || { usage >&2; exit 2; }
      case "$1" in
        --out) out=$2 ;;
        --target) target=$2 ;;
        --profile) profile=$2 ;;
        --skip-build) built=$(cd "$2" && pwd) ;;
      esac
      shift 2
      ;;
    *) usage >&2; exit 2 ;;
  esac
done
for program in cargo tar gzip strip sha256sum python3; do
  command -v "$program" >/dev/null || die "no $program"
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$root"
binaries=(cloison coordinator passive-party active-party)
# Commands of `cloison` that are programs of their own. `cloison completions` has their names.
siblings=(cloison-reproduce cloison-load)

if [[ -z "$built" ]]; then
  say "building (profile $profile, $target, with the C library inside)"
  # The flags of a target alone, so that build scripts are built as ever.
  variable="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")_RUSTFLAGS"
  env "$variable=-C target-feature=+crt-static" cargo build --profile "$profile" --target "$target" --locked --workspace --bins --features full
  folder=$profile
  [[ "$profile" != dev ]] || folder=debug
  built=$(cargo metadata --format-version 1 --no-deps --locked | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/$target/$folder
fi
for binary in "${binaries[@]}" "${siblings[@]}"; do
  [[ -x "$built/$binary" ]] || die "no binary '$binary' in $built"
done

version=$("$built/cloison" --version | sed 's/^cloison //')
grep -q "^version = \"$version\"$" python/pyproject.toml || die "python/pyproject.toml has another version than the programs, $version"
name="cloison-$version-$target"
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
tree="$own/$name"

say "putting $name together"
install -d "$tree/bin" "$tree/completions" "$tree/man" "$tree/docs" "$tree/deploy" "$tree/examples"
for binary in "${binaries[@]}"; do
  install -m 0755 "$built/$binary" "$tree/bin/$binary"
  strip "$tree/bin/$binary"
  "$built/$binary" completions bash >"$tree/completions/$binary.bash"
  "$built/$binary" completions zsh >"$tree/completions/_$binary"
  "$built/$binary" completions fish >"$tree/completions/$binary.fish"
  "$built/$binary" man --out "$tree/man"
  bash -n "$tree/completions/$binary.bash"
done
for binary in "${siblings[@]}"; do
  install -m 0755 "$built/$binary" "$tree/bin/$binary"
  strip "$tree/bin/$binary"
  "$built/$binary" man --out "$tree/man"
done
install -m 0644 LICENSE README.md CHANGELOG.md SECURITY.md "$tree/"
cp docs/*.md "$tree/docs/"
cp -R docs/operate "$tree/docs/"
cp -R deploy/systemd deploy/prometheus "$tree/deploy/"
cp -R examples/local examples/machines examples/slurm examples/kubernetes "$tree/examples/"

# A static program is one that no loader is asked for.
static=yes
for binary in "${binaries[@]}" "${siblings[@]}"; do
  if LC_ALL=C readelf --program-headers "$tree/bin/$binary" | grep -q INTERP; then
    static=no
    say "NOT STATIC: $binary needs the C library of the machine that built it"
  fi
done
if [[ $static == yes && $(id -u) -eq 0 ]]; then
  # Alone in a root without anything else.
  for binary in "${binaries[@]}" "${siblings[@]}"; do chroot "$tree/bin" "/$binary" --version >/dev/null || die "$binary does not run alone"; done
fi

cargo metadata --format-version 1 --locked --features full --filter-platform "$target" | python3 scripts/sbom.py "$target" >"$own/$name.cdx.json"
install -m 0644 "$own/$name.cdx.json" "$tree/sbom.cdx.json"

epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
tar -C "$own" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX --mtime="@$epoch" -cf - "$name" |
  gzip -9 -n >"$out/$name.tar.gz"
cp "$own/$name.cdx.json" "$out/"

say 'the wheel'
machine=${target%%-*}
tag="py3-none-linux_$machine"
# A static program runs with any C library.
[[ $static == no ]] || tag="py3-none-manylinux_2_17_$machine.manylinux2014_$machine.musllinux_1_1_$machine"
mkdir "$own/programs" "$own/wheel"
cp -p "$tree/bin/"* "$own/programs/"
cp -r python/{pyproject.toml,hatch_build.py,README.md,src} "$own/wheel/"
python3 -m venv "$own/venv" || die 'python3 has no venv (Debian: python3-venv)'
CLOISON_WHEEL_PROGRAMS=$own/programs CLOISON_WHEEL_TAG=$tag SOURCE_DATE_EPOCH=$epoch \
  "$own/venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-input --no-deps --wheel-dir "$out" "$own/wheel"
# Of all archives that are here: those of other platforms, made by runs of their own, among them.
(cd "$out" && sha256sum -- *.tar.gz *.whl *.cdx.json >SHA256SUMS && sha256sum --check --quiet SHA256SUMS)
say "written: $out/$name.tar.gz ($(($(stat -c %s "$out/$name.tar.gz") / 1024)) KiB), $(cd "$out" && echo *.whl), $name.cdx.json, SHA256SUMS"
