#!/usr/bin/env bash
# Weakens the orderings of the library by one step, one at a time, and explores every scenario that meets the weakened
# operation until one fails. What survives must stand with a reason in docs/ORDERING.md, under "Needed by no model",
# and so must what no scenario meets; what stands there must be one or the other.
#
#   loom-tests/orderings.sh            quick bounds; an hour with JOBS=1
#   loom-tests/orderings.sh --full     survivors once more, with the full bounds; hours
#   loom-tests/orderings.sh NAME ...   only operations whose "file:line part ordering" contains NAME
#
# JOBS=1 explores one scenario at a time; without it, as many as there are cores.
#
# What it has found stays in the target folder, by the hash of the program: stopped, it goes on where it was.
#
# One build serves all: loom-tests/support/weakened.rs gives an operation another ordering at run time. It knows the
# operation by its line, or by the line of the caller where a function has `track_caller`: so each transition of the
# state word is weakened by itself.
set -euo pipefail
cd "$(dirname "$0")/.."

full=0
if [[ ${1-} == --full ]]; then
  full=1
  shift
fi
jobs=${JOBS:-$(nproc)}
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS LOOM_MAX_PREEMPTIONS LOOM_MAX_BRANCHES LOOM_CHECKPOINT_FILE
# The build of loom-tests/run.sh, so that both share it.
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
export CARGO_PROFILE_RELEASE_DEBUG=0
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom-stand-in RUST_BACKTRACE=0
export RUSTFLAGS="--cfg tickwheel_loom --cfg tickwheel_epoch_stand_in" TICKWHEEL_MODELS=quick
# Each runs as a process of its own.
scenario() { timeout 900 "$program" --test-threads=1 --nocapture --exact "models::$1"; }
export -f scenario

program=$(cargo test --release --package tickwheel --lib --no-run 2>&1 | tee /dev/stderr \
  | sed -n 's/.*(\(.*\))$/\1/p' | tail -1)
work=$CARGO_TARGET_DIR/orderings-$(sha256sum "$program" | cut -c1-12)
mkdir -p "$work"
results=$work/results-$([[ $full -eq 1 ]] && echo full || echo quick)
touch "$results"
export program work results
echo "the scenarios as they are, to see what each of them meets"
met() {
  [[ ! -e $work/met-$1 ]] || return 0
  TICKWHEEL_ORDERINGS=1 scenario "$1" >"$work/part-$1" 2>&1 || { cat "$work/part-$1"; exit 1; }
  mv "$work/part-$1" "$work/met-$1"
}
export -f met
"$program" --list models:: | sed -n 's/^models::\(.*\): test$/\1/p' \
  | xargs -P "$jobs" -I{} bash -c 'met {}'
# A test may explore several cases, which print under names of their own: seconds are the test's.
for file in "$work"/met-*; do
  seconds=$(grep -o 'seconds=.*' "$file" | cut -d= -f2 | awk '{ sum += $1 } END { print sum + 0 }')
  sed -n "s|.*ORDERING [^ ]* |$seconds ${file#"$work"/met-} |p" "$file"
done | sort -u >"$work/scenarios"

# Of an operation "file:line part ordering", each ordering that is one step weaker.
# Not those of the models themselves, which stand in for the standard library's.
awk '$3 ~ "^(core/)?src/" && $3 !~ "loom-tests" { print $3, $4, $5 }' "$work/scenarios" | sort -u | awk '
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
echo "$(wc -l <"$work/mutants") weaker orderings"

# The function that line $2 of file $1 stands in.
function_at() { head -n "$2" "$1" | grep -oE '\bfn [a-z_0-9]+' | tail -1 | cut -d' ' -f2; }
export -f function_at

# Says who notices that an operation is weaker, and by what. A search that does not come to an end is no proof.
try() {
  local at=$1 part=$2 from=$3 to=$4 bounds candidate verdict="" code unended=0
  local file=${at%:*} line=${at##*:}
  local log=$work/log-$BASHPID name="$at $part $from $to"
  grep -qF "| $name |" "$results" && return
  export TICKWHEEL_WEAKEN="$at $part $to"
  for bounds in quick $([[ $full -eq 1 ]] && echo full); do
    for candidate in $(awk -v at="$at" -v part="$part" '$3 == at && $4 == part { print $1, $2 }' \
      "$work/scenarios" | sort -n | cut -d' ' -f2 | uniq); do
      code=0
      TICKWHEEL_MODELS=$bounds scenario "$candidate" >"$log" 2>&1 || code=$?
      # Interrupted or killed: nothing was seen, and xargs starts no other one.
      [[ $code -ne 130 && $code -ne 137 && $code -ne 143 ]] || exit 255
      [[ $code -ne 124 ]] || { unended=$((unended + 1)); continue; }
      [[ $code -eq 0 ]] && continue
      verdict="\`$candidate\`: $(grep -v '^ *$' "$log" | grep -A1 -m1 'panicked at' | tail -1 | cut -c1-60)"
      break 2
    done
  done
  [[ -n $verdict ]] || verdict=SURVIVED
  [[ $unended -eq 0 ]] || verdict+=" ($unended did not end)"
  rm -f "$log"
  printf '%s\n' "| \`$file\` \`$(function_at "$file" "$line")\` | $part $from -> $to | $verdict | $name |" \
    | tee -a "$results"
}
export -f try
export full
xargs -P "$jobs" -L1 bash -c 'try "$@"' _ <"$work/mutants"
while read -r mutant; do grep -F "| $mutant |" "$results"; done <"$work/mutants" >"$work/results"
grep -F '| SURVIVED' "$work/results" | cut -d'|' -f2,3 | sort -u >"$work/survived" || true

# What is written with an ordering, outside of the tests, and is met by no scenario: loom does not see it at all.
# An operation may begin on an earlier line than its ordering.
echo
echo "met by no scenario:"
awk '{ print $3 }' "$work/scenarios" | sort -u >"$work/seen"
for file in $(grep -rlE 'Ordering::(Acquire|Release|AcqRel|SeqCst)' core/src src --include='*.rs' --exclude=tests.rs); do
  awk -v file="$file" '
    FNR == 1 { files++ }
    files == 1 { seen[$1] = 1; next }
    /^#\[cfg\(all\(test/ || /^mod tests/ { exit }
    # A function of the tests, among others.
    /^ +#\[cfg\(all\(test/ { end = $0; sub(/#.*/, "}", end) }
    end { if ($0 == end) end = ""; next }
    /^ *\/\// { next }
    /[.:][a-z_]*(load|store|swap|compare_exchange|fetch_[a-z]+)(_weak)?\(|fence\(/ { begins = FNR }
    /track_caller/ { by_caller = 1 }
    /^ *}$/ && by_caller == 2 { by_caller = 0 }
    /Ordering::(Acquire|Release|AcqRel|SeqCst)/ {
      # Met at the lines of the callers.
      if (by_caller) { by_caller = 2; next }
      if (!((file ":" begins) in seen) && !((file ":" FNR) in seen)) print file, begins
    }' "$work/seen" "$file"
done | sort -u | while read -r file line; do
  echo " \`$file\` \`$(function_at "$file" "$line")\` | met by no scenario "
done | sort -u >"$work/unmet"
if [[ $# -eq 0 ]]; then cat "$work/unmet"; else : >"$work/unmet"; fi

faults=0
# A row may name several functions of a file, and several parts: then it stands for each of each.
sed -n '/^## Needed by no model/,/^## [^N]/p' docs/ORDERING.md | awk -F'|' '/^\| `(core\/)?src\// {
  functions = split($2, name, " ")
  parts = split($3, part, ";")
  for (i = 2; i <= functions; i++) {
    for (j = 1; j <= parts; j++) {
      gsub(/^ +| +$/, "", part[j])
      print " " name[1] " " name[i] " | " part[j] " "
    }
  }
}' | sort >"$work/explained"
sort -u "$work/survived" "$work/unmet" >"$work/wanting"
while IFS= read -r row; do
  grep -qxF -- "$row" "$work/explained" || { echo "no reason stands for it:$row"; faults=$((faults + 1)); }
done <"$work/wanting"
if [[ $# -eq 0 ]]; then
  while IFS= read -r row; do
    grep -qxF -- "$row" "$work/wanting" && continue
    echo "a model needs it, although ORDERING.md says that none does:$row"
    faults=$((faults + 1))
  done <"$work/explained"
fi
printf '\n%d weakened, %d survived, %d faults\n' "$(wc -l <"$work/results")" \
  "$(grep -cF '| SURVIVED' "$work/results" || true)" "$faults"
[[ $faults -eq 0 ]]
