#!/usr/bin/env bash
# Says what the public interface of `tickwheel` and `tickwheel-util` breaks since a commit, by cargo-semver-checks.
#
#   scripts/semver.sh [COMMIT]      by default the last release's tag; before the first there is nothing to break
#
# Ends with 100 if something breaks that the versions do not announce: before 1.0 a minor version may break names, later
# a major one. While both have the same version, each break counts.
# Needs: cargo install --locked cargo-semver-checks. Where it cannot be had the script says so and exits with 3.
set -euo pipefail
cd "$(dirname "$0")/.."

since=${1-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)}
if [[ -z $since ]]; then
  echo "no release yet: name a commit to compare with it"
  exit 0
fi
tool=$(command -v cargo-semver-checks || true)
if [[ -z $tool ]]; then
  root=$(realpath -m "${CARGO_TARGET_DIR:-target}")/semver-tool
  tool=$root/bin/cargo-semver-checks
  [[ -x $tool ]] || CARGO_TARGET_DIR=$root/build cargo install -q --locked cargo-semver-checks --root "$root" ||
    { echo "not to be had here: cargo-semver-checks"; exit 3; }
  rm -rf "$root/build"
fi
echo "since $(git log -1 --format='%h %ad %s' --date=short "$since")"
"$tool" semver-checks --package tickwheel --package tickwheel-util --baseline-rev "$since"
