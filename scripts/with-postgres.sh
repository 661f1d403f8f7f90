#!/usr/bin/env bash
# Runs a command beside a PostgreSQL server of its own, which is on loopback, in a scratch directory, and gone afterwards:
#   scripts/with-postgres.sh cargo test -p vfl-coordinator --test ledger --test ledger_kill
# Sets CLOISON_POSTGRES_URL, and CLOISON_POSTGRES_CRASH to a command that stops the server hard and starts it again.
set -euo pipefail

(($# > 0)) || { echo "usage: $0 COMMAND [ARGUMENT...]" >&2; exit 2; }
bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin -type d 2>/dev/null | sort -V | tail -n 1)
[[ -x "$bin/postgres" ]] || { echo "there is no PostgreSQL server here (Debian: apt-get install postgresql)" >&2; exit 2; }

dir=$(mktemp -d)
# PostgreSQL does not run as root.
as=()
if [[ $(id -u) -eq 0 ]]; then
  chown postgres "$dir"
  as=(runuser -u postgres --)
fi
server() { (cd "$dir" && "${as[@]}" "$bin/pg_ctl" -s -w -D "$dir/data" -l "$dir/log" "$@"); }
end() {
  server -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap end EXIT

(cd "$dir" && "${as[@]}" "$bin/initdb" -D "$dir/data" -A trust -U cloison -E UTF8 --locale=C >/dev/null)
started=
for port in $(shuf -i 20000-29999 -n 20); do
  printf "listen_addresses = '127.0.0.1'\nport = %s\nunix_socket_directories = ''\n" "$port" |
    "${as[@]}" tee "$dir/data/postgresql.auto.conf" >/dev/null
  if server start; then
    started=$port
    break
  fi
done
[[ -n "$started" ]] || { echo 'the PostgreSQL server did not start' >&2; cat "$dir/log" >&2; exit 1; }

export CLOISON_POSTGRES_URL="postgres://cloison@127.0.0.1:$started/postgres"
prefix=${as[*]:-}
control="$prefix $bin/pg_ctl -s -w -D $dir/data -l $dir/log"
export CLOISON_POSTGRES_CRASH="cd $dir && $control -m immediate stop && $control start"
"$@"
