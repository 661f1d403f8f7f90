#!/usr/bin/env bash
# Entry point of the PostgreSQL image that ci-base-images.sh makes. It does what docker-compose.yml and its mounts need of the
# official image's entry point:
#   - the first start of an empty $PGDATA: initdb with $POSTGRES_INITDB_ARGS, the superuser $POSTGRES_USER with $POSTGRES_PASSWORD or
#     the content of $POSTGRES_PASSWORD_FILE, the database $POSTGRES_DB, then *.sh and *.sql of /docker-entrypoint-initdb.d, in the
#     order of their names, against a server that listens on its socket alone;
#   - started as root, it goes on as postgres;
#   - arguments that begin with `-` are arguments of the server, anything else is a command of its own.
# Left out: POSTGRES_HOST_AUTH_METHOD, POSTGRES_INITDB_WALDIR, the _FILE forms of the other variables, compressed SQL, scripts that are
# sourced because they are not executable, users without a name, and the checks for a data directory of an older layout.
set -euo pipefail

export PGDATA=${PGDATA:-/var/lib/postgresql/data}
[[ "${1:-}" != -* ]] || set -- postgres "$@"
[[ "${1:-}" == postgres ]] || exec "$@"

if [[ $(id -u) -eq 0 ]]; then
  install -d -m 0700 -o postgres -g postgres "$PGDATA"
  install -d -m 3777 -o postgres -g postgres /var/run/postgresql
  chown -R postgres:postgres "$PGDATA"
  exec setpriv --reuid postgres --regid postgres --init-groups -- "$0" "$@"
fi

[[ ! -s "$PGDATA/PG_VERSION" ]] || exec "$@"

user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}
password=${POSTGRES_PASSWORD:-}
[[ -z "${POSTGRES_PASSWORD_FILE:-}" ]] || password=$(<"$POSTGRES_PASSWORD_FILE")
[[ -n "$password" ]] || {
  echo 'postgres: set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE' >&2
  exit 1
}

mkdir -p "$PGDATA"
chmod 0700 "$PGDATA"
# The arguments are one string of several words.
# shellcheck disable=SC2086
initdb --username="$user" --pwfile=<(printf '%s\n' "$password") ${POSTGRES_INITDB_ARGS:-}
printf '\nhost all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"

sql() { PGPASSWORD=$password psql -v ON_ERROR_STOP=1 --no-password --no-psqlrc --username "$user" "$@"; }
# The server's own arguments apply here too; the later setting counts.
options=$(printf '%q ' "${@:2}" -c listen_addresses= -p "${PGPORT:-5432}")
pg_ctl --wait --options="$options" start
[[ "$database" == postgres ]] || sql --dbname postgres --set name="$database" <<<'CREATE DATABASE :"name";'
for file in /docker-entrypoint-initdb.d/*; do
  case "$file" in
    *.sh) echo "postgres: running $file" && POSTGRES_USER=$user POSTGRES_DB=$database "$file" ;;
    *.sql) echo "postgres: running $file" && sql --dbname "$database" --file "$file" ;;
  esac
done
pg_ctl --wait --mode=fast stop
echo 'postgres: the databases are made'
exec "$@"
