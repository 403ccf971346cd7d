#!/usr/bin/env bash
# Weakens the orderings of the library by one step, one at a time, and explores every scenario that meets the weakened
# operation until one fails. What survives must stand with a reason in docs/ORDERING.md, under "Needed by no model",
# and what stands there must survive.
#
#   loom-tests/orderings.sh            quick bounds; about half an hour on two cores
#   loom-tests/orderings.sh --full     survivors once more, with the bounds of loom-tests/README.md; hours
#   loom-tests/orderings.sh NAME ...   only operations of files whose path contains NAME
#
# One build serves all: src/sync/weakened.rs gives an operation another ordering at run time.
set -euo pipefail
cd "$(dirname "$0")/.."

full=0
if [[ ${1-} == --full ]]; then
  full=1
  shift
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS LOOM_MAX_PREEMPTIONS LOOM_MAX_BRANCHES LOOM_CHECKPOINT_FILE
# The build of loom-tests/run.sh, so that both share it.
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
export CARGO_PROFILE_RELEASE_DEBUG=0
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom-stand-in RUST_BACKTRACE=0
export RUSTFLAGS="--cfg tickwheel_loom --cfg tickwheel_epoch_stand_in" TICKWHEEL_MODELS=quick
# Each runs as a process of its own, as many at once as there are cores.
scenario() { timeout 900 "$program" --test-threads=1 --nocapture --exact "models::$1"; }
export -f scenario

program=$(cargo test --release --package tickwheel --lib --no-run 2>&1 | tee /dev/stderr |
  sed -n 's/.*(\(.*\))$/\1/p' | tail -1)
export program work
echo "the scenarios as they are, to see what each of them meets"
met() { TICKWHEEL_ORDERINGS=1 scenario "$1" >"$work/met-$1" 2>&1 || { cat "$work/met-$1"; exit 1; }; }
export -f met
"$program" --list models:: | sed -n 's/^models::\(.*\): test$/\1/p' | xargs -P "$(nproc)" -I{} bash -c 'met {}'
grep -h -o 'ORDERING .*' "$work"/met-* >"$work/met"
# A test may explore several cases, which print under names of their own: seconds are the test's.
for file in "$work"/met-*; do
  seconds=$(grep -o 'seconds=.*' "$file" | cut -d= -f2 | awk '{ sum += $1 } END { print sum + 0 }')
  sed -n "s|.*ORDERING [^ ]* |$seconds ${file#"$work"/met-} |p" "$file"
done | sort -u >"$work/scenarios"

# Of an operation "file:line part ordering", each ordering that is one step weaker.
awk '{ print $3, $4, $5 }' "$work/scenarios" | sort -u | awk '
  function weaker(to) { print $1, $2, $3, to }
  $3 == "SeqCst" && $2 == "load" { weaker("Acquire") }
  $3 == "SeqCst" && $2 == "failure" { weaker("Acquire") }
  $3 == "SeqCst" && $2 == "store" { weaker("Release") }
  $3 == "SeqCst" && ($2 == "exchange" || $2 == "fence") { weaker("AcqRel") }
  $3 == "AcqRel" && $2 == "exchange" { weaker("Acquire"); weaker("Release") }
  $3 == "Acquire" || $3 == "Release" { weaker("Relaxed") }
' >"$work/mutants"
if [[ $# -gt 0 ]]; then
  for part in "$@"; do grep -F "$part" "$work/mutants" || true; done | sort -u >"$work/wanted"
  mv "$work/wanted" "$work/mutants"
fi
[[ -s $work/mutants ]] || { echo "no operation was found"; exit 1; }

# Says which function an operation stands in, and who notices that it is weaker.
try() {
  local at=$1 part=$2 from=$3 to=$4 bounds=quick caught=""
  local file=${at%:*} line=${at##*:}
  local name
  name=$(head -n "$line" "$file" | grep -oE '\bfn [a-z_0-9]+' | tail -1 | cut -d' ' -f2)
  export TICKWHEEL_WEAKEN="$at $part $to"
  for bounds in quick $([[ $full -eq 1 ]] && echo full); do
    for candidate in $(awk -v at="$at" -v part="$part" '$3 == at && $4 == part { print $1, $2 }' "$work/scenarios" |
      sort -n | cut -d' ' -f2 | uniq); do
      if ! TICKWHEEL_MODELS=$bounds scenario "$candidate" >/dev/null 2>&1; then
        caught="$candidate"
        break 2
      fi
    done
  done
  printf '%s\n' "| \`$file\` \`$name\` | $part $from -> $to | ${caught:-SURVIVED} |" | tee -a "$work/results"
}
export -f try
export full
xargs -P "$(nproc)" -L1 bash -c 'try "$@"' _ <"$work/mutants"

# Operations with an ordering that no scenario meets: loom does not see them at all.
echo
echo "met by no scenario:"
grep -rnE 'Ordering::(Acquire|Release|AcqRel|SeqCst)' src --include='*.rs' | cut -d: -f1,2 | sort -u >"$work/written"
awk '{ print $3 }' "$work/scenarios" | sort -u >"$work/seen"
comm -23 "$work/written" "$work/seen" | cut -d: -f1 | uniq -c

faults=0
grep 'SURVIVED' "$work/results" | cut -d'|' -f2,3 | sort >"$work/survived" || true
sed -n '/^## Needed by no model/,/^## [^O]/p' docs/ORDERING.md | grep -E '^\| `src/' | cut -d'|' -f2,3 |
  sort >"$work/explained" || true
while IFS= read -r row; do
  grep -qxF -- "$row" "$work/explained" || { echo "no reason stands for it:$row"; faults=$((faults + 1)); }
done < <(sort -u "$work/survived")
if [[ $# -eq 0 ]]; then
  while IFS= read -r row; do
    grep -qxF -- "$row" "$work/survived" ||
      { echo "a model needs it, although ORDERING.md says that none does:$row"; faults=$((faults + 1)); }
  done <"$work/explained"
fi
printf '\n%d weakened, %d survived, %d faults\n' "$(wc -l <"$work/results")" "$(wc -l <"$work/survived")" "$faults"
[[ $faults -eq 0 ]]
