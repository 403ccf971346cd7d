#!/usr/bin/env bash
# Runs the tests of foreign crates with tickwheel-util under them, and prints a row for each: the lines that
# `scripts/foreign/NAME-VERSION.patch` changes, and what passes. A row that docs/LIBRARIES.md has otherwise is an error. The crates come from the registry, and what
# their tests need besides comes in its newest versions. Takes 5 minutes on two free cores.
#
#   scripts/foreign.sh [FOLDER]      where to work; a temporary one unless it is given
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
work=$(realpath -m "${1:-$(mktemp -d)}")
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$work/target}

# Packages, and the features that their tests need. deadpool's timer is in deadpool-runtime, which has no tests.
crates=(bb8-0.9.1 deadpool-0.12.3 deadpool-runtime-0.1.4 futures-timer-3.0.4 tokio-retry-0.3.2 tokio-stream-0.1.19
  tower-0.5.3)
declare -A features=([deadpool]="--features rt_tokio_1" [tokio-stream]=--all-features [tower]=--all-features)

rm -rf "$work/fetched" "$work/crates"
mkdir -p "$work/fetched/src" "$work/crates"
: >"$work/fetched/src/lib.rs"
{
  printf '[package]\nname = "fetched"\nversion = "0.0.0"\n\n[workspace]\n\n[dependencies]\n'
  for crate in "${crates[@]}"; do echo "${crate%-*} = \"=${crate##*-}\""; done
} >"$work/fetched/Cargo.toml"
cargo fetch --quiet --manifest-path "$work/fetched/Cargo.toml"

for crate in "${crates[@]}"; do
  source=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -mindepth 2 -maxdepth 2 -name "$crate" | head -n 1)
  cp -r "$source" "$work/crates/$crate"
  chmod -R u+w "$work/crates/$crate"
  rm -f "$work/crates/$crate/Cargo.lock"
  patch=scripts/foreign/$crate.patch
  if [[ -e $patch ]]; then patch --quiet -p1 --directory "$work/crates/$crate" <"$patch"; fi
done
{
  printf '[workspace]\nresolver = "2"\nmembers = ['
  printf '"%s", ' "${crates[@]}"
  printf ']\n\n[patch.crates-io]\ntickwheel = { path = "%s" }\n' "$repository"
  printf 'tickwheel-util = { path = "%s/util" }\n' "$repository"
  # Whatever crate of these another one uses is the patched one.
  for crate in "${crates[@]}"; do echo "${crate%-*} = { path = \"$crate\" }"; done
  printf '\n[profile.dev]\ndebug = 0\n'
} >"$work/crates/Cargo.toml"

cd "$work/crates"
bad=0
for crate in "${crates[@]}"; do
  name=${crate%-*}
  [[ $name != deadpool-runtime ]] || continue
  # Some tests allow a sleep of theirs few milliseconds more, which a busy machine takes.
  for try in 1 2 3; do
    # shellcheck disable=SC2086 # several words
    if cargo test --no-fail-fast --lib --tests -p "$name" ${features[$name]-} >"$work/$crate.log" 2>&1; then break; fi
    [[ $try != 3 ]] || bad=1
  done
  patches=("$repository/scripts/foreign/$crate"*.patch)
  [[ $name != deadpool ]] || patches=("$repository"/scripts/foreign/deadpool-runtime-*.patch)
  changed=$(cat "${patches[@]}" | grep -c '^+[^+]')
  row=$(awk -v crate="${crate%-*} ${crate##*-}" -v changed="$changed" '
    /^test result:/ { ok += $4; failed += $6 }
    END { printf "| %s | %d | %d | %d |\n", crate, changed, ok + failed, ok }' "$work/$crate.log")
  echo "$row"
  grep -qxF "$row" "$repository/docs/LIBRARIES.md" || { echo "docs/LIBRARIES.md has no such row"; bad=1; }
  grep -E '^(error|test .* FAILED)' "$work/$crate.log" || true
done
exit $bad
