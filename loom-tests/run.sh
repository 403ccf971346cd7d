#!/usr/bin/env bash
# Explores every scenario of loom-tests/models with loom, and fails if one fails or if none was found.
#
#   loom-tests/run.sh            with the full bounds; long, see loom-tests/results.tsv, where it writes what it did
#   loom-tests/run.sh --quick    smaller bounds, for every change; four minutes after the build
#   loom-tests/run.sh NAME ...   only scenarios whose path contains NAME, for example `inbox::push_or_retire`
#
# Two builds, each in a target folder of its own (cargo does not notice a change of these flags in one):
# with the stand-in for the epoch, which allows three threads, and with the real crossbeam-epoch, for what
# uses it and has two threads.
set -euo pipefail
cd "$(dirname "$0")/.."

export TICKWHEEL_MODELS=full
if [[ ${1-} == --quick ]]; then
  export TICKWHEEL_MODELS=quick
  shift
fi
target=${CARGO_TARGET_DIR:-target}
log=$(mktemp) results=$(mktemp) expected=$(mktemp)
trap 'rm -f "$log" "$results" "$expected"' EXIT
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
git diff --quiet HEAD -- core src loom-tests/models loom-tests/support Cargo.toml Cargo.lock 2>/dev/null || commit+=+
# Loom reads these from the environment. The first two end a search early and let it pass; the harness
# ignores them, but nobody should believe otherwise.
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS LOOM_MAX_PREEMPTIONS LOOM_MAX_BRANCHES LOOM_CHECKPOINT_FILE
# Optimised, because loom runs millions of executions; checked, because that is what it is for.
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
export CARGO_PROFILE_RELEASE_DEBUG=0

explore() {
  local epoch=$1 flags=$2
  shift 2
  local run=(cargo test --quiet --release --package tickwheel --lib --)
  local names=("${@/#/models::}")
  [[ $# -gt 0 ]] || names=(models::)
  export CARGO_TARGET_DIR=$target/loom-$epoch RUSTFLAGS="--cfg tickwheel_loom $flags"

  printf '\n%s epoch, %s bounds\n' "$epoch" "$TICKWHEEL_MODELS"
  "${run[@]}" --list "${names[@]}" | sed -n 's/^models::\(.*\): test$/\1/p' | sort >"$expected"
  if ! "${run[@]}" --nocapture "${names[@]}" >"$log" 2>&1; then
    cat "$log"
    echo "a scenario failed ($epoch epoch)"
    exit 1
  fi
  { grep -o 'MODEL .*' "$log" || true; } | sort | awk '{
    for (i = 3; i <= NF; i++) { split($i, part, "="); field[i] = part[2] }
    if (NR == 1) printf "%-56s %7s %6s %11s %8s\n", "scenario", "threads", "bound", "executions", "seconds"
    printf "%-56s %7s %6s %11s %8s\n", $2, field[3], field[4], field[5], field[6]
  }'
  [[ $TICKWHEEL_MODELS == quick ]] || record "$epoch" "$@"
  local missing
  missing=$({ grep -o 'MODEL [^ ]*' "$log" || true; } | cut -d ' ' -f 2 | sort | comm -23 "$expected" -)
  if [[ -n $missing ]]; then
    echo "scenarios that were not explored under their names ($epoch epoch):"
    echo "$missing"
    exit 1
  fi
  total=$((total + $(wc -l <"$expected")))
}

# Replaces the rows of what was explored: all of this epoch, or those whose names match.
record() {
  local epoch=$1 table=loom-tests/results.tsv
  shift
  {
    echo $'epoch\tmodel\tthreads\tbound\texecutions\tseconds\tcommit'
    {
      { grep -o 'MODEL .*' "$log" || true; } | awk -v epoch="$epoch" -v commit="$commit" -v OFS='\t' '{
        for (i = 3; i <= NF; i++) { split($i, part, "="); field[i] = part[2] }
        print epoch, $2, field[3], field[4], field[5], field[6], commit
      }'
      awk -F '\t' -v epoch="$epoch" -v names="$*" 'NR > 1 {
        explored = names == ""
        split(names, name, " ")
        for (i in name) explored = explored || index($2, name[i])
        if ($1 != epoch || !explored) print
      }' "$table"
    } | sort
  } >"$results"
  cp "$results" "$table"
}

total=0
explore stand-in "--cfg tickwheel_epoch_stand_in" "$@"
explore real "--cfg crossbeam_loom" "$@"
if [[ $total -eq 0 ]]; then
  echo "no scenario was found"
  exit 1
fi
printf '\n%d scenarios, all passed\n' "$total"
