#!/usr/bin/env bash
# Runs the library on systems that this machine is not: other processors under qemu, Windows under wine, WebAssembly in
# node, and a Cortex-M without an operating system in qemu-system-arm.
#
#   scripts/elsewhere.sh aarch64|i686|s390x|windows|wasm|cortex-m ...     the whole list of that system
#   scripts/elsewhere.sh --quick aarch64 ...                              the short list, as CI does
#   scripts/elsewhere.sh all                                              everything, before a release
#
# It takes 2 GB below target/elsewhere, and 4 with all systems.
#
# The compiler (Rust 1.85), the standard libraries, linkers and emulators are Debian's. A private apt root downloads
# them, and they are unpacked below target/elsewhere, so the machine's own packages stay as they are. Where they cannot
# be had the script says so and exits with 3.
#
# Emulation does not show everything. docs/SYSTEMS.md says what ran, and what no emulator shows.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/target/elsewhere
apt=$root/apt
unpacked=$root/unpacked
usr=$unpacked/usr
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$unpacked"

unavailable() { echo "not to be had here: $*"; exit 3; }

prepare_apt() {
  [[ $(uname -m) == x86_64 ]] || unavailable "the cross compilers of Debian for $(uname -m)"
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || unavailable "Debian's packages, without apt-get"
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg
  [[ -e $keys ]] || unavailable "Debian's packages, without the keys of its archive"
  echo "deb [signed-by=$keys] http://deb.debian.org/debian bookworm main" > "$apt/sources.list"
  # Also where the machine itself has a newer compiler.
  printf 'Package: rustc-web cargo-web libstd-rust-web-* rust-web-src\nPin: release n=bookworm\nPin-Priority: 1001\n' \
    > "$apt/preferences"
  cat > "$apt/apt.conf" <<END
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "$apt/preferences";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
APT::Architectures { "amd64"; "arm64"; "i386"; "s390x"; };
APT::Sandbox::User "$(id -un)";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Languages "none";
Debug::NoLocking "true";
END
  export APT_CONFIG=$apt/apt.conf
  if [[ -z $(apt-cache madison rustc-web 2>/dev/null) ]]; then
    apt-get update -q >"$apt/log" 2>&1 || { tail -n 5 "$apt/log"; unavailable "the lists of Debian's packages"; }
  fi
}

# Unpacks packages with all that they need and this machine lacks. A package with an architecture (name:arm64) comes
# by itself, because what it needs runs on that architecture.
need() {
  local package wanted=() single=()
  for package in "$@"; do
    if [[ -e $apt/has-$package ]]; then continue; fi
    if [[ $package == *:* ]]; then single+=("$package"); else wanted+=("$package"); fi
  done
  ((${#wanted[@]} + ${#single[@]})) || return 0
  [[ -n ${APT_CONFIG-} ]] || prepare_apt
  echo "+ unpack ${wanted[*]} ${single[*]}"
  if ((${#wanted[@]})); then
    apt-get install -q -y --download-only --allow-downgrades --no-install-recommends "${wanted[@]}" >"$apt/log" 2>&1 ||
      { tail -n 5 "$apt/log"; unavailable "${wanted[*]}"; }
    # A package that the machine has already is not downloaded, and used where it is.
  fi
  if ((${#single[@]})); then
    (cd "$apt/cache/archives" && apt-get download -q "${single[@]}" >"$apt/log" 2>&1) ||
      { tail -n 5 "$apt/log"; unavailable "${single[*]}"; }
  fi
  local archive
  for archive in "$apt"/cache/archives/*.deb; do
    [[ -e $archive ]] || continue
    dpkg-deb --extract "$archive" "$unpacked"
    rm "$archive"
  done
  # Emulators of other processors, and sources of the compiler, are half of what lies here.
  find "$usr/bin" -name 'qemu-*-static' ! -name 'qemu-aarch64-*' ! -name 'qemu-s390x-*' -delete
  rm -rf "$usr/share/doc" "$usr"/src/rustc-*/{compiler,src,tests}
  for package in "${wanted[@]}" "${single[@]}"; do touch "$apt/has-$package"; done
}

need_rust() {
  need rustc-web cargo-web libstd-rust-web-dev
  export RUSTC=$usr/bin/rustc CARGO_TARGET_DIR=$root/build
  export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_STRIP=debuginfo CARGO_INCREMENTAL=0
  export LD_LIBRARY_PATH=$usr/lib:$usr/lib/x86_64-linux-gnu:$unpacked/lib/x86_64-linux-gnu:$usr/lib/llvm-19/lib
  # Behind the machine's own, for the linkers that only this folder has.
  export PATH=$PATH:$usr/bin
  unset RUSTUP_TOOLCHAIN
}

cargo() { "$usr/bin/cargo" "$@"; }

need_sources() {
  need rust-web-src
  mkdir -p "$usr/lib/rustlib/src/rust"
  ln -sfn "$usr/src/rustc-1.85.0/library" "$usr/lib/rustlib/src/rust/library"
  [[ -e $usr/lib/rustlib/src/rust/library/core/Cargo.toml ]] || unavailable "the sources of the standard library"
}

say() { printf '\n== [%4ds] %s\n' "$SECONDS" "$*"; }

# Runs a command where the kernel starts programs of another processor by its emulator, so that tests which start
# children run as well: PROCESSOR ELF-MACHINE COMMAND. It needs tables of a user namespace's own (Linux 6.7).
beside_emulator() {
  local emulator=$usr/bin/qemu-$1-static machine=$2
  shift 2
  EMULATOR=$emulator MACHINE=$machine unshare --user --map-root-user --mount bash -c '
    set -e
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    # An executable of this machine: the magic number, its class and byte order, the kind and the machine.
    class=${MACHINE%%:*} number=${MACHINE#*:}
    magic="\x7fELF${class}\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    mask="\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff"
    if [[ $class == *"\x02" ]]; then kind="\x00\x02" any="\xff\xfe"; else kind="\x02\x00" any="\xfe\xff"; fi
    printf "%s" ":emulated:M::${magic}${kind}${number}:${mask}${any}\xff\xff:$EMULATOR:F" \
      > /proc/sys/fs/binfmt_misc/register
    exec "$@"' _ "$@"
}

# The test programs of the library and its core, and the short list of them. Left out are those that read the
# repository, not the library.
crates=(-p tickwheel -p tickwheel-core)
all_programs=(--lib --test api --test conformance --test engine
  --test event_loop --test examples --test fronts --test futures --test hostile --test local --test memory
  --test sleep --test wheel)
few_programs=(--lib --test api --test event_loop --test sleep)
# Years of virtual time take an emulator too long, and models need loom.
slow=(--skip models:: --skip long_uptime --skip a_million_periods_do_not_drift)

# Runs test programs: NAME TARGET COMMAND... The command runs cargo; programs are linked statically, so that an emulator
# needs no libraries of that system.
run_tests() {
  local name=$1 target=$2
  shift 2
  local programs=("${all_programs[@]}")
  if ((quick)); then programs=("${few_programs[@]}"); fi
  # Properties with few cases each: arithmetic is the same everywhere, or else it fails at once.
  export PROPTEST_CASES=${PROPTEST_CASES:-4}
  export RUSTFLAGS="-C target-feature=+crt-static -C link-arg=--sysroot=$unpacked"
  say "$name: build"
  cargo test -q --locked "${crates[@]}" --target "$target" --no-run "${programs[@]}"
  say "$name: ${programs[*]}"
  "$@" "$usr/bin/cargo" test -q --locked "${crates[@]}" --target "$target" --no-fail-fast "${programs[@]}" -- \
    "${slow[@]}"
}

# Runs tests of another processor: NAME ELF-MACHINE PACKAGES-OF-IT GNU-NAME
emulated() {
  local name=$1 machine=$2 debian=$3 libc=$4 target=$1-unknown-linux-gnu
  local upper=${target^^}
  need_rust
  # These judge real time, or have a minute, under a load that an emulator does not bear.
  slow+=(--skip real_time:: --skip no_wake_is_lost_to_a_reset --skip async_timeouts --skip beside_busy_threads)
  # An emulator does not obey the limit of its program's mappings, by which these refuse memory past the allocator.
  slow+=(--skip refused::a_periodic_timer_for_which --skip refused::a_thread_without_a_place
    --skip refused::refused_timers_use_up --skip refused::a_timer_for_which_the
    --skip refused::a_timer_of_one_thread_for_which
    --skip refused::a_wheel_that_refuses --skip refused::an_event_loops_timer_whose)
  need "gcc-$name-linux-gnu" "libc6-dev-$libc-cross" "libstd-rust-web-dev:$debian" qemu-user-static
  export "CARGO_TARGET_${upper//-/_}_LINKER=$name-linux-gnu-gcc"
  if beside_emulator "$name" "$machine" true 2>/dev/null; then
    run_tests "$name" "$target" beside_emulator "$name" "$machine"
  else
    echo "skipped: tests that start children, because this kernel has no table of emulators for a namespace"
    export "CARGO_TARGET_${upper//-/_}_RUNNER=$usr/bin/qemu-$name-static"
    slow+=(--skip forks:: --skip processes:: --skip resident::)
    run_tests "$name" "$target"
  fi
}

# The magic number's class and byte order, and the machine's number in that order.
on_aarch64() { emulated aarch64 '\x02\x01:\xb7\x00' arm64 arm64; }
on_s390x() { emulated s390x '\x02\x02:\x00\x16' s390x s390x; }

on_i686() {
  need_rust
  need gcc-i686-linux-gnu libc6-dev-i386-cross libstd-rust-web-dev:i386
  export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
  run_tests i686 i686-unknown-linux-gnu
}

bare=scripts/elsewhere/bare

# Builds the program without an operating system: TARGET ARGUMENTS
build_bare() {
  local target=$1
  shift
  RUSTC_BOOTSTRAP=1 cargo build -q --release --manifest-path "$bare/Cargo.toml" -Zbuild-std=core,alloc \
    --target "$target" "$@"
}

on_cortex_m() {
  local target
  need_rust
  need_sources
  need lld qemu-system-arm
  say "cortex-m: build for thumbv7em-none-eabihf"
  CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER=$(command -v ld.lld || echo "$usr/bin/ld.lld") \
    RUSTFLAGS="-C linker-flavor=ld.lld -C link-arg=-Tlink.x -C link-arg=-L$bare" \
    build_bare thumbv7em-none-eabihf --bin cortex_m
  say "cortex-m: qemu-system-arm -M mps2-an386"
  timeout 300 "$usr/bin/qemu-system-arm" -L "$usr/share/qemu" -M mps2-an386 -nographic -monitor none -serial none \
    -semihosting -kernel "$CARGO_TARGET_DIR/thumbv7em-none-eabihf/release/cortex_m" </dev/null
  # The second one has no compare-and-swap.
  for target in riscv32imac-unknown-none-elf thumbv6m-none-eabi; do
    say "check for $target"
    RUSTC_BOOTSTRAP=1 cargo check -q --locked -p tickwheel-core -Zbuild-std=core,alloc \
      --target "$target"
  done
  say "embassy's time driver: build for thumbv6m-none-eabi"
  RUSTC_BOOTSTRAP=1 cargo build -q --release --manifest-path examples/embassy/Cargo.toml --lib \
    -Zbuild-std=core,alloc --target thumbv6m-none-eabi
}

on_wasm() {
  need_rust
  need_sources
  need lld
  command -v node >/dev/null || need nodejs
  say "wasm: build for wasm32-unknown-unknown"
  CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$(command -v wasm-ld || echo "$usr/bin/wasm-ld") \
    build_bare wasm32-unknown-unknown --example wasm
  say "wasm: node"
  node "$bare/wasm.mjs" "$CARGO_TARGET_DIR/wasm32-unknown-unknown/release/examples/wasm.wasm"
}

# Windows under wine. Its standard library is built from the sources, with two objects of its start-up that the linker
# asks for by name, and a library that wine 8 lacks.
on_windows() {
  need_rust
  need_sources
  need gcc-mingw-w64-x86-64-posix wine64
  local target=x86_64-pc-windows-gnu gcc=$usr/bin/x86_64-w64-mingw32-gcc-posix object
  local parts=$usr/lib/rustlib/$target/lib build=$CARGO_TARGET_DIR/$target/debug
  mkdir -p "$parts" "$build/deps"
  for object in rsbegin rsend; do
    [[ -e $parts/$object.o ]] || RUSTC_BOOTSTRAP=1 "$RUSTC" --target "$target" --crate-type lib --emit obj \
      -o "$parts/$object.o" "$usr/src/rustc-1.85.0/library/rtstartup/$object.rs"
  done
  # Random bytes of the standard library's hash maps, from wine's older call for them.
  cat > "$build/random.c" <<'END'
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count) { return RtlGenRandom(bytes, count); }
END
  "$gcc" --sysroot="$unpacked" -shared -o "$build/deps/bcryptprimitives.dll" "$build/random.c" -ladvapi32
  cp "$build/deps/bcryptprimitives.dll" "$build/"
  export WINEPREFIX=$root/wine WINEDEBUG=-all WINEARCH=win64 DISPLAY=
  export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=$gcc PROPTEST_CASES=${PROPTEST_CASES:-4}
  export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$root/wine-runner
  printf '#!/bin/sh\nexec "%s/lib/wine/wine64" "$@"\n' "$usr" > "$root/wine-runner"
  chmod +x "$root/wine-runner"
  # Debian's wine looks for these two below /usr.
  ln -sfn wineserver64 "$usr/lib/wine/wineserver"
  ln -sfn "$usr/x86_64-w64-mingw32/lib/zlib1.dll" "$usr/lib/x86_64-linux-gnu/wine/x86_64-windows/zlib1.dll"
  # Without the programs whose allocator counts by thread-locals: for these Rust allocates on this target.
  local programs=(--lib --test api --test event_loop --test sleep)
  if ((!quick)); then
    programs+=(--test conformance --test engine --test examples
      --test fronts --test futures --test hostile)
  fi
  say "windows: build"
  export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-C link-arg=--sysroot=$unpacked"
  cargo test -q --locked "${crates[@]}" -Zbuild-std=std,panic_unwind,test --target "$target" --no-run "${programs[@]}"
  say "windows: ${programs[*]}"
  # Wine fills its folder with copies of its libraries.
  trap 'rm -rf "$WINEPREFIX"' EXIT
  cargo test -q --locked "${crates[@]}" -Zbuild-std=std,panic_unwind,test --target "$target" --no-fail-fast \
    "${programs[@]}" -- \
    "${slow[@]}"
}

quick=0
if [[ ${1-} == --quick ]]; then quick=1; shift; fi
targets=("$@")
if [[ ${1-} == all ]]; then targets=(aarch64 i686 s390x windows wasm cortex-m); fi
((${#targets[@]})) || { sed -n '5,7s/^# *//p' "$0"; exit 2; }
for target in "${targets[@]}"; do
  case $target in
    aarch64 | i686 | s390x | windows | wasm | cortex-m) ("on_${target//-/_}") ;;
    *) echo "$target is none of aarch64 i686 s390x windows wasm cortex-m all"; exit 2 ;;
  esac
done
say "all good: ${targets[*]}"
