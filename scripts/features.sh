#!/usr/bin/env bash
# Checks the library, its core, and `tickwheel-util`, with no feature, each one, each two of them, and all; warnings are errors.
#
#   scripts/features.sh          all of that
#   scripts/features.sh each     without the pairs, as CI does
set -euo pipefail
cd "$(dirname "$0")/.."

together=2
if [[ ${1-} == each ]]; then together=1; fi

# The features of a package, one a line.
features_of() {
  cargo metadata --format-version 1 --no-deps | grep -o "\"name\":\"$1\",\"version\".*" |
    grep -o '"features":{[^}]*}' | head -n 1 | grep -o '"[a-z_-]*":\[' | tr -d '":[' | grep -v '^default$\|^features$'
}

check() {
  local package=$1 combinations=0 features bits i list chosen
  mapfile -t features < <(features_of "$package")
  [[ ${#features[@]} -gt 0 ]] || { echo "no feature of $package was found"; exit 1; }
  for ((bits = 0; bits < 1 << ${#features[@]}; bits++)); do
    chosen=()
    for i in "${!features[@]}"; do
      if ((bits >> i & 1)); then chosen+=("${features[i]}"); fi
    done
    if ((${#chosen[@]} > together && ${#chosen[@]} < ${#features[@]})); then continue; fi
    list=$(IFS=,; echo "${chosen[*]-}")
    RUSTFLAGS="-D warnings" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/features \
      cargo check -q --package "$package" --lib --no-default-features --features "$list" ||
      { echo "$package with the features \"$list\""; exit 1; }
    combinations=$((combinations + 1))
  done
  echo "$package: $combinations combinations of ${features[*]}: no warning"
}

check tickwheel-core
check tickwheel
check tickwheel-util
