#!/usr/bin/env bash
# Mutation testing: cargo-mutants changes the library line by line in a copy and expects a test to notice.
#
#   scripts/mutants.sh [K/N] [cargo-mutants options]
#
# `K/N` runs the K-th of N parts, from 0/N on; the mutants are dealt out in turn, so that each part is a fair
# sample of all files. Without it everything runs, which takes hours. Which files and which tests:
# .cargo/mutants.toml. One file: scripts/mutants.sh --file src/turn.rs
#
# The results are under mutants.out/ (ignored by git): caught.txt, missed.txt, timeout.txt, unviable.txt.
# docs/TESTING.md explains every survivor that is known. Needs: cargo install --locked cargo-mutants
set -euo pipefail
cd "$(dirname "$0")/.."

part=()
if [[ ${1:-} =~ ^[0-9]+/[0-9]+$ ]]; then
  part=(--shard "$1" --sharding round-robin)
  shift
fi
# No debug information: a mutant is built once and linked into every test.
export CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_DEBUG=0 PROPTEST_CASES=${PROPTEST_CASES:-64}
# Nothing but the library is rebuilt in the copy; the checkout itself is never changed.
unset CARGO_TARGET_DIR
start=$SECONDS
status=0
nice -n 15 cargo mutants --jobs 1 --no-shuffle --colors never --output "${MUTANTS_OUT:-.}" "${part[@]}" "$@" ||
  status=$?
out=${MUTANTS_OUT:-.}/mutants.out
printf '\n%s caught, %s missed, %s timed out, %s did not compile; %s s\n' \
  "$(wc -l <"$out/caught.txt")" "$(wc -l <"$out/missed.txt")" \
  "$(wc -l <"$out/timeout.txt")" "$(wc -l <"$out/unviable.txt")" $((SECONDS - start))
cat "$out/missed.txt"
# 0: all caught; 2: some survived; 3: some timed out, which counts as noticed.
[[ $status -eq 3 ]] && status=0
exit "$status"
