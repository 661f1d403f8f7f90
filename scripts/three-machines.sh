#!/usr/bin/env bash
# docs/installation.md, step by step, on three machines in one: each has a network of its own behind a bridge, a file system of its own
# with nothing on it but the programs of the operating system, its own processes under a systemd of its own, and its own host name. They
# share the kernel. Fails if a step fails, if a machine holds what is another's, or if a firewall lets through what it should not.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'USAGE'
usage: three-machines.sh [--out DIR]

  --out DIR         where report, scores and logs go (default: out/machines in the project)

environment:
  CLOISON_BIN_DIR   the directory of the binaries (default: target/release, which is built)

Needs root, ip, unshare, nsenter, setpriv and openssl. Where there is no systemd, or none can run (it needs cgroup2), the services are
started as their units say, but not by them; where there is no nft, the firewalls are left out. Both are said.
USAGE
}

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

out="$root/out/machines"
while (($#)); do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --out) (($# >= 2)) || { usage >&2; exit 2; }; out=$2; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
[[ $(id -u) -eq 0 ]] || die 'needs root, for network namespaces'
for program in ip unshare nsenter setpriv openssl tar; do
  command -v "$program" >/dev/null || die "no $program (Debian: iproute2, util-linux, openssl, tar)"
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "$out"/*.log "$out"/report "$out/scores.csv"

if [[ -n "${CLOISON_BIN_DIR:-}" ]]; then
  bin=$(cd "$CLOISON_BIN_DIR" && pwd)
else
  (cd "$root" && cargo build --release --locked --workspace --bins --features full)
  bin=$(cd "$root" && cargo metadata --format-version 1 --no-deps --locked |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release
fi
for binary in cloison coordinator passive-party active-party; do
  [[ -x "$bin/$binary" ]] || die "no binary '$binary' in $bin"
done

# ---- the machines ---------------------------------------------------------------------------------------------------------------

machines=(coordinator passive-1 active)
declare -A address=([coordinator]=10.77.0.1 [passive-1]=10.77.0.2 [active]=10.77.0.3)
declare -A service=([coordinator]=coordinator [passive-1]=passive-party [active]=active-party)
declare -A holders=()  # machine -> the process that keeps its namespaces, in which it is process 1
declare -A serving=()  # machine -> the process that entered it to run its service, where no systemd does
own=$(mktemp -d /tmp/cloison-machines.XXXXXX)
tag=${own##*.}
tag=c${tag,,}
init=none              # process 1 of the machines: systemd or none
groups=$(findmnt --noheadings --output TARGET --types cgroup2 2>/dev/null | head -n 1 || true)
work="$own/workstation" # where certificates and data are made, a machine that is no party

clean_up() {
  local status=$? machine pid tries
  if ((status != 0)) && [[ $init == systemd ]]; then
    for machine in "${!holders[@]}"; do on "$machine" journalctl --no-pager >"$out/$machine-journal.log" 2>&1 || true; done
  fi
  # Process 1 of a machine takes all others there with it.
  for machine in "${!holders[@]}"; do
    kill -KILL "${holders[$machine]}" 2>/dev/null || true
    wait "${holders[$machine]}" 2>/dev/null || true
  done
  for pid in "${serving[@]}"; do wait "$pid" 2>/dev/null || true; done
  for machine in "${machines[@]}" wire; do ip netns delete "$tag-$machine" 2>/dev/null || true; done
  # A group can be removed once the last of its processes is gone, a moment after it was killed.
  for machine in "${machines[@]}"; do
    for ((tries = 50; tries > 0; tries--)); do
      [[ -d "$groups/$tag-$machine" ]] || break
      find "$groups/$tag-$machine" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
    done
  done
  rm -rf "$own"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Process 1 of a machine: a root of its own in memory, with /usr of this one read-only.
# shellcheck disable=SC2016
install_machine='
  set -e
  here=$1 name=$2 hosts=$3 init=$4
  mount -t tmpfs -o mode=0755 tmpfs "$here"
  cd "$here"
  mkdir -p usr etc/systemd/system var/lib var/tmp var/log/journal tmp proc sys dev root run home srv old
  chmod 1777 tmp var/tmp
  for dir in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$dir" ]; then cp -P "/$dir" .; elif [ -d "/$dir" ]; then mkdir "$dir" && mount --bind "/$dir" "$dir"; fi
  done
  mount --bind /usr usr
  mount -o remount,bind,ro usr
  mount -t tmpfs -o mode=0755 tmpfs usr/local
  mkdir usr/local/bin
  mount -t tmpfs -o mode=0755 tmpfs dev
  mkdir dev/shm dev/mqueue dev/hugepages dev/pts
  for device in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
    set -- $device
    mknod -m 0666 "dev/$1" c "$2" "$3"
  done
  mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
  ln -s pts/ptmx dev/ptmx
  ln -s /proc/self/fd dev/fd
  for file in os-release ld.so.cache ld.so.conf ld.so.conf.d alternatives login.defs ssl/openssl.cnf; do
    if [ -e "/etc/$file" ]; then mkdir -p "etc/$(dirname "$file")" && cp -a "/etc/$file" "etc/$file"; fi
  done
  for file in passwd group; do grep -E "^(root|nogroup|nobody):" "/etc/$file" >"etc/$file"; done
  : >etc/shadow
  chmod 0600 etc/shadow
  echo "hosts: files" >etc/nsswitch.conf
  echo "127.0.0.1 localhost" >etc/hosts
  cat "$hosts" >>etc/hosts
  hostname "$name"
  echo "$name" >etc/hostname
  if [ "$init" = systemd ]; then
    mount -t sysfs -o ro sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    # Nothing is started but the journal and what is asked for: no devices are set up, no setting of the shared kernel is made.
    for unit in usr/lib/systemd/system/*.target.wants/*; do
      case $unit in *journal*) ;; *) ln -sf /dev/null "etc/systemd/system/${unit##*/}" ;; esac
    done
    printf "[Unit]\nDescription=Nothing by itself\n" >etc/systemd/system/default.target
  fi
  pivot_root . old
  mount -t proc proc /proc
  mount --bind /proc/sys /proc/sys
  mount -o remount,bind,ro /proc/sys
  umount -l /old
  rmdir /old
  : >/installed
  if [ "$init" = systemd ]; then
    exec env -i container=other /lib/systemd/systemd --log-target=console --show-status=no
  fi
  exec sleep infinity
'

boot() { # machine
  local machine=$1 number=${address[$1]##*.} tries
  ip netns add "$tag-$machine"
  ip -n "$tag-wire" link add "port$number" type veth peer name eth0 netns "$tag-$machine"
  ip -n "$tag-wire" link set "port$number" master bridge up
  ip -n "$tag-$machine" address add "${address[$machine]}/24" dev eth0
  ip -n "$tag-$machine" link set eth0 up
  ip -n "$tag-$machine" link set lo up
  mkdir "$own/$machine"
  switch_on "$machine"
}

switch_on() { # machine
  local machine=$1 tries
  local -a group=()
  if [[ $init == systemd ]]; then
    mkdir -p "$groups/$tag-$machine"
    group=(--cgroup)
  fi
  (
    [[ $init != systemd ]] || echo "$BASHPID" >"$groups/$tag-$machine/cgroup.procs"
    exec ip netns exec "$tag-$machine" unshare --mount --pid --uts --ipc "${group[@]}" --fork --kill-child \
      sh -c "$install_machine" sh "$own/$machine" "$machine" "$own/hosts" "$init"
  ) >"$out/$machine-boot.log" 2>&1 </dev/null &
  holders[$machine]=$!
  for ((tries = 200; tries > 0; tries--)); do
    ! is_up "$machine" || return 0
    kill -0 "${holders[$machine]}" 2>/dev/null || break
    sleep 0.05
  done
  [[ $init == systemd ]] || die "$machine did not come up: $(tail -n 3 "$out/$machine-boot.log")"
  say "NOT CHECKED: no systemd runs here ($(tail -n 1 "$out/$machine-boot.log"))"
  init=none
  kill -KILL "${holders[$machine]}" 2>/dev/null || true
  wait "${holders[$machine]}" 2>/dev/null || true
  switch_on "$machine"
}

is_up() { # machine
  on "$1" test -e /installed 2>/dev/null || return 1
  [[ $init != systemd ]] || [[ $(on "$1" systemctl is-system-running 2>/dev/null) =~ ^(running|degraded)$ ]]
}

# Runs a command on a machine, as root there.
on() { # machine, command...
  local process
  process=$(pgrep -P "${holders[$1]}") || return 1
  nsenter --target "$process" --mount --uts --ipc --net --pid -- \
    env -i -C / PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "${@:2}"
}

# Runs a command on a machine as a user of it, with no privilege and no way to one.
as() { # user, machine, command...
  on "$2" setpriv --reuid "$1" --regid "$1" --init-groups --inh-caps=-all --bounding-set=-all --no-new-privs -- "${@:3}"
}

# What scp does: files of the workstation, which keep their names, go to a directory of a machine.
copy() { # machine, directory, files of the workstation...
  local file
  for file in "${@:3}"; do
    on "$1" sh -c "umask 077; cat >'$2/${file##*/}'" <"$file"
  done
}

say 'three machines on a network of their own'
# The bridge has a namespace too: the firewall of this machine, which Docker sets up against strangers, has no say there.
ip netns add "$tag-wire"
ip -n "$tag-wire" link add bridge type bridge
ip -n "$tag-wire" link set bridge up
for machine in "${machines[@]}"; do echo "${address[$machine]} $machine.example"; done >"$own/hosts"
mkdir "$work"
if [[ -x /lib/systemd/systemd && -n "$groups" && -w "$groups" ]]; then
  init=systemd
else
  say 'NOT CHECKED: there is no systemd, or no cgroup2; the services are started as their units say, but not by them'
fi
for machine in "${machines[@]}"; do boot "$machine"; done

# ---- 1. programs, users, directories --------------------------------------------------------------------------------------------

say '1. programs, users, directories'
for machine in "${machines[@]}"; do
  party=${service[$machine]}
  copy "$machine" /usr/local/bin "$bin/$party"
  on "$machine" chmod 0755 "/usr/local/bin/$party"
  on "$machine" useradd --system --home-dir /var/lib/cloison --shell /usr/sbin/nologin cloison
  on "$machine" install -d -m 0755 /etc/cloison
  on "$machine" install -d -m 0700 -o cloison -g cloison /etc/cloison/tls
  on "$machine" install -d -m 0755 /var/lib/cloison
  on "$machine" install -d -m 0700 -o cloison -g cloison "/var/lib/cloison/$party" "/var/lib/cloison/$party/data"
done
# The auditor is a user of the coordinator's machine.
copy coordinator /usr/local/bin "$bin/cloison"
on coordinator chmod 0755 /usr/local/bin/cloison
on coordinator useradd --create-home --shell /bin/sh auditor
on coordinator install -d -m 0700 -o auditor -g auditor /home/auditor/audit /home/auditor/audit/tls

# ---- 2. certificates ------------------------------------------------------------------------------------------------------------

say '2. certificates'
(cd "$work" && "$bin/cloison" certs --out certs --party coordinator/coordinator --party active-party/active --party auditor/auditor) \
  >"$out/certs.log" 2>&1 || die "cloison certs failed; see $out/certs.log"
for machine in coordinator active; do
  copy "$machine" /etc/cloison/tls "$work/certs/ca.pem" "$work/certs/$machine.pem" "$work/certs/$machine.key"
done
copy coordinator /home/auditor/audit/tls "$work/certs/ca.pem" "$work/certs/auditor.pem" "$work/certs/auditor.key"
# The passive party's key is made where it is used. A request for a certificate travels, and the certificate comes back.
on passive-1 sh -euc 'cd /etc/cloison/tls && umask 077 && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
  -keyout passive-1.key -out passive-1.csr -subj /CN=passive-1 \
  -addext subjectAltName=URI:spiffe://cloison.local/passive-party/passive-1,DNS:passive-1.cloison.local' >"$out/request.log" 2>&1 ||
  die "no request for a certificate; see $out/request.log"
on passive-1 cat /etc/cloison/tls/passive-1.csr >"$work/passive-1.csr"
openssl x509 -req -in "$work/passive-1.csr" -copy_extensions copy -CA "$work/certs/ca.pem" -CAkey "$work/certs/ca.key" \
  -CAcreateserial -days 365 -out "$work/certs/passive-1.pem" >>"$out/request.log" 2>&1 || die "see $out/request.log"
copy passive-1 /etc/cloison/tls "$work/certs/ca.pem" "$work/certs/passive-1.pem"
for machine in "${machines[@]}"; do
  on "$machine" sh -euc 'cd /etc/cloison/tls && chown cloison:cloison * && chmod 0400 *.key'
done
on coordinator sh -euc 'cd /home/auditor/audit/tls && chown auditor:auditor * && chmod 0400 *.key'

# ---- 3. data --------------------------------------------------------------------------------------------------------------------

say '3. data'
(cd "$work" && "$bin/cloison" partition --dataset satellite --passive-features 12 --out data) >"$out/partition.log" 2>&1 ||
  die "cloison partition failed; see $out/partition.log"
copy active /var/lib/cloison/active-party/data "$work"/data/{active.csv,active.schema.toml,train.ids,test.ids}
copy passive-1 /var/lib/cloison/passive-party/data "$work"/data/{passive-1.csv,passive-1.schema.toml}
copy coordinator /home/auditor/audit "$work/data/test.ids"
on active chown -R cloison:cloison /var/lib/cloison/active-party
on passive-1 chown -R cloison:cloison /var/lib/cloison/passive-party

# ---- 4. configuration -----------------------------------------------------------------------------------------------------------

say '4. configuration'
for machine in "${machines[@]}"; do
  party=${service[$machine]}
  copy "$machine" /etc/cloison "$root/examples/machines/$party.toml"
  on "$machine" chmod 0644 "/etc/cloison/$party.toml"
  as cloison "$machine" "/usr/local/bin/$party" check --config "/etc/cloison/$party.toml" || die "$party.toml was refused"
done
copy coordinator /home/auditor/audit "$root/examples/machines/audit.toml"
on coordinator chown -R auditor:auditor /home/auditor/audit

# ---- 5. firewalls ---------------------------------------------------------------------------------------------------------------

firewalls=no
if ! command -v nft >/dev/null; then
  say '5. firewalls: NOT CHECKED, no nft (Debian: nftables)'
elif ! on coordinator nft list ruleset >/dev/null 2>&1; then
  say '5. firewalls: NOT CHECKED, this kernel has no nf_tables'
else
  say '5. firewalls'
  firewalls=yes
  for machine in "${machines[@]}"; do
    copy "$machine" /etc "$root/examples/machines/${service[$machine]}.nft"
    on "$machine" nft -f "/etc/${service[$machine]}.nft" || die "the firewall of $machine was refused"
  done
fi

# ---- 6. services ----------------------------------------------------------------------------------------------------------------

setting() { # machine, unit, key: the value in the unit as it is installed
  on "$1" sed -n "s/^$3=//p" "/etc/systemd/system/$2"
}

start() { # machine
  local machine=$1 unit="cloison-${service[$1]}.service" command directory user
  if [[ $init == systemd ]]; then
    on "$machine" systemctl enable --quiet --now "$unit" || die "$unit does not start: $(on "$machine" journalctl -n 5 -u "$unit")"
    return
  fi
  # What the unit says, as the user that it names.
  command=$(setting "$machine" "$unit" ExecStart)
  directory=$(setting "$machine" "$unit" WorkingDirectory)
  user=$(setting "$machine" "$unit" User)
  # shellcheck disable=SC2016
  as "$user" "$machine" sh -c 'cd "$1" && umask 077 && exec $2' sh "$directory" "$command" >>"$out/$machine.log" 2>&1 </dev/null &
  serving[$machine]=$!
}

stop() { # machine: SIGTERM, and the time that the unit gives
  local machine=$1 unit="cloison-${service[$1]}.service" tries process=${serving[$1]:-} below
  if [[ $init == systemd ]]; then
    on "$machine" systemctl stop "$unit"
    on "$machine" journalctl --no-pager -u "$unit" >"$out/$machine.log" 2>&1
    [[ $(on "$machine" systemctl show -P Result "$unit") == success ]] || die "$machine ended with an error; see $out/$machine.log"
    return
  fi
  tries=$(($(setting "$machine" "$unit" TimeoutStopSec) * 10))
  # What entered the machine waits for the service, which is the last below it.
  while below=$(pgrep -P "$process"); do process=$below; done
  [[ "$process" != "${serving[$machine]}" ]] || die "the service of $machine is gone; see $out/$machine.log"
  kill -TERM "$process"
  while kill -0 "${serving[$machine]}" 2>/dev/null && ((tries-- > 0)); do sleep 0.1; done
  ((tries > 0)) || die "$machine did not stop within TimeoutStopSec of its unit"
  wait "${serving[$machine]}" || die "$machine ended with an error; see $out/$machine.log"
  unset "serving[$machine]"
}

healthy() { # machine
  local machine=$1 party=${service[$1]} tries
  for ((tries = 100; tries > 0; tries--)); do
    ! as cloison "$machine" "/usr/local/bin/$party" check --config "/etc/cloison/$party.toml" --health >"$out/$machine-health.log" 2>&1 ||
      return 0
    sleep 0.1
  done
  die "$machine is not healthy: $(tail -n 2 "$out/$machine-health.log")"
}

say '6. services'
for machine in "${machines[@]}"; do
  unit="cloison-${service[$machine]}.service"
  copy "$machine" /etc/systemd/system "$root/deploy/systemd/$unit"
  [[ $init != systemd ]] || on "$machine" systemctl daemon-reload
  if command -v systemd-analyze >/dev/null; then
    on "$machine" systemd-analyze verify --man=no "/etc/systemd/system/$unit" >"$out/$machine-unit.log" 2>&1 ||
      die "systemd refuses $unit; see $out/$machine-unit.log"
  fi
done
command -v systemd-analyze >/dev/null || say 'units: NOT CHECKED, no systemd-analyze'
for machine in "${machines[@]}"; do start "$machine"; done
for machine in "${machines[@]}"; do healthy "$machine"; done

# ---- 7. training, prediction, audit ---------------------------------------------------------------------------------------------

say '7. the first training, on the active machine'
as cloison active active-party train --config /etc/cloison/active-party.toml >"$out/train.log" 2>&1 ||
  die "training failed; see $out/train.log"
say 'the first prediction'
as cloison active sh -c 'cd /var/lib/cloison/active-party && active-party predict --config /etc/cloison/active-party.toml \
  --ids data/test.ids --out scores.csv' >"$out/predict.log" 2>&1 || die "prediction failed; see $out/predict.log"
on active cat /var/lib/cloison/active-party/scores.csv >"$out/scores.csv"
(($(wc -l <"$out/scores.csv") == $(wc -l <"$work/data/test.ids") + 1)) || die "not every record has a score: $out/scores.csv"
say "the first audit, by the auditor on the coordinator's machine"
as auditor coordinator sh -c 'cd /home/auditor/audit && cloison audit --config audit.toml --out report' >"$out/audit.log" 2>&1 ||
  die "the audit failed; see $out/audit.log"
mkdir "$out/report"
on coordinator tar -C /home/auditor/audit/report -cf - . | tar -C "$out/report" -xf -
for file in report.json report.html report.csv; do [[ -s "$out/report/$file" ]] || die "$file was not written"; done

# ---- 8. a restart ---------------------------------------------------------------------------------------------------------------

say '8. every service stops and starts again, and answers as before'
for machine in "${machines[@]}"; do stop "$machine"; done
for machine in "${machines[@]}"; do start "$machine"; done
for machine in "${machines[@]}"; do healthy "$machine"; done
if [[ $init == systemd ]]; then
  # One that dies is started again by its unit.
  process=$(on passive-1 systemctl show -P MainPID cloison-passive-party)
  on passive-1 kill -KILL "$process"
  healthy passive-1
  [[ $(on passive-1 systemctl show -P MainPID cloison-passive-party) != "$process" ]] || die 'the passive party was not started again'
fi
as cloison active active-party predict --config /etc/cloison/active-party.toml --ids /var/lib/cloison/active-party/data/test.ids \
  --out - >"$out/again.csv" 2>"$out/again.log" || die "prediction failed after the restart; see $out/again.log"
cmp -s "$out/scores.csv" "$out/again.csv" || die 'the scores are others after a restart'
rm "$out/again.csv"

# ---- what each machine holds, and who reaches whom --------------------------------------------------------------------------------

holds() { # machine, what it should hold: keys and data on it
  local there
  there=$(on "$1" find / -xdev \( -name '*.key' -o -name '*.csv' \) -not -path '/usr/*' -not -path '/proc/*' -printf '%f ' | tr ' ' '\n' | sort | xargs)
  [[ "$there" == "$2" ]] || die "$1 holds '$there', not '$2'"
}
# Its own key, and the one that signs the ledger's chain.
holds coordinator 'auditor.key coordinator.key ledger.key report.csv'
holds passive-1 'passive-1.csv passive-1.key'
holds active 'active.csv active.key scores.csv'
! as cloison coordinator cat /home/auditor/audit/tls/auditor.key >/dev/null 2>&1 || die "the coordinator's service can read the auditor's key"

reaches() { # machine, machine, port
  on "$1" timeout 1 bash -c "exec 3<>/dev/tcp/$2.example/$3" 2>/dev/null
}
allowed=('active coordinator 7100' 'coordinator passive-1 7101' 'active passive-1 7101' 'coordinator active 7102')
refused=('passive-1 coordinator 7100' 'passive-1 active 7102')
for way in "${allowed[@]}"; do
  read -r -a ends <<<"$way"
  reaches "${ends[@]}" || die "${ends[0]} does not reach ${ends[1]} at ${ends[2]}"
done
if [[ $firewalls == yes ]]; then
  for way in "${refused[@]}"; do
    read -r -a ends <<<"$way"
    ! reaches "${ends[@]}" || die "${ends[0]} reaches ${ends[1]} at ${ends[2]}, which its firewall should refuse"
  done
  say 'each machine holds its own keys and data alone; the firewalls let the ways through that are needed, and no others'
else
  say 'each machine holds its own keys and data alone'
fi
for machine in "${machines[@]}"; do stop "$machine"; done
say "done; report: $out/report/report.html; scores: $out/scores.csv; logs: $out"
