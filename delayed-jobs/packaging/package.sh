#!/usr/bin/env bash
# Makes packages of delayed-jobs, so that a machine that runs nodes needs no compiler: an archive (tar.gz), and a .deb
# where dpkg-deb is.
#
#     packaging/package.sh [--program FILE] [FOLDER]
#
# FOLDER is this workspace's target/packages unless it is given. FILE is a program that was built before; without it cargo builds one,
# for the machine that this runs on.
set -euo pipefail
cd "$(dirname "$0")/.."
program=""
if [[ ${1:-} == --program ]]; then
  program=$2
  shift 2
fi
folder=$(realpath -m "${1:-target/packages}")
if [[ -z $program ]]; then
  cargo build --release --locked
  program=${CARGO_TARGET_DIR:-target}/release/delayed-jobs
fi
version=$("$program" --version | cut -d ' ' -f 2)
machine=$(uname -m)
mkdir -p "$folder"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/delayed-jobs-$version
install -D -m 755 "$program" "$root/usr/bin/delayed-jobs"
strip "$root/usr/bin/delayed-jobs" 2>/dev/null || echo "not stripped: there is no strip for it" >&2
install -D -m 644 -t "$root/usr/lib/systemd/system" packaging/delayed-jobs.service
install -D -m 644 -t "$root/usr/share/doc/delayed-jobs" README.md MY-JOB-DOES-NOT-COME.md ../LICENSE-APACHE ../LICENSE-MIT
install -D -m 644 -t "$root/usr/share/doc/delayed-jobs/operations" operations/*
../scripts/licences.sh Cargo.toml >"$root/usr/share/doc/delayed-jobs/THIRD-PARTY.txt"
install -D -m 755 -t "$root/usr/share/doc/delayed-jobs/examples" examples/worker.*
tar -C "$stage" --owner 0 --group 0 --sort name -czf "$folder/delayed-jobs-$version-$machine.tar.gz" "delayed-jobs-$version"
echo "$folder/delayed-jobs-$version-$machine.tar.gz"

command -v dpkg-deb >/dev/null || exit 0
architecture=$(dpkg --print-architecture)
# The oldest C library that the program runs with, as its own symbols say.
libc=$(grep -aoE 'GLIBC_2\.[0-9]+' "$program" | sort -uV | tail -n 1 | cut -d _ -f 2)
mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<EOF
Package: delayed-jobs
Version: $version
Architecture: $architecture
Maintainer: The tickwheel developers <tickwheel@localhost>
Section: net
Priority: optional
Depends: libc6 (>= ${libc:-2.17}), ca-certificates
Suggests: redis-server (>= 5:7.0)
Description: Delayed jobs that survive crashes and spread over nodes
 Redis keeps the jobs, and each node fires them on time. Services make them over
 HTTP, and consume them over HTTP, by a command or by a webhook. The unit for
 systemd is not enabled: it needs /etc/delayed-jobs.toml first.
EOF
dpkg-deb -Zgzip --root-owner-group --build "$root" "$folder/delayed-jobs_${version}_$architecture.deb" >/dev/null
echo "$folder/delayed-jobs_${version}_$architecture.deb"
