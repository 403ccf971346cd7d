#!/usr/bin/env bash
# Makes the committed corpus anew, twelve inputs per target: past findings stay under their names, and to them come the
# inputs that reach most, of the corpus as it is, of what earlier runs have found, and of a fresh run.
#
#   fuzz/corpus.sh [SECONDS_EACH] [TARGET...]
#
# The fresh run takes 60 seconds if nothing else is said. What covers a target is what libFuzzer counts as an edge; the
# input that adds most comes first. Inputs that are not named are called by their hash.
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
  control=$PWD/target/logs/$target.control log=target/logs/$target.cover.log
  rm -f "$control"
  mkdir -p "target/cover/$target.all"
  cargo +nightly fuzz run "$target" "target/cover/$target.all" "$old" "$found" -- -merge=1 -use_counters=0 \
    -max_len=2048 -timeout=60 -merge_control_file="$control" >"$log" 2>&1 || { tail -n 40 "$log"; exit 1; }
  rm -r "target/cover/$target.all"
  # The control file: a count, a line, the inputs, then "FT <number of the input> <edges>".
  awk -v most=12 -v named="$(find "$new" -type f | wc -l)" '
    NR == 1 { count = $1 }
    NR > 2 && NR <= 2 + count { file[NR - 3] = $0 }
    $1 == "FT" { for (i = 3; i <= NF; i++) edges[$2] = edges[$2] " " $i }
    function gain(input, mark,   n, i, one, new) {
      n = split(edges[input], one, " ")
      for (i = 1; i <= n; i++) if (!(one[i] in seen)) { new++; if (mark) seen[one[i]] = 1 }
      return new + 0
    }
    END {
      for (input in file) { name = file[input]; sub(/.*\//, "", name); if (name ~ /[^0-9a-f]/) gain(input, 1) }
      for (; named < most; named++) {
        best = 0
        for (input in file) if ((more = gain(input, 0)) > best) { best = more; chosen = input }
        if (best == 0) exit
        gain(chosen, 1)
        print file[chosen]
      }
    }' "$control" | while read -r input; do
    name=$(basename "$input")
    cp "$input" "$new/${name:0:12}"
  done
  after="$(find "$new" -type f | wc -l) inputs, $(edges "$target" "$new") edges"
  rm -r "$old"
  mv "$new" "$old"
  printf '%-18s before: %s; now: %s\n' "$target" "$before" "$after"
done
