#!/usr/bin/env bash
# Brings up docker-compose.yml for real and checks what it promises: the demo exits 0 and leaves a report that belongs
# to the owner of the output directory, each party sees its own key and data only, and nothing runs with privileges.
# Makes the base images first where they are missing and cannot be pulled. Removes the containers, volumes and images
# of its own project afterwards.
#
#   usage: scripts/ci-containers.sh [--no-build]     --no-build: the images cloison/*:$CLOISON_TAG exist already
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CLOISON_TAG=${CLOISON_TAG:-ci} COMPOSE_PROJECT_NAME="cloison-ci-$$"

say() { echo "ci-containers: $*"; }

die() {
  echo "ci-containers: $*" >&2
  exit 1
}

build=true
case "${1:-}" in
  '') ;;
  --no-build) build=false ;;
  *) die "unknown argument '$1' (known: --no-build)" ;;
esac

if docker compose version >/dev/null 2>&1; then
  compose() { docker compose --ansi never "$@"; }
elif command -v docker-compose >/dev/null; then
  compose() { docker-compose --ansi never "$@"; }
else
  die "neither 'docker compose' nor 'docker-compose' is installed"
fi

CLOISON_OUT=$(mktemp -d)
export CLOISON_OUT
# Somebody else's directory, as with an ordinary user and a root engine.
owner=$(id -u):$(id -g)
if [[ $(id -u) -eq 0 ]]; then
  owner=4321:4321
  chown "$owner" "$CLOISON_OUT"
fi

clean() {
  local status=$?
  if ((status != 0)); then compose logs --tail=40 || true; fi
  if $build; then compose down --volumes --remove-orphans --rmi all; else compose down --volumes --remove-orphans; fi \
    >/dev/null 2>&1 || true
  rm -rf "$CLOISON_OUT"
}
trap clean EXIT

container() { # service: the id of its container, running or not
  compose ps -a -q "$1"
}

expect() { # what, found, expected
  [[ "$2" == "$3" ]] || die "$1: found '$2', expected '$3'"
}

compose config -q
say "compose file is valid for $(compose version --short 2>/dev/null || echo compose)"

if $build; then
  for image in $(scripts/ci-base-images.sh --list); do
    docker image inspect "$image" >/dev/null 2>&1 || timeout 120 docker pull --quiet "$image" >/dev/null 2>&1 || {
      scripts/ci-base-images.sh
      break
    }
  done
  say 'building the images'
  build_log=$(mktemp)
  timeout 2400 bash -c "$(declare -f compose); compose build" >"$build_log" 2>&1 || {
    tail -n 60 "$build_log"
    die "the images could not be built"
  }
  rm -f "$build_log"
fi
for name in coordinator passive-party active-party; do
  docker run --rm --network none --read-only "cloison/$name:$CLOISON_TAG" --help >/dev/null ||
    die "cloison/$name does not answer --help"
done
docker image ls --filter "reference=cloison/*:$CLOISON_TAG" --format '{{.Repository}}  {{.Size}}'

say 'bringing it up'
compose up -d --no-build
status=$(timeout 600 docker wait "$(container demo)") || die 'the demo did not end within 600 s'
docker logs "$(container operator)"
docker logs "$(container demo)"
expect 'exit code of the demo' "$status" 0
for file in report.json report.html report.csv scores.csv; do
  [[ -s "$CLOISON_OUT/$file" ]] || die "no $file in the output directory"
  expect "owner of $file" "$(stat -c '%u:%g' "$CLOISON_OUT/$file")" "$owner"
done

listing() { docker exec "$(container "$1")" ls "$2" | sort | tr '\n' ' '; }
expect 'keys the coordinator sees' "$(listing coordinator /etc/cloison/tls)" 'ca.pem coordinator.key coordinator.pem '
expect 'keys the passive party sees' "$(listing passive-1 /etc/cloison/tls)" 'ca.pem passive-1.key passive-1.pem '
expect 'keys the active party sees' "$(listing active /etc/cloison/tls)" 'active.key active.pem ca.pem '
expect 'data the coordinator sees' "$(listing coordinator /var/lib/cloison/data)" ''
expect 'data the passive party sees' "$(listing passive-1 /var/lib/cloison/data)" 'passive-1.csv passive-1.schema.toml '
expect 'data the active party sees' "$(listing active /var/lib/cloison/data)" 'active.csv active.schema.toml '

for service in coordinator passive-1 active; do
  id=$(container "$service")
  expect "user of $service" "$(docker exec "$id" id -u)" 10001
  expect "capabilities of $service" "$(docker exec "$id" sed -n 's/^CapEff:\t//p' /proc/1/status)" 0000000000000000
  expect "no new privileges in $service" "$(docker exec "$id" sed -n 's/^NoNewPrivs:\t//p' /proc/1/status)" 1
  if docker exec "$id" sh -c ': >/usr/local/written' 2>/dev/null; then die "$service can write to its root file system"; fi
  docker exec "$id" sh -c ': >/var/lib/cloison/state/.probe && rm /var/lib/cloison/state/.probe' ||
    die "$service cannot write to its state"
  expect "health of $service" "$(docker inspect --format '{{.State.Health.Status}}' "$id")" healthy
  expect "ports of $service on the host" "$(docker port "$id")" ''
done

say 'a second time, with the certificates, data and models that are there'
docker start "$(container certs)" "$(container data)" >/dev/null
expect 'second run of certs and data' "$(docker wait "$(container certs)" "$(container data)" | tr '\n' ' ')" '0 0 '
for job in certs data; do
  docker logs --tail 1 "$(container "$job")" 2>&1 | grep -q 'nothing to do' || die "$job did its work again"
done
docker start "$(container operator)" >/dev/null
expect 'exit code of the second operator' "$(timeout 600 docker wait "$(container operator)")" 0
docker start "$(container demo)" >/dev/null
expect 'exit code of the second demo' "$(timeout 600 docker wait "$(container demo)")" 0

for service in coordinator passive-1 active; do
  id=$(container "$service")
  began=$SECONDS
  docker stop --time 10 "$id" >/dev/null
  ((SECONDS - began < 9)) || die "$service does not stop on SIGTERM"
done
say 'once more, with perceptrons: one setting of the active party'
compose down --volumes >/dev/null 2>&1
CLOISON_ACTIVE_CONFIG=$CLOISON_OUT/active.toml
export CLOISON_ACTIVE_CONFIG
sed 's/^kind = "softmax_regression"$/kind = "mlp"/' examples/compose/active.toml >"$CLOISON_ACTIVE_CONFIG"
expect 'lines that are not those of the example' "$(diff "$CLOISON_ACTIVE_CONFIG" examples/compose/active.toml | grep -c '^<')" 1
chmod 644 "$CLOISON_ACTIVE_CONFIG"
compose up -d --no-build
status=$(timeout 600 docker wait "$(container demo)") || die 'the demo with perceptrons did not end within 600 s'
docker logs "$(container operator)"
expect 'exit code of the demo with perceptrons' "$status" 0
docker exec "$(container coordinator)" sh -c 'cat /var/lib/cloison/state/models/*.json' | grep -q '"mlp"' ||
  die 'the model in service is not of perceptrons'
say 'demo exits 0 three times, the report belongs to the owner of the output directory, the parties are apart'
