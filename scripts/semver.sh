#!/usr/bin/env bash
# Says what the public interface of `tickwheel` and `tickwheel-util` breaks since a commit, by cargo-semver-checks.
#
#   scripts/semver.sh           since the version was released: nothing may break until the next one
#   scripts/semver.sh COMMIT    since another commit
#
# As long as CHANGELOG.md says that the version is not released yet, its interface may still change, and nothing is
# compared without a COMMIT.
#
# To build the tool takes minutes, though nothing of it is optimized. Without a COMMIT a package is left out of which
# nothing has changed that its interface is made of: docs/api.txt, which a test keeps, for `tickwheel`; the sources for
# `tickwheel-util`.
#
# Ends with 100 if something breaks, whatever the versions announce: left to itself the tool checks nothing between two
# equal versions before 1.0.0. Needs: cargo install --locked cargo-semver-checks. Where it cannot be had, or where the
# history ends before that commit, the script says so and exits with 3.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
if [[ $# -eq 0 ]] && grep -qxF "## $version - not released yet" CHANGELOG.md; then
  echo "$version is not released yet: its interface may still change"
  exit 0
fi
since=${1-$(git log -1 --format=%h -G"^## $version - " -- CHANGELOG.md)}
if [[ -z $since ]]; then
  echo "not to be had here: the commit that released $version"
  exit 3
fi
packages=()
if [[ $# -gt 0 ]] || ! git diff --quiet "$since" -- docs/api.txt Cargo.toml core/Cargo.toml; then packages+=(--package tickwheel-core --package tickwheel); fi
if [[ $# -gt 0 ]] || ! git diff --quiet "$since" -- util/src util/Cargo.toml; then packages+=(--package tickwheel-util); fi
if [[ ${#packages[@]} -eq 0 ]]; then
  echo "no interface has changed since $since"
  exit 0
fi
tool=$(command -v cargo-semver-checks || true)
if [[ -z $tool ]]; then
  root=$(realpath -m "${CARGO_TARGET_DIR:-target}")/semver-tool
  tool=$root/bin/cargo-semver-checks
  [[ -x $tool ]] || CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$root/build \
    cargo install -q --debug --locked cargo-semver-checks --root "$root" ||
    { echo "not to be had here: cargo-semver-checks"; exit 3; }
  rm -rf "$root/build"
fi
echo "since $(git log -1 --format='%h %ad %s' --date=short "$since")"
"$tool" semver-checks "${packages[@]}" --baseline-rev "$since" --release-type minor
