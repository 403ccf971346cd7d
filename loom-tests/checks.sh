#!/usr/bin/env bash
# Drops the checks of the protocols, and moves their limits by one, one at a time, and explores scenarios until one
# fails. loom-tests/checks.tsv names each: file, the text before it, the check, what stands in its place, and the
# scenarios. What survives must stand in docs/TESTING.md, under "Checks", with a reason, and nothing else may.
#
#   loom-tests/checks.sh            quick bounds
#   loom-tests/checks.sh NAME ...   only checks whose row contains NAME
#
# First each scenario runs as it is. One that fails then catches nothing: the script names it and ends.
#
# One build serves all: in a copy of the tree each check asks at run time whether it is the dropped one.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/loom-checks
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar --create --exclude=./target --exclude=./fuzz/target --exclude=./.git --dereference . \
  | tar --extract --directory "$copy"
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS LOOM_MAX_PREEMPTIONS LOOM_MAX_BRANCHES LOOM_CHECKPOINT_FILE
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
export CARGO_PROFILE_RELEASE_DEBUG=0 RUST_BACKTRACE=0 TICKWHEEL_MODELS=quick
export CARGO_TARGET_DIR=$target RUSTFLAGS="--cfg tickwheel_loom --cfg tickwheel_epoch_stand_in -A warnings"

number=0
while IFS=$'\t' read -r file before check instead _; do
  number=$((number + 1))
  before=$(printf '%b.' "$before") before=${before%.}
  text=$(<"$copy/$file")
  rest=${text#*"$before$check"}
  [[ $rest != "$text" ]] || { echo "row $number does not apply: $file $check"; exit 1; }
  [[ ${rest#*"$before$check"} == "$rest" ]] || { echo "row $number applies twice: $file $check"; exit 1; }
  head=${text%%"$before$check"*}
  printf '%s\n' "$head$before(if crate::sync::explored::is_dropped($number) { $instead } else { $check })$rest" \
    >"$copy/$file"
done < <(tail -n +2 loom-tests/checks.tsv)

program=$(cd "$copy" && cargo test --release --package tickwheel --lib --no-run 2>&1 | tee /dev/stderr \
  | sed -n 's/.*(\(.*\))$/\1/p' | tail -1)
[[ $program == /* ]] || program=$copy/$program
names=$("$program" --list models:: | sed -n 's/^models::\(.*\): test$/\1/p')

# Whether a scenario finds nothing; one that does not end has found nothing, and is counted.
passes() {
  local code=0
  # In a shell of its own, which is told of an abort instead of the terminal.
  (
    TICKWHEEL_DROPPED=$1 timeout 120 "$program" --test-threads=1 --exact "models::$2" >/dev/null 2>&1
    exit $?
  ) 2>/dev/null || code=$?
  [[ $code -ne 124 ]] || unended=$((unended + 1))
  [[ $code -eq 0 || $code -eq 124 ]]
}

# Whether a row's scenarios contain this one.
is_named() {
  local part
  for part in $2; do [[ $1 == "$part"* ]] && return 0; done
  return 1
}

is_wanted() {
  local row=$1 part
  shift
  [[ $# -gt 0 ]] || return 0
  for part in "$@"; do [[ $row == *"$part"* ]] && return 0; done
  return 1
}

needed=$(tail -n +2 loom-tests/checks.tsv | while IFS=$'\t' read -r file before check instead scenarios; do
  is_wanted "$file $check $instead" "$@" && printf '%s ' "$scenarios"
done || true)
broken=0 unended=0
for name in $names; do
  is_named "$name" "$needed" || continue
  passes 0 "$name" || { echo "fails without a dropped check: $name"; broken=1; }
done
[[ $broken -eq 0 ]] || exit 1
echo "without a dropped check: $unended scenarios did not end, the others pass"

survivors=$(mktemp)
number=0 tried=0
while IFS=$'\t' read -r file before check instead scenarios; do
  number=$((number + 1))
  is_wanted "$file $check $instead" "$@" || continue
  tried=$((tried + 1)) verdict=SURVIVED unended=0
  for name in $names; do
    is_named "$name" "$scenarios" || continue
    passes "$number" "$name" || { verdict="\`$name\`"; break; }
  done
  [[ $verdict != SURVIVED || $unended -eq 0 ]] || verdict="SURVIVED ($unended did not end)"
  printf '| `%s` | `%s` | `%s` | %s |\n' "$file" "$check" "$instead" "$verdict"
  [[ $verdict != SURVIVED* ]] || printf '| `%s` | `%s` | `%s` |\n' "$file" "$check" "$instead" >>"$survivors"
done < <(tail -n +2 loom-tests/checks.tsv)

faults=0
while IFS= read -r row; do
  grep -qF -- "$row" docs/TESTING.md || { echo "no reason stands for it: $row"; faults=$((faults + 1)); }
done <"$survivors"
printf '\n%d checks dropped, %d survived, %d faults\n' "$tried" "$(wc -l <"$survivors")" "$faults"
rm -f "$survivors"
[[ $faults -eq 0 ]]
