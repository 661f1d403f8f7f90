#!/usr/bin/env bash
# Downloads the public data sets and checks every file's sha256. Images come from the homes of MNIST and CIFAR, the others from the UCI
# Machine Learning Repository.
# Satellite, robot, bank and pendigits come with the project (data/). Licences: Creative Commons Attribution 4.0; cite the authors named on each set's page.
set -euo pipefail

base=${CLOISON_DATASETS_URL:-https://archive.ics.uci.edu/static/public}
# The first home of MNIST answers no longer; this is the copy that PyTorch's loader takes.
mnist_base=${CLOISON_MNIST_URL:-https://ossci-datasets.s3.amazonaws.com/mnist}
cifar_base=${CLOISON_CIFAR_URL:-https://www.cs.toronto.edu/~kriz}
all=(satellite robot bank adult pendigits grid drive credit mnist cifar10 cifar100)
others=(adult grid drive credit)

usage() {
  cat <<USAGE
usage: scripts/fetch-datasets.sh [--out DIR] [NAME...]

  NAME        ${all[*]}
              (default: the tables that do not come with the project, ${others[*]};
              mnist takes 12 MB, cifar10 and cifar100 take 170 MB each to download and 185 MB to keep)
  --out DIR   where to put DIR/NAME/... (default: \$CLOISON_DATA_DIR, or else datasets/ in the project)

Files that are there already and correct, plain or as .gz, are not downloaded again.
Use the result with --data-dir DIR or CLOISON_DATA_DIR=DIR.

environment: CLOISON_DATASETS_URL   a mirror of $base
             CLOISON_MNIST_URL      a mirror of $mnist_base
             CLOISON_CIFAR_URL      a mirror of $cifar_base
needs: curl, unzip, gzip, tar, sha256sum (or shasum); git for drive
USAGE
}

die() {
  echo "fetch-datasets: $*" >&2
  exit 1
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${CLOISON_DATA_DIR:-$root/datasets}
names=()
while (($#)); do
  case "$1" in
    --help | -h)
      usage
      exit 0
      ;;
    --out)
      (($# >= 2)) || { usage >&2; exit 2; }
      out=$2
      shift 2
      ;;
    -*)
      usage >&2
      exit 2
      ;;
    *)
      [[ " ${all[*]} " == *" $1 "* ]] || { echo "fetch-datasets: unknown data set '$1' (known: ${all[*]})" >&2; exit 2; }
      names+=("$1")
      shift
      ;;
  esac
done
((${#names[@]})) || names=("${others[@]}")

for tool in curl unzip gzip tar; do
  command -v "$tool" >/dev/null || die "'$tool' is not installed"
done
if command -v sha256sum >/dev/null; then
  sha256() { sha256sum | cut -d ' ' -f 1; }
elif command -v shasum >/dev/null; then
  sha256() { shasum -a 256 | cut -d ' ' -f 1; }
else
  die "neither sha256sum nor shasum is installed"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

present() { # path, sha256: there already, plain or compressed
  { [[ -f "$out/$1" ]] && [[ "$(sha256 <"$out/$1")" == "$2" ]]; } ||
    { [[ -f "$out/$1.gz" ]] && [[ "$(gzip -dc "$out/$1.gz" | sha256)" == "$2" ]]; }
}

download() { # URL: fetched once per run
  local url=$1
  [[ -f "$work/$(basename "$url")" ]] && return
  echo "fetch-datasets: downloading $url"
  curl --fail --location --silent --show-error --retry 3 --connect-timeout 20 --max-time 900 \
    --output "$work/part" "$url" || die "could not download $url"
  mv "$work/part" "$work/$(basename "$url")"
}

place() { # path under the output directory, file to put there: appears whole or not at all
  mkdir -p "$out/$(dirname "$1")"
  cp "$2" "$out/$1.part"
  mv "$out/$1.part" "$out/$1"
  echo "fetch-datasets: $1"
}

# One file: archive[!archive inside it], member, path under the output directory, sha256 of the content.
file() {
  local archive=$1 member=$2 path=$3 expected=$4 found zip
  if present "$path" "$expected"; then
    echo "fetch-datasets: $path is there"
    return
  fi
  download "$base/${archive%%!*}"
  zip="$work/$(basename "${archive%%!*}")"
  if [[ "$archive" == *!* ]]; then
    unzip -p "$zip" "${archive#*!}" >"$work/inner.zip" || die "no '${archive#*!}' in ${archive%%!*}"
    zip="$work/inner.zip"
  fi
  unzip -p "$zip" "$member" >"$work/member" || die "no '$member' in $archive"
  found=$(sha256 <"$work/member")
  [[ "$found" == "$expected" ]] || die "$member of $archive has sha256 $found, expected $expected: nothing was kept"
  place "$path" "$work/member"
}

# One file that is compressed by itself, and stays so: file without .gz, sha256 of the content.
mnist_file() {
  local name=$1 expected=$2 found
  if present "mnist/$name" "$expected"; then
    echo "fetch-datasets: mnist/$name is there"
    return
  fi
  download "$mnist_base/$name.gz"
  found=$(gzip -dc "$work/$name.gz" | sha256) || die "$name.gz cannot be unpacked"
  [[ "$found" == "$expected" ]] || die "$name has sha256 $found, expected $expected: nothing was kept"
  place "mnist/$name.gz" "$work/$name.gz"
}

# One file of an archive of the CIFARs: archive, member, path under the output directory, sha256 of the content.
cifar_file() {
  local archive=$1 member=$2 path=$3 expected=$4 found
  if present "$path" "$expected"; then
    echo "fetch-datasets: $path is there"
    return
  fi
  download "$cifar_base/$archive"
  tar -xzOf "$work/$archive" "$member" >"$work/member" || die "no '$member' in $archive"
  found=$(sha256 <"$work/member")
  [[ "$found" == "$expected" ]] || die "$member of $archive has sha256 $found, expected $expected: nothing was kept"
  place "$path" "$work/member"
}

satellite() {
  local archive='146/statlog+landsat+satellite.zip'
  file "$archive" sat.trn satellite/sat.trn e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613
  file "$archive" sat.tst satellite/sat.tst 4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479
}

robot() {
  file '194/wall+following+robot+navigation+data.zip' sensor_readings_24.data robot/sensor_readings_24.data \
    6e9728dedef8b35e31ba0be11aea85aa53bd248ab33652777df81b95a4cc8c00
}

bank() {
  file '222/bank+marketing.zip!bank-additional.zip' bank-additional/bank-additional-full.csv \
    bank/bank-additional-full.csv 74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8
}

adult() {
  file 2/adult.zip adult.data adult/adult.data 5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d
  file 2/adult.zip adult.test adult/adult.test a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05
}

pendigits() {
  local archive='81/pen+based+recognition+of+handwritten+digits.zip'
  file "$archive" pendigits.tra pendigits/pendigits.tra e2b9eb9f0d0467e2b64a4816a3420edf2b8043447576f4b84337aba44a9f97d3
  file "$archive" pendigits.tes pendigits/pendigits.tes 8bd03229c5c5291fefe43e45465dd948d2645bf23328b9d993e0b777666b2015
}

grid() {
  file '471/electrical+grid+stability+simulated+data.zip' Data_for_UCI_named.csv grid/Data_for_UCI_named.csv \
    7afc3154fed9cd65258b3403b60381fe6b0d832bf817a1ea4866395d05a84a83
}

# No sha256 of this file is published; the git blob id is, by many repositories that hold it.
drive() {
  local archive='325/dataset+for+sensorless+drive+diagnosis.zip' member=Sensorless_drive_diagnosis.txt
  local path="drive/$member" expected=9101c388dfa5ccd3bfbec96c00efe2b1d7c36f32 found
  command -v git >/dev/null || die "git is needed to check $member"
  if [[ -f "$out/$path" ]] && [[ "$(git hash-object --no-filters "$out/$path")" == "$expected" ]]; then
    echo "fetch-datasets: $path is there"
    return
  fi
  download "$base/$archive"
  unzip -p "$work/$(basename "$archive")" "$member" >"$work/member" || die "no '$member' in $archive"
  found=$(git hash-object --no-filters "$work/member")
  [[ "$found" == "$expected" ]] || die "$member has git blob id $found, expected $expected: nothing was kept"
  place "$path" "$work/member"
}

# UCI has a spreadsheet only; the usual CSV form of it is behind a login. It can be checked, not fetched.
credit() {
  local path=credit/UCI_Credit_Card.csv
  if present "$path" a0f0ab49d6326671d6cd83be5c88dcf18007025fe9a53ecd699119c871176ca1; then
    echo "fetch-datasets: $path is there"
    return
  fi
  cat >&2 <<NOTE
fetch-datasets: credit is not downloaded: its home (https://doi.org/10.24432/C55S3H) has it as a spreadsheet. The CSV form,
  UCI_Credit_Card.csv, is on Kaggle as uciml/default-of-credit-card-clients-dataset (needs an account). Put it at
  $out/$path and run this again to check it.
NOTE
}

mnist() {
  mnist_file train-images-idx3-ubyte ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
  mnist_file train-labels-idx1-ubyte 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
  mnist_file t10k-images-idx3-ubyte 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
  mnist_file t10k-labels-idx1-ubyte ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
}

cifar10() {
  local sums=(
    data_batch_1 cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5
    data_batch_2 a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed
    data_batch_3 bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67
    data_batch_4 014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48
    data_batch_5 755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add
    test_batch 8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b
  ) i
  for ((i = 0; i < ${#sums[@]}; i += 2)); do
    cifar_file cifar-10-binary.tar.gz "cifar-10-batches-bin/${sums[i]}.bin" "cifar10/${sums[i]}.bin" "${sums[i + 1]}"
  done
}

cifar100() {
  local archive=cifar-100-binary.tar.gz
  cifar_file "$archive" cifar-100-binary/train.bin cifar100/train.bin \
    f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29
  cifar_file "$archive" cifar-100-binary/test.bin cifar100/test.bin \
    d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a
}

for name in "${names[@]}"; do "$name"; done
