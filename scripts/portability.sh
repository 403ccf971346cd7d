#!/usr/bin/env bash
# Type-checks the library for Windows, macOS and FreeBSD, the load program for FreeBSD, and the part without system
# calls for WebAssembly and for a processor without compare-and-swap. Warnings are errors. scripts/elsewhere.sh runs
# what can be run.
#
#   scripts/portability.sh            all of them
#   scripts/portability.sh --quick    the library for Windows, and the core for that processor, as CI does
#
# The standard library is built from Debian's sources with the compiler of scripts/msrv.sh; exits with 3 where these
# cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

source scripts/msrv.sh fetch

sources=$unpacked/usr/src/rustc-1.85.0/library
if [[ ! -e $sources/std/Cargo.toml ]]; then
  (
    cd "$root/packages"
    apt-get download -q "rust-web-src=$(version)" >/dev/null 2>&1 || exit 3
    dpkg-deb --extract rust-web-src_*.deb "$unpacked"
  ) || { echo "the sources of the standard library are not to be had here (Debian's rust-web-src)"; exit 3; }
fi
mkdir -p "$unpacked/usr/lib/rustlib/src/rust"
ln -sfn "$sources" "$unpacked/usr/lib/rustlib/src/rust/library"

# Windows import libraries are made by a tool of its own.
if ! command -v x86_64-w64-mingw32-dlltool >/dev/null && [[ ! -x $unpacked/usr/bin/x86_64-w64-mingw32-dlltool ]]; then
  (
    cd "$root/packages"
    apt-get download -q binutils-mingw-w64-x86-64 >/dev/null 2>&1 || exit 3
    dpkg-deb --extract binutils-mingw-w64-x86-64_*.deb "$unpacked"
  ) || { echo "dlltool is not to be had here (Debian's binutils-mingw-w64-x86-64)"; exit 3; }
fi
export PATH=$PATH:$unpacked/usr/bin
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-D warnings" CARGO_TARGET_DIR=$root/portability
echo "== thumbv6m-none-eabi, the core"
"$cargo" check -q --locked --package tickwheel-core --lib -Zbuild-std=core,alloc --target thumbv6m-none-eabi
if [[ ${1-} == --quick ]]; then
  echo "== x86_64-pc-windows-gnu, the library"
  exec "$cargo" check -q --locked --package tickwheel --lib -Zbuild-std=std,panic_abort -Zbuild-std-features= \
    --target x86_64-pc-windows-gnu
fi
for target in x86_64-pc-windows-gnu aarch64-apple-darwin x86_64-unknown-freebsd; do
  echo "== $target"
  "$cargo" check -q --locked --lib -Zbuild-std=std,panic_unwind --target "$target"
done
echo "== x86_64-unknown-freebsd, the load program"
"$cargo" check -q --locked --package tickwheel-loadtest -Zbuild-std=std,panic_unwind --target x86_64-unknown-freebsd
echo "== wasm32-unknown-unknown, the core"
"$cargo" check -q --locked --package tickwheel-core --lib -Zbuild-std=core,alloc \
  --target wasm32-unknown-unknown
