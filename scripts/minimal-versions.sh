#!/usr/bin/env bash
# Resolves every direct dependency of the library to the lowest version that its Cargo.toml allows, and builds library,
# tests and loom models with these.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/minimal-versions
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar --create --exclude=./target --exclude=./fuzz/target --exclude=./.git . | tar --extract --directory "$copy"
cd "$copy"
# The other members are not published; their bounds bind nobody.
sed -i -e 's/^members = .*/members = []/' -e 's/^default-members = .*/default-members = ["."]/' \
  -e 's/^exclude = .*/exclude = ["fuzz", "loadtest", "benches"]/' Cargo.toml
rm Cargo.lock
# The option is unstable in cargo; the compiler stays the installed one.
RUSTC_BOOTSTRAP=1 cargo update -q -Z direct-minimal-versions
CARGO_TARGET_DIR=$target cargo check -q --all-targets
CARGO_TARGET_DIR=$target-loom RUSTFLAGS="--cfg tickwheel_loom --cfg tickwheel_epoch_stand_in" \
  cargo check -q --lib --tests
echo "the lowest versions build:"
cargo tree --depth 1 -e normal,dev --prefix none | sed 's/ (\/.*//' | sort -u
