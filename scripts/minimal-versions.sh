#!/usr/bin/env bash
# Resolves every direct dependency of the library and of tickwheel-util to the lowest version that its Cargo.toml allows,
# and builds library, tests, loom models and tickwheel-util with these.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/minimal-versions
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar --create --exclude=./target --exclude=./fuzz/target --exclude=./.git . | tar --extract --directory "$copy"
cd "$copy"
# The other members are not published; their bounds bind nobody.
sed -i -e 's/^members = .*/members = ["core", "util"]/' -e 's/^default-members = .*/default-members = ["."]/' \
  -e 's/^exclude = .*/exclude = ["fuzz", "loadtest", "benches"]/' Cargo.toml
cp Cargo.toml whole.toml
# What only tests need is left out of a manifest: it may ask for more of the same crate.
without_tests() { awk '/^\[/ { skipped = /dev-dependencies/ } !skipped' "$1"; }
# The option is unstable in cargo; the compiler stays the installed one.
lowest() {
  rm -f Cargo.lock
  RUSTC_BOOTSTRAP=1 cargo update -q -Z direct-minimal-versions
}

without_tests util/Cargo.toml >util/lean.toml
mv util/lean.toml util/Cargo.toml
without_tests whole.toml >Cargo.toml
lowest
CARGO_TARGET_DIR=$target cargo check -q --package tickwheel-util --lib --all-features
echo "the lowest versions build tickwheel-util:"
cargo tree --package tickwheel-util --all-features --depth 1 -e normal --prefix none | sed 's/ (\/.*//' | sort -u

mv whole.toml Cargo.toml
sed -i 's/^members = .*/members = ["core"]/; s/"benches"/"benches", "util"/' Cargo.toml
lowest
CARGO_TARGET_DIR=$target cargo check -q --all-targets
CARGO_TARGET_DIR=$target-loom RUSTFLAGS="--cfg tickwheel_loom --cfg tickwheel_epoch_stand_in" \
  cargo check -q --lib --tests
echo "the lowest versions build tickwheel:"
cargo tree --depth 1 -e normal,dev --prefix none | sed 's/ (\/.*//' | sort -u
