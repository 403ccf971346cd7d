#!/usr/bin/env bash
# What each choice of the design buys: builds the tree as it is and once per patch beside this script, which takes one
# choice back, and measures both, interleaved, with the comparison program. Prints a Markdown table of medians.
#
#   benches/ablations/run.sh             all patches, 5 repeats; about ten minutes on two cores
#   benches/ablations/run.sh REPEATS NAME...
#
# The second line of a patch names peers and figures ("peer: figure figure; peer: figure").
set -euo pipefail
cd "$(dirname "$0")/../.."
repeats=${1:-5}
[[ $repeats =~ ^[1-9][0-9]*$ ]] || { sed -n '2,9p' "$0"; exit 2; }
shift || true

base=$(realpath -m "${CARGO_TARGET_DIR:-target}")/ablations
mkdir -p "$base/bin"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar --create --exclude=./target --exclude=./fuzz/target --exclude=./.git --exclude=./mutants.out --dereference . |
  tar --extract --directory "$copy"
# A patch may leave code unused.
export CARGO_TARGET_DIR=$base CARGO_TERM_COLOR=never RUSTFLAGS="-A warnings"

build() {
  echo "building $1" >&2
  (cd "$copy" && cargo build --quiet --release -p tickwheel-benches --bin compare)
  cp "$base/release/compare" "$base/bin/$1"
}

patches=()
for patch in "$PWD"/benches/ablations/*.patch; do
  name=$(basename "$patch" .patch)
  if [[ $# -gt 0 ]]; then
    wanted=0
    for part in "$@"; do [[ $name == *"$part"* ]] && wanted=1; done
    [[ $wanted -eq 1 ]] || continue
  fi
  patches+=("$patch")
done

build as-it-is
for patch in "${patches[@]}"; do
  (cd "$copy" && patch --quiet --strip=1 --forward --no-backup-if-mismatch <"$patch")
  build "$(basename "$patch" .patch)"
  (cd "$copy" && patch --quiet --strip=1 --reverse --no-backup-if-mismatch <"$patch")
done

# The first metric of a run.
run() { "$base/bin/$1" child "$2" "$3" full | head -n 1; }
median() {
  sort -g | awk '{ v[NR] = $1 } END { printf "%.4g", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

echo "| taken back | peer | figure | unit | as it is | without |"
echo "|---|---|---|---|---:|---:|"
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch)
  what=$(sed -n '1s/^What: //p' "$patch")
  while read -r peer figures; do
    for figure in $figures; do
      with=() without=() unit=""
      for _ in $(seq "$repeats"); do
        IFS=$'\t' read -r unit value < <(run as-it-is "$figure" "${peer%:}") && with+=("$value")
        IFS=$'\t' read -r unit value < <(run "$name" "$figure" "${peer%:}") && without+=("$value")
      done
      printf '| %s | %s | %s | %s | %s | %s |\n' "$what" "${peer%:}" "$figure" "$unit" \
        "$(printf '%s\n' "${with[@]}" | median)" "$(printf '%s\n' "${without[@]}" | median)"
    done
  done < <(sed -n '2s/^Measured: //p' "$patch" | tr ';' '\n' | sed 's/^ *//')
done
