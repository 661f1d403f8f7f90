#!/usr/bin/env bash
# Makes the base images that Dockerfile and docker-compose.yml name, without an image registry.
#
# With a registry at hand nobody needs this script: `docker compose up --build` pulls the public images. Where there is
# none (an isolated build machine), it bootstraps Debian from the mirror apt is already configured for and imports four
# images under the public names: the runtime image; with a C compiler and this machine's own Rust toolchain, the builder
# image; with Debian's PostgreSQL and Debian's Prometheus, those of the compose profiles. Of the official images' entry
# points they have what the compose file needs. Images that already exist under these names are left alone.
#
#   usage: scripts/ci-base-images.sh [--list | --replace]
#     --list      print the image names and stop
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

# The names come from the files that use them, so they cannot drift apart.
rust_version=$(sed -n 's/^ARG RUST_VERSION=//p' "$root_dir/Dockerfile" | head -n 1)
[[ -n "$rust_version" ]] || die "no 'ARG RUST_VERSION=' in the Dockerfile"
runtime_image="debian:${suite}-slim"
builder_image="rust:${rust_version}-slim-${suite}"
composed() { # repository: its image in docker-compose.yml
  local name
  name=$(sed -n "s|^ *image: \\($1:[^ ]*\\)\$|\\1|p" "$root_dir/docker-compose.yml" | head -n 1)
  [[ -n "$name" ]] || die "docker-compose.yml names no image '$1:TAG'"
  echo "$name"
}
postgres_image=$(composed postgres)
prometheus_image=$(composed prom/prometheus)
images=("$runtime_image" "$builder_image" "$postgres_image" "$prometheus_image")

replace=false
case "${1:-}" in
  '') ;;
  --list)
    printf '%s\n' "${images[@]}"
    exit 0
    ;;
  --replace) replace=true ;;
  *) die "unknown argument '$1' (known: --list, --replace)" ;;
esac

is_wanted() { $replace || ! docker image inspect "$1" >/dev/null 2>&1; }

missing=false
for image in "${images[@]}"; do
  if is_wanted "$image"; then missing=true; fi
done
if ! $missing; then
  echo "ci-base-images: there already: ${images[*]}"
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
base="$work/base"
# The tree that the functions below work on.
system=$base
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
if is_wanted "$runtime_image"; then import "$runtime_image" 'CMD ["bash"]'; fi

on_base() { # name: a copy of the bootstrapped system to put more into
  [[ "$system" == "$base" ]] || rm -rf --one-file-system "$system"
  system="$work/$1"
  cp -a "$base" "$system"
}

path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

if is_wanted "$builder_image"; then
  on_base builder
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
    "ENV PATH=/usr/local/cargo/bin:/usr/local/rust/bin:$path"
  found=$(rustc --version)
  [[ "$found" == "rustc $rust_version."* || "$found" == "rustc $rust_version "* ]] ||
    echo "ci-base-images: note: the toolchain here is '$found', the Dockerfile asks for $rust_version"
fi

if is_wanted "$postgres_image"; then
  on_base postgres
  # The user id of the official image.
  chroot "$system" groupadd --system --gid 999 postgres
  chroot "$system" useradd --system --uid 999 --gid 999 --home-dir /var/lib/postgresql --shell /bin/bash postgres
  # openssl comes with the official image too.
  packages postgresql-common openssl
  # The entry point makes the cluster.
  sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' "$system/etc/postgresql-common/createcluster.conf"
  packages postgresql
  slim
  bin=$(cd "$system" && echo usr/lib/postgresql/*/bin)
  install -d -m 0755 "$system/docker-entrypoint-initdb.d"
  # As in the official image: the server listens on all addresses, and a new volume over its data directory belongs to it.
  chroot "$system" install -d -m 1777 -o postgres -g postgres /var/lib/postgresql/data
  chroot "$system" install -d -m 3777 -o postgres -g postgres /var/run/postgresql
  sed -i "s/^#listen_addresses = .*/listen_addresses = '*'/" "$system"/usr/share/postgresql/*/postgresql.conf.sample
  install -m 0755 "$root_dir/scripts/ci-postgres-entrypoint.sh" "$system/usr/local/bin/docker-entrypoint.sh"
  version=$(chroot "$system" "/$bin/postgres" --version)
  import "$postgres_image" 'ENTRYPOINT ["docker-entrypoint.sh"]' 'CMD ["postgres"]' 'EXPOSE 5432' 'ENV LANG=C.UTF-8' \
    'ENV PGDATA=/var/lib/postgresql/data' 'VOLUME /var/lib/postgresql/data' "ENV PATH=$path:/$bin"
  asked=${postgres_image#*:}
  [[ "$version" == *" ${asked%%-*}."* ]] || echo "ci-base-images: note: $postgres_image has $version"
fi

if is_wanted "$prometheus_image"; then
  on_base prometheus
  packages prometheus
  slim
  chroot "$system" install -d -m 0755 -o nobody -g nogroup /prometheus
  version=$(chroot "$system" prometheus --version 2>&1)
  version=${version%%$'\n'*}
  # Left out: the consoles.
  import "$prometheus_image" 'ENTRYPOINT ["/bin/prometheus"]' \
    'CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]' \
    'USER nobody' 'WORKDIR /prometheus' 'VOLUME /prometheus' 'EXPOSE 9090' "ENV PATH=$path"
  [[ "$version" == *"version ${prometheus_image#*:v}"* ]] || echo "ci-base-images: note: $prometheus_image has $version"
fi
