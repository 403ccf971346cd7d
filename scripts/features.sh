#!/usr/bin/env bash
# Checks the library with no feature, each one, each two of them, and all; warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t features < <(cargo metadata --format-version 1 --no-deps |
  grep -o '"name":"tickwheel","version".*' | grep -o '"features":{[^}]*}' | head -n 1 |
  grep -o '"[a-z-]*":\[' | tr -d '":[' | grep -v '^default$\|^features$')
[[ ${#features[@]} -gt 0 ]] || { echo "no feature was found"; exit 1; }
combinations=0
for ((bits = 0; bits < 1 << ${#features[@]}; bits++)); do
  chosen=()
  for i in "${!features[@]}"; do
    if ((bits >> i & 1)); then chosen+=("${features[i]}"); fi
  done
  if ((${#chosen[@]} > 2 && ${#chosen[@]} < ${#features[@]})); then continue; fi
  list=$(IFS=,; echo "${chosen[*]-}")
  RUSTFLAGS="-D warnings" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/features \
    cargo check -q --package tickwheel --lib --no-default-features --features "$list" ||
    { echo "with the features \"$list\""; exit 1; }
  combinations=$((combinations + 1))
done
echo "$combinations combinations of ${features[*]}: no warning"
