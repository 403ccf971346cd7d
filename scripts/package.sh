#!/usr/bin/env bash
# Has cargo pack and build `tickwheel`, its core and `tickwheel-util` as it would publish them (Rust 1.90 or newer), and
# uploads none; then tests the unpacked library by itself.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo publish --quiet --dry-run --allow-dirty --package tickwheel-core --package tickwheel --package tickwheel-util
# Together: what is packed alone needs a core that was published.
cargo package --quiet --allow-dirty --no-verify --package tickwheel-core --package tickwheel
version=$(cargo metadata --format-version 1 --no-deps | grep -o '"name":"tickwheel","version":"[^"]*"' | cut -d'"' -f8)
crate=$target/package/tickwheel-$version.crate
size=$(wc -c <"$crate")
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
tar --extract --gzip --file "$crate" --directory "$unpacked"
cd "$unpacked/tickwheel-$version"
# A package is no part of this workspace; it brings its own lock file. All files of a package are of the same day, so
# cargo would take what was built of an earlier one for up to date. Its core is not published. It lacks the
# dev-dependency on itself, whose feature the tests need.
printf '\n[patch.crates-io]\ntickwheel-core = { path = "%s/core" }\n' "$top" >>Cargo.toml
rm -rf "$target/package-test"
CARGO_TARGET_DIR=$target/package-test cargo test --quiet --features __internal,mio "$@"
files=$(find . -type f | wc -l)
printf 'tickwheel %s: %d KiB packed, %d files, its own tests pass\n' "$version" $((size / 1024)) "$files"
