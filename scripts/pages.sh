#!/usr/bin/env bash
# Checks that each block of Rust on the pages compiles outside of this repository as it is shown. Each page becomes a
# package, whose manifest is what the page shows as TOML, or the README if it shows none. Beside the packages lies this
# repository, where these manifests look for it. Warnings are allowed: a block shows what it is about.
#
#   scripts/pages.sh           all pages
#   scripts/pages.sh TEXT      those whose path contains TEXT
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$repository/target}

outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
ln -s "$repository" "$outside/tickwheel"

# Writes each block of a page that is in one language to a file, named by the line where it begins.
blocks() {
  mkdir -p "$3"
  awk -v language="$2" -v folder="$3" '
    /^ *```/ {
      if (inside) { file = ""; inside = 0; next }
      inside = 1
      name = $0
      sub(/^ *```/, "", name)
      sub(/,.*/, "", name)
      if (name == language) file = folder "/line_" NR + 1
      next
    }
    file != "" { print >file }' "$1"
}

blocks README.md toml "$outside/manifest"
mapfile -t pages < <(git ls-files --cached --others --exclude-standard -- '*.md' | xargs grep -l '^```rust')
count=0
for page in "${pages[@]}"; do
  [[ $page == *"${1-}"* ]] || continue
  package=$outside/$(tr '/.' '__' <<<"${page%.md}")
  blocks "$page" rust "$package/src"
  blocks "$page" toml "$package/manifest"
  mkdir "$package/src/bin" "$package/tests"
  : >"$package/src/lib.rs"
  for block in "$package"/src/line_*; do
    if grep -q '^\(async \)\?fn main()' "$block"; then
      mv "$block" "$package/src/bin/${block##*/}.rs"
    elif grep -q '^#\[\(tokio::\)\?test\b' "$block"; then
      mv "$block" "$package/tests/${block##*/}.rs"
    else
      mv "$block" "$block.rs"
      echo "pub mod ${block##*/};" >>"$package/src/lib.rs"
    fi
    count=$((count + 1))
  done
  manifest=$package/manifest
  [[ -n $(ls "$manifest") ]] || manifest=$outside/manifest
  {
    printf '[workspace]\n\n[package]\nname = "page"\nversion = "0.0.0"\nedition = "2024"\n\n[lints.rust]\n'
    printf 'warnings = "allow"\n\n'
    cat "$manifest"/*
  } >"$package/Cargo.toml"
  # With the versions that are on this machine.
  lock=$(dirname "$page")/Cargo.lock
  [[ -e $lock ]] || lock=Cargo.lock
  cp "$lock" "$package"
  echo "$page"
  (cd "$package" && cargo check --quiet --offline --all-targets)
done
((count > 0)) || { echo "no page was found"; exit 1; }
echo "$count blocks of Rust compile outside of the repository"
