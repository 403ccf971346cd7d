#!/usr/bin/env bash
# How much of the library its tests run: lines, functions, regions and branches, by file.
#
#   scripts/coverage.sh [--html DIR | --all]
#
# Only tests under `cargo test` count, on this machine: not examples in the documentation, or the load program.
# `--all` also counts the fuzz targets' corpus and the loom models (quick bounds, stand-in epoch), and what any of the
# three reaches. What none reaches, and why: scripts/README.md.
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
if ! cargo llvm-cov --version >/dev/null 2>&1; then
  echo "cargo-llvm-cov is missing: cargo install --locked cargo-llvm-cov" >&2
  exit 3
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/coverage
toolchain=() branches=()
if rustc +nightly -vV 2>/dev/null | grep -q "^LLVM version: $major\."; then
  toolchain=(+nightly) branches=(--branch)
fi
library=(--ignore-filename-regex '(^|/)(tests|loom-tests|loadtest|examples|benches)/|/tests\.rs$|/checks\.rs$')

# Counters are atomic, because a lost count of one side of a branch looks like a run of the other side.
export RUSTFLAGS="${RUSTFLAGS-} -C llvm-args=-instrprof-atomic-counter-update-all"

cargo "${toolchain[@]}" llvm-cov clean --profraw-only
cargo "${toolchain[@]}" llvm-cov "${branches[@]}" --no-report --package tickwheel --package tickwheel-core --lib --tests
cargo "${toolchain[@]}" llvm-cov report "${branches[@]}" "${library[@]}" --package tickwheel --package tickwheel-core
if [[ ${1:-} == --html ]]; then
  cargo "${toolchain[@]}" llvm-cov report "${branches[@]}" "${library[@]}" --html --output-dir "$2"
fi
[[ ${1:-} == --all ]] || exit 0

((${#branches[@]})) || { echo "--all needs a nightly compiler of LLVM $major" >&2; exit 3; }
reached=$CARGO_TARGET_DIR/reached
rm -rf "$reached"
mkdir -p "$reached"/{fuzz,models}
cargo "${toolchain[@]}" llvm-cov report "${branches[@]}" "${library[@]}" --package tickwheel --package tickwheel-core \
  --lcov --output-path "$reached/tests.lcov"

# Builds a test program and returns its path: NAME CFG CARGO-ARGUMENTS... Build scripts write no profiles.
program() {
  CARGO_TARGET_DIR=$CARGO_TARGET_DIR/$1 RUSTFLAGS="$RUSTFLAGS -C instrument-coverage -Z coverage-options=branch $2" \
    LLVM_PROFILE_FILE=/dev/null cargo +nightly test --no-run "${@:3}" 2>&1 | tee >(cat >&2) |
    sed -n 's/.*Executable.*(\(.*\))$/\1/p'
}

# Exports what the runs of a program have reached: NAME PROGRAM
export_profiles() {
  "$LLVM_PROFDATA" merge --sparse "$reached/$1" -o "$reached/$1.profdata"
  "$LLVM_COV" export --format=lcov --instr-profile="$reached/$1.profdata" "$2" >"$reached/$1.lcov"
}

corpus=$(program fuzz '' --manifest-path fuzz/Cargo.toml --test corpus)
LLVM_PROFILE_FILE=$reached/fuzz/%p.profraw "$corpus" --quiet >"$reached/fuzz.log"
export_profiles fuzz "$corpus"

export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true TICKWHEEL_MODELS=quick
models=$(program models '--cfg tickwheel_loom --cfg tickwheel_epoch_stand_in' --release --package tickwheel --lib)
# Each model has a process, because threads of one process slow each other down at their common counters.
LLVM_PROFILE_FILE=/dev/null "$models" --list models:: | sed -n 's/: test$//p' |
  LLVM_PROFILE_FILE=$reached/models/%p.profraw xargs -P "$(nproc)" -n 1 "$models" --quiet --exact >"$reached/models.log"
export_profiles models "$models"

# Counts lines and outcomes of branches, once for all instances of generic code. Leaves out test modules, with which
# files end. The first input lists all lines and branches.
awk -F , -v src="$PWD/src/" -v core="$PWD/core/src/" '
  function count(name) {
    if (!((name, place) in seen)) n[name, kind]++
    seen[name, place]
  }
  function share(name, kind, of) {
    of = n["all", kind]
    return sprintf("%d of %d (%.1f %%)", n[name, kind], of, 100 * n[name, kind] / of)
  }
  FNR == 1 { name = FILENAME; gsub(/.*\/|\.lcov$/, "", name); names[++rows] = name }
  /^SF:/ {
    path = substr($0, 4)
    ours = (index(path, src) == 1 || index(path, core) == 1) && path !~ /\/\.\.\/|\/(tests|checks)\.rs$/
    end = 1
    while (ours && (getline line <path) > 0 && line !~ /^mod tests \{/) end++
    close(path)
  }
  ours && split($1, at, ":") == 2 && at[1] ~ /^(DA|BRDA)$/ && at[2] < end {
    kind = at[1]
    place = substr($0, 1, length($0) - length($NF)) path
    if (rows == 1) count("all")
    if ($NF > 0 && ("all", place) in seen) { count(name); count("any") }
  }
  END {
    names[++rows] = "any"
    for (row = 1; row <= rows; row++) {
      name = names[row]
      print name ": lines " share(name, "DA") ", branches " share(name, "BRDA")
    }
  }' "$reached"/{tests,fuzz,models}.lcov
