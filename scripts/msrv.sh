#!/usr/bin/env bash
# Builds the library, what is promised of its companions, and the README's two commands with the oldest compiler that we
# promise, Rust 1.85.
#
# The compiler comes from Debian's packages and is unpacked below target/, so the installed toolchain stays as it is.
# Where it cannot be had (another system, no packages), the script says so and exits with 3.
#
#   scripts/msrv.sh            check with all tests, then build both commands
#   scripts/msrv.sh check      check the libraries and the first command, as CI does
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/target/msrv
unpacked=$root/unpacked
mkdir -p "$root/packages" "$unpacked"

version() { apt-cache madison rustc-web 2>/dev/null | awk '$3 ~ /^1\.85\./ { print $3; exit }'; }

fetch() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  local version
  [[ -n $(version) ]] || apt-get update -q >/dev/null 2>&1 || true
  version=$(version)
  [[ -n $version ]] || return 1
  # What the compiler and cargo are linked against and a small machine may lack.
  local libraries=(libgit2-1.5 libhttp-parser2.9 libllvm19 libmbedcrypto7 libmbedtls14 libmbedx509-1)
  libraries+=(libpcre3 libssh2-1 libz3-4)
  (
    cd "$root/packages"
    apt-get download -q "cargo-web=$version" "rustc-web=$version" "libstd-rust-web-dev=$version" \
      "libstd-rust-web-1.85=$version" >/dev/null 2>&1 || exit 1
    for library in "${libraries[@]}"; do
      apt-get download -q "$library" >/dev/null 2>&1 || true
    done
    for package in *.deb; do dpkg-deb --extract "$package" "$unpacked"; done
  )
}

rustc=$unpacked/usr/bin/rustc
cargo=$unpacked/usr/bin/cargo
if [[ ! -x $cargo ]] && ! fetch; then
  echo "Rust 1.85 is not to be had here: it comes from Debian's packages rustc-web and cargo-web"
  exit 3
fi
usr=$unpacked/usr/lib
export LD_LIBRARY_PATH=$usr:$usr/x86_64-linux-gnu:$unpacked/lib/x86_64-linux-gnu:$usr/llvm-19/lib
export RUSTC=$rustc CARGO_TARGET_DIR=$root/build
unset RUSTUP_TOOLCHAIN
# Another script wants the compiler only.
[[ ${1-} == fetch ]] && return
"$rustc" --version
"$cargo" --version

"$cargo" check --locked
"$cargo" check --locked --package tickwheel-core
"$cargo" check --locked --package tickwheel-c
# `hyper` and `quinn` need what those crates need.
"$cargo" check --locked --package tickwheel-util --lib --features http,metrics,smol,stream,test-util,tokio
[[ ${1-} == check ]] && exit 0
"$cargo" check --locked --all-targets
"$cargo" build --locked --release
"$cargo" test --locked --no-run
