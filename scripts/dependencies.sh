#!/usr/bin/env bash
# What the dependencies may be: every licence is one that does not bind users of the library, nothing comes from
# anywhere but the registry, and the library uses all that it asks for.
#
# Not checked: advisories. Their list is fetched from a server that this must not need; where it can be reached,
# `cargo audit` reads the same lock files.
set -euo pipefail
cd "$(dirname "$0")/.."

allowed='MIT|Apache-2\.0|Apache-2\.0 WITH LLVM-exception|BSD-2-Clause|BSD-3-Clause|ISC'
allowed+='|CDLA-Permissive-2\.0|Unicode-3\.0'
allowed+='|Zlib|Unlicense|BSL-1\.0|0BSD|CC0-1\.0'
workspaces=("" delayed-jobs/)
locks=("${workspaces[@]/%/Cargo.lock}")
# Apart from the loop below, so that a tree that cannot be read ends this.
packages=$(for workspace in "${workspaces[@]}"; do
  cargo tree --manifest-path "${workspace}Cargo.toml" --locked --workspace -e normal,build,dev --target all \
    --prefix none --format '{l}|{p}' || exit
done |
  sed 's/ (\*)$//; /^$/d' | sort -u)
# An expression is allowed if one side of its every `OR` is; `A AND B` needs both.
refused=0
while IFS='|' read -r licence package; do
  fine=0
  while read -r choice; do
    all=1
    while read -r part; do
      [[ $part =~ ^($allowed)$ ]] || all=0
    done < <(sed 's/ AND /\n/g' <<<"$choice" | tr -d '()' | sed 's/^ *//; s/ *$//')
    ((all)) && fine=1
  done < <(sed 's/ OR /\n/g; s#/#\n#g' <<<"$licence")
  # It writes c/include/tickwheel.h, and is part of nothing that is built.
  if [[ $licence == MPL-2.0 && $package == cbindgen\ * ]]; then fine=1; fi
  if ((!fine)); then
    echo "the licence of $package is not among those allowed: ${licence:-none is named}"
    refused=1
  fi
done <<<"$packages"
((refused)) && exit 1

if grep -h '^source = ' "${locks[@]}" | grep -v '"registry+https://github.com/rust-lang/crates.io-index"'; then
  echo "these sources are not the registry"
  exit 1
fi

export RUSTFLAGS="-D unused-crate-dependencies" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/unused
cargo check -q --package tickwheel-core --package tickwheel --lib
count=$(grep -h -A 1 '^name = ' "${locks[@]}" | grep -v '^--' | paste - - | sort -u | wc -l)
echo "$count packages: licences allowed, all from the registry; the library uses each of its own"
