#!/usr/bin/env bash
# A sweep with a bucket in place of a folder in common, against an S3 server that others wrote (moto, which checks signatures): two parts
# at once with a folder each, one of them killed and its folder lost; the merge; a damaged object; a server that is killed in the middle;
# and what is said of a wrong bucket, key, secret or address. Fails if the merged files are not those of one process, byte for byte, or if
# a card that was in the bucket was computed again.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'USAGE'
usage: object-store-test.sh [--out DIR]

  --out DIR         where the server's packages, results and logs go (default: object-store in cargo's target directory, or in target)

environment:
  PYTHON            the interpreter that runs the server (default: python3, at least 3.10)
  CLOISON_BIN_DIR   the directory of the binary `cloison` (default: target/release, which is built)
  CLOISON_STEPS     how long each card takes, in steps of its attack (default: 10000; a debug build takes 2000)

Installs moto from PyPI into DIR/venv, which is kept. The server is this script's own, on a port of its own, and ends with it.
USAGE
}

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

out=''
while (($#)); do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --out) (($# >= 2)) || { usage >&2; exit 2; }; out=$2; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
moto='moto[server,s3,iam]==5.2.5' cells=6

if [[ -n "${CLOISON_BIN_DIR:-}" ]]; then
  bin=$(cd "$CLOISON_BIN_DIR" && pwd)
else
  (cd "$root" && cargo build --release --locked --workspace --bins --features full)
  bin=$(cd "$root" && cargo metadata --format-version 1 --no-deps --locked |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release
  [[ -n "$out" ]] || out="${bin%/release}/object-store"
fi
for program in cloison cloison-reproduce; do
  [[ -x "$bin/$program" ]] || die "no binary '$program' in $bin"
done
export PATH="$bin:$PATH"
out=${out:-$root/target/object-store}
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "${out:?}/cards" "$out/run" "$out"/*.log
mkdir "$out/cards" "$out/run"

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  die "'$python' is not Python 3.10 or newer (Debian: python3); name another one in PYTHON"
# Kept for the next run as long as what it holds is what is asked for.
wanted="$moto $("$python" -c 'import sys; print(sys.version, sys.base_prefix)')"
if [[ "$(cat "$out/venv/wanted" 2>/dev/null)" != "$wanted" ]]; then
  say "installing $moto into $out/venv"
  rm -rf "$out/venv"
  "$python" -m venv "$out/venv" || die "'$python' has no venv (Debian: python3-venv)"
  "$out/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$moto"
  printf '%s\n' "$wanted" >"$out/venv/wanted"
fi

# ---- the server -----------------------------------------------------------------------------------------------------------------

server='' task=''

stop() { # process id, signal
  [[ -n "$1" ]] || return 0
  kill "-$2" "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

clean_up() {
  stop "$task" KILL
  stop "$server" TERM
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

await() { # seconds, what, command...
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    ((SECONDS < until)) || die "$what: not within the time; see $out"
    sleep 0.1
  done
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
  local port
  for ((port = 20000 + RANDOM % 10000; ; port++)); do
    listens "$port" || { echo "$port"; return; }
  done
}

port=$(free_port)
export AWS_ENDPOINT_URL="http://127.0.0.1:$port" AWS_ALLOW_HTTP=true AWS_REGION=us-east-1
unset AWS_SESSION_TOKEN AWS_PROFILE AWS_DEFAULT_REGION AWS_ENDPOINT_URL_S3

# With a bucket `sweeps` and a user whose key is exported. After the four requests that make them, the server checks every signature.
start_server() {
  INITIAL_NO_AUTH_ACTION_COUNT=4 "$out/venv/bin/moto_server" -H 127.0.0.1 -p "$port" >>"$out/server.log" 2>&1 </dev/null &
  server=$!
  await 30 'the S3 server' listens "$port"
  local keys
  keys=$(
    "$out/venv/bin/python" - <<'PYTHON'
import boto3
import os

os.environ.update(AWS_ACCESS_KEY_ID="first", AWS_SECRET_ACCESS_KEY="first")
boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="sweeps")
iam = boto3.client("iam", region_name="us-east-1")
iam.create_user(UserName="task")
allowed = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
iam.put_user_policy(UserName="task", PolicyName="objects", PolicyDocument=allowed)
key = iam.create_access_key(UserName="task")["AccessKey"]
print(key["AccessKeyId"], key["SecretAccessKey"])
PYTHON
  )
  export AWS_ACCESS_KEY_ID=${keys% *} AWS_SECRET_ACCESS_KEY=${keys#* }
}

# What others see: `s3 list PREFIX` prints names, `s3 get NAME` an object, `s3 put NAME` puts standard input.
s3() {
  "$out/venv/bin/python" -c '
import boto3
import sys

bucket = boto3.resource("s3", region_name="us-east-1").Bucket("sweeps")
verb, name = sys.argv[1:]
if verb == "list":
    print("\n".join(sorted(o.key for o in bucket.objects.filter(Prefix=name))))
elif verb == "get":
    sys.stdout.buffer.write(bucket.Object(name).get()["Body"].read())
else:
    bucket.Object(name).put(Body=sys.stdin.buffer.read())
' "$@"
}

say 'starting an S3 server'
start_server

# ---- the cards ------------------------------------------------------------------------------------------------------------------

for ((i = 1; i <= cells; i++)); do
  cat >"$out/cards/r-cell-$i.toml" <<CARD
paper = "R"
item = "figure 14"
title = "On generated data, $i"
figure = "r-fig14"
dataset = "synthetic"
setup = "Of no paper."

[full]
windows = 9
dimensions = [5]
inversion = ["steps=${CLOISON_STEPS:-10000}"]
inversion_records = $((60 + i))

[quick]
windows = 2

[[claim]]
quote = "one half is a better start than zero"
where = "nowhere"
test = { kind = "below", curve = "from_half", than = "from_zero" }
CARD
done

sweep() { # name of the folder and of the log, arguments...
  cloison reproduce --all --quick --threads 1 --cards "$out/cards" --out "$out/run/$1" "${@:2}" >"$out/$1.log" 2>&1
}

finished() { find "$out/run/$1/cards" -name '*.json' 2>/dev/null | wc -l; } # folder

has_finished() { (($(finished "$1") >= $2)); } # folder, cards

summary_of() { grep -h 'cards computed' "$out/$1.log" || die "no summary in $out/$1.log"; }

same_files() { # folder: its cards and page are those of one process
  diff -r --exclude 'times*.json' --exclude models "$out/run/whole" "$out/run/$1" || die "$1 has other files than one process"
}

began=$SECONDS
say 'one process computes all cards, without a store'
sweep whole || die "failed; see $out/whole.log"
say "done in $((SECONDS - began)) s"

# ---- what cannot work is said before a card is computed -------------------------------------------------------------------------

refused() { # name, words that must be said, arguments...
  local name=$1 words=$2
  shift 2
  ! sweep "$name" "$@" || die "$name is not refused; see $out/$name.log"
  grep -Eq -- "$words" "$out/$name.log" || die "$name: not said: $words; see $out/$name.log"
  ! grep -Eq "$AWS_SECRET_ACCESS_KEY|topsecret" "$out/$name.log" || die "$name: a secret is in $out/$name.log"
  [[ ! -e "$out/run/$name" ]] || die "$name: files were written"
}

store=s3://sweeps/small
refused no-bucket 'store s3://nothere/a: there is no bucket nothere' --store s3://nothere/a
AWS_ACCESS_KEY_ID=AKIAUNKNOWN refused wrong-key "store $store: the credentials are refused \(InvalidAccessKeyId\)" --store "$store"
AWS_SECRET_ACCESS_KEY=topsecret refused wrong-secret "store $store: the credentials are refused \(SignatureDoesNotMatch\)" --store "$store"
AWS_ACCESS_KEY_ID=$'two\nlines' refused broken-key "AWS_ACCESS_KEY_ID .*line break" --store "$store"
AWS_ENDPOINT_URL="http://127.0.0.1:$(free_port)" refused no-server "store $store: cannot be reached .*AWS_ENDPOINT_URL" --store "$store"
AWS_ALLOW_HTTP=false refused no-http "store $store: .*AWS_ALLOW_HTTP" --store "$store"
refused key-in-address 'leave them out of the address' --store s3://key:topsecret@sweeps/small
say 'a wrong bucket, key, secret, address and scheme are refused, and no secret is shown'

# ---- two parts with a folder each -----------------------------------------------------------------------------------------------

sweep part-1 --shard 1/2 --store "$store" &
task=$!
sweep part-2 --shard 2/2 --store "$store" || die "failed; see $out/part-2.log"
wait "$task" || die "failed; see $out/part-1.log"
task=''
say "part 1: $(summary_of part-1)"
say "part 2: $(summary_of part-2)"
(($(s3 list small/cards/ | wc -l) == cells)) || die "not every card is an object: $(s3 list small/)"
for name in $(s3 list small/models/); do
  s3 get "$name" | cmp - "$out/run/whole/models/${name##*/}" || die "$name is another model"
done

sweep merged --store "$store" || die "failed; see $out/merged.log"
grep -q "cards computed: 0 .*from the store: $cells" "$out/merged.log" || die "the merge computed cards; see $out/merged.log"
same_files merged
say "merged: $(find "$out/run/merged" -type f ! -name 'times*.json' | wc -l) files are those of one process, byte for byte"

# ---- a part that is killed, and whose folder is lost ----------------------------------------------------------------------------

store=s3://sweeps/killed
cloison reproduce --all --quick --threads 1 --cards "$out/cards" --out "$out/run/killed" --shard 1/1 --store "$store" \
  >"$out/killed.log" 2>&1 &
task=$!
await 180 'the second card' has_finished killed 2
stop "$task" KILL
task=''
kept=$(s3 list killed/cards/ | wc -l)
((kept >= 1 && kept < cells)) || die "$kept of $cells cards are in the bucket: the part was killed too late or too early"
rm -rf "$out/run/killed"
sweep again --shard 1/1 --store "$store" || die "failed; see $out/again.log"
grep -q "cards computed: $((cells - kept)) .*from the store: $kept" "$out/again.log" || die "cards were computed again; see $out/again.log"
same_files again
say "a part was killed and its folder lost: $kept cards were taken from the bucket, $((cells - kept)) were computed"

# ---- damaged and foreign objects ------------------------------------------------------------------------------------------------

mapfile -t objects < <(s3 list killed/cards/)
s3 get "${objects[0]}" >"$out/run/object"
head -c 1000 "$out/run/object" | s3 put "${objects[0]}"
s3 get "${objects[2]}" | s3 put "${objects[1]}"
sweep mended --store "$store" || die "failed; see $out/mended.log"
grep -q "cards computed: 2 .*from the store: $((cells - 2))" "$out/mended.log" || die "see $out/mended.log"
s3 get "${objects[0]}" | cmp - "$out/run/object" || die 'a damaged object was not replaced'
same_files mended
say 'a cut object and one of another card were computed again and replaced'

# ---- a server that is killed in the middle --------------------------------------------------------------------------------------

store=s3://sweeps/lost
cloison reproduce --all --quick --threads 1 --cards "$out/cards" --out "$out/run/survived" --store "$store" >"$out/survived.log" 2>&1 &
task=$!
await 180 'the second card' has_finished survived 2
stop "$server" KILL
server=''
! wait "$task" || die "a run whose store was lost ended well; see $out/survived.log"
task=''
grep -q "not in the store $store, but all of them are in" "$out/survived.log" || die "see $out/survived.log"
same_files survived
start_server
mv "$out/survived.log" "$out/survived-first.log"
sweep survived --store "$store" || die "failed; see $out/survived.log"
grep -q "cards computed: 0 .*there already: $cells" "$out/survived.log" || die "cards were computed again; see $out/survived.log"
sweep afterwards --store "$store" || die "failed; see $out/afterwards.log"
grep -q "cards computed: 0 .*from the store: $cells" "$out/afterwards.log" || die "see $out/afterwards.log"
same_files afterwards
say 'the server was killed in the middle: all cards were in the folder, and the next run put them into the new one'
say "all in $SECONDS s"
