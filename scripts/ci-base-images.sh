#!/usr/bin/env bash
# Makes the two base images that the Dockerfile names, without an image registry.
#
# With a registry at hand nobody needs this script: `docker compose up --build` pulls the public images. Where there is
# none (an isolated build machine), it bootstraps Debian from the mirror apt is already configured for, imports it
# under the public name of the runtime image, then adds a C compiler and this machine's own Rust toolchain and imports
# that under the public name of the builder image. Images that already exist under these names are left alone.
#
#   usage: scripts/ci-base-images.sh [--list | --replace]
#     --list      print the two image names and stop
#     --replace   make them even if images of these names exist
#
#   environment: DEBIAN_MIRROR   mirror to bootstrap from (default: the one in apt's configuration)
#
# Needs root, a running Docker engine, debootstrap, and rustc on PATH.
set -euo pipefail

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
suite=bookworm

die() {
  echo "ci-base-images: $*" >&2
  exit 1
}

# The names come from the Dockerfile, so the two cannot drift apart.
rust_version=$(sed -n 's/^ARG RUST_VERSION=//p' "$root_dir/Dockerfile" | head -n 1)
[[ -n "$rust_version" ]] || die "no 'ARG RUST_VERSION=' in the Dockerfile"
runtime_image="debian:${suite}-slim"
builder_image="rust:${rust_version}-slim-${suite}"

replace=false
case "${1:-}" in
  '') ;;
  --list)
    printf '%s\n' "$runtime_image" "$builder_image"
    exit 0
    ;;
  --replace) replace=true ;;
  *) die "unknown argument '$1' (known: --list, --replace)" ;;
esac

exists() { docker image inspect "$1" >/dev/null 2>&1; }

if ! $replace && exists "$runtime_image" && exists "$builder_image"; then
  echo "ci-base-images: $runtime_image and $builder_image are there already"
  exit 0
fi

[[ $(id -u) -eq 0 ]] || die "debootstrap needs root"
for tool in docker debootstrap rustc tar; do
  command -v "$tool" >/dev/null || die "'$tool' is not installed"
done

# $(...) inside the format belongs to apt, not to the shell.
# shellcheck disable=SC2016
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' \
  'Created-By: Packages' "Release: $suite" 'Component: main' 2>/dev/null | head -n 1)}
[[ -n "$mirror" ]] || die "apt knows no mirror of Debian $suite: set DEBIAN_MIRROR"

work=$(mktemp -d)
system="$work/system"
trap 'rm -rf --one-file-system "$work"' EXIT

import() { # name, change...
  local name=$1 change before
  local -a changes=()
  shift
  before=$(docker image inspect --format '{{.Id}}' "$name" 2>/dev/null || true)
  for change in "$@"; do changes+=(--change "$change"); done
  tar -C "$system" --numeric-owner --one-file-system -c . | docker import "${changes[@]}" - "$name" >/dev/null
  # What carried the name before; stays if anything else uses it.
  [[ -z "$before" ]] || docker image rm "$before" >/dev/null 2>&1 || true
  echo "ci-base-images: made $name ($(docker image inspect --format '{{.Size}}' "$name" | numfmt --to=iec) bytes)"
}

slim() {
  rm -rf "$system"/var/cache/apt/* "$system"/var/lib/apt/lists/* "$system"/var/log/* \
    "$system"/usr/share/man/* "$system"/usr/share/locale/* "$system"/usr/share/info/*
  # Documentation goes, licences stay.
  find "$system/usr/share/doc" -type f ! -name copyright -delete
}

packages() { # install packages into the bootstrapped system
  local log="$work/apt.log"
  {
    chroot "$system" apt-get -qq update &&
      DEBIAN_FRONTEND=noninteractive chroot "$system" apt-get -qq -y --no-install-recommends install "$@"
  } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "could not install $*"
  }
}

echo "ci-base-images: bootstrapping Debian $suite"
debootstrap --variant=minbase "$suite" "$system" "$mirror" >"$work/debootstrap.log" 2>&1 || {
  tail -n 20 "$work/debootstrap.log" >&2
  die "debootstrap failed"
}
# Daemons must not start while packages are configured in the chroot.
printf '#!/bin/sh\nexit 101\n' >"$system/usr/sbin/policy-rc.d"
chmod 0755 "$system/usr/sbin/policy-rc.d"

slim
import "$runtime_image" 'CMD ["bash"]'

# The official Rust image has the same three packages (ring compiles C; rustc links with cc).
packages ca-certificates gcc libc6-dev
slim
# Cargo inside the image must trust what this machine trusts (a build network often has a certificate authority of its
# own). Only the builder image gets it; the images that are shipped start from the runtime image.
if [[ -s /etc/ssl/certs/ca-certificates.crt ]]; then
  cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/ca-certificates.crt"
fi
sysroot=$(rustc --print sysroot)
host=$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "$system/usr/local/rust/bin" "$system/usr/local/rust/lib/rustlib"
cp -a "$sysroot"/bin/{cargo,rustc} "$system/usr/local/rust/bin/"
cp -a "$sysroot"/lib/*.so* "$system/usr/local/rust/lib/"
cp -a "$sysroot/lib/rustlib/$host" "$system/usr/local/rust/lib/rustlib/"
import "$builder_image" 'CMD ["bash"]' 'ENV CARGO_HOME=/usr/local/cargo' \
  'ENV PATH=/usr/local/cargo/bin:/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
found=$(rustc --version)
[[ "$found" == "rustc $rust_version."* || "$found" == "rustc $rust_version "* ]] ||
  echo "ci-base-images: note: the toolchain here is '$found', the Dockerfile asks for $rust_version"
