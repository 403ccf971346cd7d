#!/usr/bin/env bash
# Drops the checks of the protocols, and moves their limits by one, one at a time, and explores scenarios until one
# fails. loom-tests/checks.tsv names each: file, the text before it, the check, what stands in its place, and the
# scenarios. What survives must stand in loom-tests/README.md, under "Dropped checks", with a reason, and nothing else may.
#
#   loom-tests/checks.sh            quick bounds; 40 minutes with JOBS=1
#   loom-tests/checks.sh NAME ...   only checks whose row contains NAME
#
# JOBS=1 explores one scenario at a time; without it, as many as there are cores.
#
# First each scenario runs as it is. One that fails then catches nothing: the script names it and ends.
#
# One build serves all: in a copy of the tree each check asks at run time whether it is the dropped one.
#
# What it has found stays in the target folder, by the hash of the program and the rows: stopped, it goes on where it
# was.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/loom-checks
# Always the same place, which the program names: its hash depends on that, too.
copy=$target/tree
rm -rf "$copy"
mkdir -p "$copy"
tar --create --exclude=./target --exclude=./fuzz/target --exclude=./.git --dereference . \
  | tar --extract --touch --directory "$copy" # or cargo takes an older file for what it has built
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
work=$target/checks-$(cat "$program" loom-tests/checks.tsv | sha256sum | cut -c1-12)
mkdir -p "$work"
rm -f "$work/wanted" "$work/broken"
names=$("$program" --list models:: | sed -n 's/^models::\(.*\): test$/\1/p')

# Explores a scenario without check number $1 (0: with all of them). Ends with 0 if it finds nothing, with 124 if it does
# not come to an end, and else with another status. Interrupted or killed, it has seen nothing: then xargs starts no
# other one.
explore() {
  local status=0
  # In a shell of its own, which is told of an abort instead of the terminal.
  (
    TICKWHEEL_DROPPED=$1 timeout 120 "$program" --test-threads=1 --exact "models::$2" >/dev/null 2>&1
    exit $?
  ) 2>/dev/null || status=$?
  [[ $status -ne 130 && $status -ne 137 && $status -ne 143 ]] || exit 255
  return "$status"
}

# Whether a row's scenarios contain this one.
is_named() {
  local part
  for part in $2; do [[ $1 == "$part"* ]] && return 0; done
  return 1
}

# Whether a scenario finds something although no check is dropped: then it catches nothing.
try_whole() {
  local status=0 begun=$EPOCHREALTIME
  [[ ! -e $work/whole-$1 ]] || return 0
  explore 0 "$1" || status=$?
  case $status in
    0) echo "$(((${EPOCHREALTIME/./} - ${begun/./} + 500) / 1000)) ms" >"$work/whole-$1" ;;
    124) echo "120000 ms, does not end" >"$work/whole-$1" ;;
    *) echo "fails without a dropped check: $1" | tee -a "$work/broken" ;;
  esac
}

# The scenarios that are named, the quickest first.
quickest_first() {
  local name
  for name in $names; do
    if is_named "$name" "$1"; then echo "$(<"$work/whole-$name") $name"; fi
  done | sort -n | awk '{ print $NF }'
}

# Explores the scenarios of row $1 until one notices that its check is gone. One that does not end has noticed nothing.
try_without() {
  local file before check instead scenarios name status verdict=SURVIVED unended=0
  [[ ! -e $work/result-$1 ]] || { cat "$work/result-$1"; return; }
  IFS=$'\t' read -r file before check instead scenarios < <(sed -n "$(($1 + 1))p" loom-tests/checks.tsv)
  for name in $(quickest_first "$scenarios"); do
    status=0
    explore "$1" "$name" || status=$?
    [[ $status -ne 124 ]] || { unended=$((unended + 1)); continue; }
    [[ $status -eq 0 ]] || { verdict="\`$name\`"; break; }
  done
  [[ $verdict != SURVIVED || $unended -eq 0 ]] || verdict="SURVIVED ($unended did not end)"
  # As a table of the README has it.
  printf '| `%s` | `%s` | `%s` | %s |\n' "$file" "${check//|/\\|}" "${instead//|/\\|}" "$verdict" | tee "$work/part-$1"
  mv "$work/part-$1" "$work/result-$1"
}
export program names work
export -f explore is_named quickest_first try_whole try_without

is_wanted() {
  local row=$1 part
  shift
  [[ $# -gt 0 ]] || return 0
  for part in "$@"; do [[ $row == *"$part"* ]] && return 0; done
  return 1
}

number=0 needed=
while IFS=$'\t' read -r file before check instead scenarios; do
  number=$((number + 1))
  is_wanted "$file $check $instead" "$@" || continue
  echo "$number" >>"$work/wanted"
  needed+=" $scenarios"
done < <(tail -n +2 loom-tests/checks.tsv)
[[ -s $work/wanted ]] || { echo "no check was found"; exit 1; }

for name in $names; do
  if is_named "$name" "$needed"; then echo "$name"; fi
done | xargs -P "$jobs" -I{} bash -c 'try_whole {}'
[[ ! -s $work/broken ]] || exit 1
unended=$(grep -l "does not end" "$work"/whole-* | wc -l || true)
echo "without a dropped check: $unended scenarios did not end, the others pass"

xargs -P "$jobs" -I{} bash -c 'try_without {}' <"$work/wanted"
while read -r number; do cat "$work/result-$number"; done <"$work/wanted" >"$work/results"

faults=0 survived=0
while IFS= read -r row; do
  [[ $row == *"| SURVIVED"* ]] || continue
  survived=$((survived + 1)) row="${row%| SURVIVED*}|"
  grep -qF -- "$row" loom-tests/README.md || { echo "no reason stands for it: $row"; faults=$((faults + 1)); }
done <"$work/results"
if [[ $# -eq 0 ]]; then
  # Up to the reason.
  reasoned=$(sed -n '/^## Dropped checks/,/^## [^D]/p' loom-tests/README.md | grep -oE '^(\| `[^`]+` ){3}\|')
  while IFS= read -r row; do
    grep -qF -- "$row SURVIVED" "$work/results" && continue
    echo "a model notices it, or it is not tried any more: $row"
    faults=$((faults + 1))
  done <<<"$reasoned"
fi
printf '\n%d checks dropped, %d survived, %d faults\n' "$(wc -l <"$work/results")" "$survived" "$faults"
[[ $faults -eq 0 ]]
