#!/usr/bin/env bash
# Brings up docker-compose.yml for real and checks what it promises: the demo exits 0 and leaves a report that belongs
# to the owner of the output directory, each party sees its own key and data only, and nothing runs with privileges. Then
# the profiles: the second deployment gives the scores of the first to 0.01, and the same ones after either of its coordinators is killed, and Prometheus
# reads all its parties.
# Makes the base images first where they are missing and cannot be pulled. Removes the containers, volumes and images
# of its own project afterwards.
#
#   usage: scripts/ci-containers.sh [--no-build | --programs DIR | --binaries DIR]
#     --no-build       the images cloison/*:$CLOISON_TAG of the services without a profile exist already, and the base images
#     --programs DIR   put the programs in DIR into the images, and compile nothing, unless these programs do not start in an image
#     --binaries DIR   only build the images, and put their programs into DIR; the images stay
#
#   environment: CLOISON_BUILD_SECONDS   how long a build may take (default: 2400); ends with status 124 when it takes longer
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CLOISON_TAG=${CLOISON_TAG:-ci} COMPOSE_PROJECT_NAME="cloison-ci-$$"

say() { echo "ci-containers: $*"; }

die() {
  echo "ci-containers: $*" >&2
  exit 1
}

build=true
programs=
binaries=
case "${1:-}" in
  '') ;;
  --no-build) build=false ;;
  --programs | --binaries)
    [[ -n "${2:-}" ]] || die "$1 needs a directory"
    directory=$(cd "$called_from" && realpath -m "$2")
    if [[ "$1" == --programs ]]; then programs=$directory; else binaries=$directory; fi
    ;;
  *) die "unknown argument '$1' (known: --no-build, --programs, --binaries)" ;;
esac

profiles=()
if docker compose version >/dev/null 2>&1; then
  compose() { docker compose --ansi never "${profiles[@]}" "$@"; }
elif command -v docker-compose >/dev/null; then
  compose() { docker-compose --ansi never "${profiles[@]}" "$@"; }
else
  die "neither 'docker compose' nor 'docker-compose' is installed"
fi

base_images() {
  local image
  for image in $(scripts/ci-base-images.sh --list); do
    docker image inspect "$image" >/dev/null 2>&1 || timeout 120 docker pull --quiet "$image" >/dev/null 2>&1 || {
      scripts/ci-base-images.sh
      break
    }
  done
}

compose_build() { # directory of the compose file and the context
  local build_log
  build_log=$(mktemp)
  local status=0
  timeout "${CLOISON_BUILD_SECONDS:-2400}" bash -c "$(declare -f compose); profiles=(); cd '$1' && compose build" >"$build_log" 2>&1 || status=$?
  if ((status == 124)); then
    say "the images are not built after ${CLOISON_BUILD_SECONDS:-2400} s"
    exit 124
  elif ((status != 0)); then
    tail -n 60 "$build_log"
    die "the images could not be built"
  fi
  rm -f "$build_log"
}

build_images() {
  base_images
  say 'building the images'
  compose_build .
}

# The same images, with programs that are there already in place of those that the builder compiles.
context=
images_of() { # directory of the programs
  local from='# Dependencies first' to='# The CA certificates' name
  for name in "$from" "$to"; do grep -q "^$name" Dockerfile || die "no line of the Dockerfile begins with '$name'"; done
  base_images
  say "putting the programs in $1 into the images"
  context=$(mktemp -d)
  sed "/^$from/,/^$to/c COPY programs /out/" Dockerfile >"$context/Dockerfile"
  mkdir -p "$context/programs" "$context/scripts"
  for name in coordinator passive-party active-party cloison cloison-reproduce cloison-load; do install -m 0755 "$1/$name" "$context/programs/"; done
  cp -r scripts/compose "$context/scripts/"
  cp LICENSE docker-compose.yml "$context/"
  compose_build "$context"
  for name in coordinator passive-party active-party demo; do
    docker run --rm --network none --read-only "cloison/$name:$CLOISON_TAG" --version || {
      say "the program in cloison/$name does not start there"
      build_images
      break
    }
  done
}

opened=''
close_opened() { [[ -z "$opened" ]] || docker rm "$opened" >/dev/null 2>&1 || true; }

take_out() { # image, program: from the image into the directory asked for
  opened=$(docker create --network none "cloison/$1:$CLOISON_TAG")
  docker cp "$opened:/usr/local/bin/$2" "$binaries/$2" >/dev/null
  close_opened
  opened=''
}

if [[ -n "$binaries" ]]; then
  trap close_opened EXIT
  build_images
  mkdir -p "$binaries"
  for program in coordinator passive-party active-party; do take_out "$program" "$program"; done
  take_out demo cloison
  say "the programs of the images are in $binaries"
  exit
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
  profiles=(--profile postgres --profile observed)
  if ((status != 0)); then compose logs --tail=40 || true; fi
  compose down --volumes --remove-orphans >/dev/null 2>&1 || true
  # Images of the project alone: the base images are kept for the next run.
  if $build; then
    docker image ls --filter "reference=cloison/*:$CLOISON_TAG" --format '{{.Repository}}:{{.Tag}}' |
      xargs -r docker image rm >/dev/null 2>&1 || true
  else
    docker image rm "${twins[@]}" >/dev/null 2>&1 || true
  fi
  rm -rf "$CLOISON_OUT" "$context"
}
twins=()
trap clean EXIT

container() { # service: the id of its container, running or not
  compose ps -a -q "$1"
}

# Two private trainings on the same data: the last digits of their parameters are rounded at random, and their scores agree to 0.01.
scores_agree() { # file, other file
  awk -F, 'NR == FNR { line[FNR] = $0; lines = FNR; next }
    { fields = split(line[FNR], one); wrong += fields != NF || one[1] != $1; for (i = 2; i <= NF; i++) wrong += (one[i] - $i) ^ 2 > 1e-4 }
    END { exit wrong > 0 || FNR != lines || lines < 2 }' "$1" "$2"
}

expect() { # what, found, expected
  [[ "$2" == "$3" ]] || die "$1: found '$2', expected '$3'"
}

compose config -q
compose --profile postgres --profile observed config -q
say "compose file is valid for $(compose version --short 2>/dev/null || echo compose)"

if [[ -n "$programs" ]]; then images_of "$programs"; elif $build; then build_images; fi
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

cp "$CLOISON_OUT/scores.csv" "$CLOISON_OUT/first.csv"

listing() { docker exec "$(container "$1")" ls "$2" | sort | tr '\n' ' '; }
expect 'keys the coordinator sees' "$(listing coordinator /etc/cloison/tls)" 'ca.pem coordinator.key coordinator.pem '
expect 'keys the passive party sees' "$(listing passive-1 /etc/cloison/tls)" 'ca.pem passive-1.key passive-1.pem '
expect 'keys the active party sees' "$(listing active /etc/cloison/tls)" 'active.key active.pem ca.pem '
expect 'data the coordinator sees' "$(listing coordinator /var/lib/cloison/data)" ''
expect 'data the passive party sees' "$(listing passive-1 /var/lib/cloison/data)" 'passive-1.csv passive-1.schema.toml '
expect 'data the active party sees' "$(listing active /var/lib/cloison/data)" 'active.csv active.schema.toml '

confined() { # service, user id: runs without privileges, and nothing of it is published
  local id
  id=$(container "$1")
  expect "user of $1" "$(docker exec "$id" id -u)" "$2"
  expect "capabilities of $1" "$(docker exec "$id" sed -n 's/^CapEff:\t//p' /proc/1/status)" 0000000000000000
  expect "no new privileges in $1" "$(docker exec "$id" sed -n 's/^NoNewPrivs:\t//p' /proc/1/status)" 1
  if docker exec "$id" sh -c ': >/usr/local/written' 2>/dev/null; then die "$1 can write to its root file system"; fi
  expect "read-only root of $1" "$(docker inspect --format '{{.HostConfig.ReadonlyRootfs}}' "$id")" true
  expect "ports of $1 on the host" "$(docker port "$id")" ''
}

health() { docker inspect --format '{{.State.Health.Status}}' "$(container "$1")"; } # service

for service in coordinator passive-1 active; do
  confined "$service" 10001
  docker exec "$(container "$service")" sh -c ': >/var/lib/cloison/state/.probe && rm /var/lib/cloison/state/.probe' ||
    die "$service cannot write to its state"
  expect "health of $service" "$(health "$service")" healthy
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
say 'once more, with perceptrons: the mode, and one setting of the active party'
compose down --volumes >/dev/null 2>&1
CLOISON_ACTIVE_CONFIG=$CLOISON_OUT/active.toml
CLOISON_PASSIVE_CONFIG=$CLOISON_OUT/passive-1.toml
export CLOISON_ACTIVE_CONFIG CLOISON_PASSIVE_CONFIG
sed -e 's/^kind = "softmax_regression"$/kind = "mlp"/' -e 's/^# mode = "private"$/mode = "plain"/' examples/compose/active.toml \
  >"$CLOISON_ACTIVE_CONFIG"
expect 'lines that are not those of the example' "$(diff "$CLOISON_ACTIVE_CONFIG" examples/compose/active.toml | grep -c '^<')" 2
sed -e 's/^# \(mode = "plain"\)$/\1/' -e 's/^# \(plain_consent = .*\)$/\1/' examples/compose/passive-1.toml >"$CLOISON_PASSIVE_CONFIG"
expect 'lines that are not those of the example' "$(diff "$CLOISON_PASSIVE_CONFIG" examples/compose/passive-1.toml | grep -c '^<')" 2
chmod 644 "$CLOISON_ACTIVE_CONFIG" "$CLOISON_PASSIVE_CONFIG"
compose up -d --no-build
status=$(timeout 600 docker wait "$(container demo)") || die 'the demo with perceptrons did not end within 600 s'
docker logs "$(container operator)"
expect 'exit code of the demo with perceptrons' "$status" 0
docker exec "$(container coordinator)" sh -c 'cat /var/lib/cloison/state/models/*.json' | grep -q '"mlp"' ||
  die 'the model in service is not of perceptrons'

say 'the second deployment, beside the first: --profile postgres'
began=$SECONDS
twin() { # image, a further name of it
  docker tag "cloison/$1:$CLOISON_TAG" "cloison/$2:$CLOISON_TAG"
  twins+=("cloison/$2:$CLOISON_TAG")
}
twin coordinator coordinator-a
twin coordinator coordinator-b
twin passive-party passive-1-postgres
twin active-party active-postgres
twin operator operator-postgres
twin demo demo-postgres
profiles=(--profile postgres)
# Its last job. Without a name, the jobs of the first deployment would run once more.
compose up -d --no-build demo-postgres
status=$(timeout 300 docker wait "$(container demo-postgres)") || die 'the demo with PostgreSQL did not end within 300 s'
docker logs "$(container features)"
docker logs "$(container operator-postgres)"
expect 'exit code of the demo with PostgreSQL' "$status" 0
for file in report.json report.html report.csv scores.csv; do
  [[ -s "$CLOISON_OUT/postgres/$file" ]] || die "no $file of the demo with PostgreSQL"
  expect "owner of postgres/$file" "$(stat -c '%u:%g' "$CLOISON_OUT/postgres/$file")" "$owner"
done
scores_agree "$CLOISON_OUT/first.csv" "$CLOISON_OUT/postgres/scores.csv" || die 'the scores are not those of the first deployment'

for service in coordinator-a coordinator-b passive-1-postgres active-postgres; do confined "$service" 10001; done
confined postgres 999
for service in coordinator-a coordinator-b; do
  expect "keys $service sees" "$(listing "$service" /etc/cloison/tls)" 'ca.pem coordinator.key coordinator.pem '
  expect "what $service has of the database" "$(listing "$service" /etc/cloison/ledger)" 'ca.pem pgpass '
done
expect 'data the passive party sees' "$(listing passive-1-postgres /var/lib/cloison/data)" ''
expect 'what the passive party has of the database' "$(listing passive-1-postgres /etc/cloison/features)" \
  'ca.pem features.url passive-1.schema.toml '

sql() { docker exec "$(container postgres)" psql -X -A -t -v ON_ERROR_STOP=1 -d "$1" -c "$2"; } # database, query
expect 'coordinators on the ledger' "$(sql ledger "SELECT count(DISTINCT client_addr) FROM pg_stat_activity WHERE usename = 'ledger'")" 2
expect 'sessions without TLS' "$(sql ledger 'SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
  WHERE client_addr IS NOT NULL AND NOT ssl')" 0
expect 'what the coordinators may do with the features' "$(sql features "SELECT has_database_privilege('ledger', 'features', 'CONNECT')")" f
expect 'what the passive party may do with the ledger' "$(sql features "SELECT has_database_privilege('reader', 'ledger', 'CONNECT')")" f
expect 'rights of the passive party on its features' "$(sql features "SELECT string_agg(privilege_type, ' ')
  FROM information_schema.role_table_grants WHERE grantee = 'reader'")" SELECT
if docker exec "$(container postgres)" psql -X -c 'SELECT 1' \
  "host=postgres dbname=ledger user=ledger password=$(docker exec "$(container postgres)" cat /etc/cloison/postgres/ledger.password) sslmode=disable" \
  >/dev/null 2>&1; then die 'PostgreSQL answers without TLS'; fi

predict() { # what: as the operator of the active party; the scores are those of before, to the last digit
  docker exec "$(container active-postgres)" active-party predict --config /etc/cloison/active-party.toml \
    --ids /var/lib/cloison/ids/test.ids --out /tmp/scores.csv >/dev/null || die "no prediction $1"
  docker exec "$(container active-postgres)" cat /tmp/scores.csv | cmp - "$CLOISON_OUT/postgres/scores.csv" || die "other scores $1"
  say "the same scores $1"
}
for service in coordinator-a coordinator-b; do
  docker kill "$(container "$service")" >/dev/null
  predict "without $service"
  docker start "$(container "$service")" >/dev/null
  until=$((SECONDS + 60))
  until [[ "$(health "$service")" == healthy ]]; do
    ((SECONDS < until)) || die "$service does not come back"
    sleep 0.2
  done
done
for job in postgres-setup features; do
  docker start "$(container "$job")" >/dev/null
  expect "second run of $job" "$(docker wait "$(container "$job")")" 0
  docker logs --tail 1 "$(container "$job")" 2>&1 | grep -q 'nothing to do' || die "$job did its work again"
done

say 'watched: --profile observed'
profiles=(--profile observed)
compose up -d --no-build --no-recreate prometheus
confined prometheus 65534
ask() { docker exec "$(container prometheus)" promtool query instant http://127.0.0.1:9090 "$1"; } # expression
for expression in 'sum(up{job="cloison"}) == 4' 'count(count by (party) (up{job="cloison"} == 1)) == 3' \
  'max by (party) (cloison_rows_total{party="passive-1", status="ok"}) > 0'; do
  until=$((SECONDS + 40))
  until answer=$(ask "$expression" 2>&1) && [[ "$answer" == *'=>'* ]]; do
    ((SECONDS < until)) || die "not so: $expression; Prometheus says: $answer"
    sleep 0.5
  done
  say "Prometheus: $answer"
done
answer=$(docker exec "$(container prometheus)" promtool check config /etc/prometheus/prometheus.yml)
[[ "$answer" == *'1 rule files found'* ]] || die "Prometheus has no rules: $answer"
say "the profiles took $((SECONDS - began)) s"

say 'demo exits 0 four times, the reports belong to the owner of the output directory, the parties are apart'
