#!/usr/bin/env bash
# How much of the library its tests run: lines, functions, regions and branches, by file.
#
#   scripts/coverage.sh [--html DIR]
#
# Only tests under `cargo test` count, on this machine: not the loom models' explorations, the fuzz targets
# or the load program. What is not covered, and why: docs/TESTING.md.
#
# Needs cargo-llvm-cov (cargo install --locked cargo-llvm-cov) and LLVM tools that fit the compiler's LLVM, for
# example Debian's llvm-22. cargo-llvm-cov is told not to fetch any. Branches need the nightly compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_LLVM_COV_SETUP=no
major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
export LLVM_COV=${LLVM_COV:-/usr/bin/llvm-cov-$major} LLVM_PROFDATA=${LLVM_PROFDATA:-/usr/bin/llvm-profdata-$major}
for tool in "$LLVM_COV" "$LLVM_PROFDATA"; do
  if [[ ! -x $tool ]]; then
    echo "$tool is missing: apt-get install llvm-$major, or set LLVM_COV and LLVM_PROFDATA" >&2
    exit 3
  fi
done
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/coverage
toolchain=() branches=()
if rustc +nightly -vV 2>/dev/null | grep -q "^LLVM version: $major\."; then
  toolchain=(+nightly) branches=(--branch)
fi
library=(--ignore-filename-regex '(^|/)(tests|loom-tests|loadtest|examples|benches)/|/tests\.rs$|/checks\.rs$')

cargo "${toolchain[@]}" llvm-cov "${branches[@]}" --no-report --package tickwheel --lib --tests
cargo "${toolchain[@]}" llvm-cov report "${branches[@]}" "${library[@]}" --package tickwheel
if [[ ${1:-} == --html ]]; then
  cargo "${toolchain[@]}" llvm-cov report "${branches[@]}" "${library[@]}" --html --output-dir "$2"
fi
