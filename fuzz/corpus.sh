#!/usr/bin/env bash
# Makes the committed corpus anew: past findings stay under their names, and to them comes the smallest set of inputs
# that reaches all code which is reached by the corpus as it is, by what earlier runs have found, and by a fresh run.
#
#   fuzz/corpus.sh [SECONDS_EACH] [TARGET...]
#
# The fresh run takes 60 seconds if nothing else is said. What covers a target is what libFuzzer counts as an edge; the
# set is chosen greedily, the input that adds most first. Inputs that are not named are called by their hash.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_TARGET_DIR="$PWD/target" CARGO_TERM_COLOR=never

seconds=${1:-60}
shift || true
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <(cargo +nightly fuzz list)

# The number of edges that the inputs of some folders reach.
edges() {
  local target=$1
  shift
  cargo +nightly fuzz run "$target" "$@" -- -runs=0 -use_counters=0 2>&1 |
    grep -oE 'cov: [0-9]+' | tail -n 1 | tr -dc 0-9
}

./run.sh "$seconds" "${targets[@]}"
for target in "${targets[@]}"; do
  old=corpus/$target found=target/found/$target new=target/cover/$target
  rm -rf "$new"
  mkdir -p "$new" "$found"
  before="$(find "$old" -type f | wc -l) inputs, $(edges "$target" "$old") edges"
  # What has a name of its own is in the set from the beginning.
  find "$old" -regextype posix-extended -type f ! -regex '.*/[0-9a-f]{12}' -exec cp {} "$new" \;
  cargo +nightly fuzz run "$target" "$new" "$old" "$found" -- \
    -set_cover_merge=1 -use_counters=0 -max_len=2048 -timeout=60 >"target/logs/$target.cover.log" 2>&1 ||
    { tail -n 40 "target/logs/$target.cover.log"; exit 1; }
  for input in "$new"/*; do
    name=$(basename "$input")
    [[ $name =~ ^[0-9a-f]{40}$ ]] && mv "$input" "$new/${name:0:12}"
  done
  after="$(find "$new" -type f | wc -l) inputs, $(edges "$target" "$new") edges"
  rm -r "$old"
  mv "$new" "$old"
  printf '%-18s before: %s; now: %s\n' "$target" "$before" "$after"
done
