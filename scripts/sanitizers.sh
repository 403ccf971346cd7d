#!/usr/bin/env bash
# Runs the library under ThreadSanitizer and under AddressSanitizer with LeakSanitizer.
#
#   scripts/sanitizers.sh [thread|address|all] [--install]
#
# What runs: the unit tests, the tests with real threads, event loops, futures and hostile programs, the random
# whole-engine test, and 3 seconds of the load program with its own verdict. Any report fails the script.
#
# ThreadSanitizer needs a standard library that is instrumented as well, or it reports races that are none.
# The nightly toolchain has no sources to build one from; Debian's `rustc-web` has. `--install` installs it
# (as root; it goes to /usr and does not touch the toolchain of `~/.cargo`). The sanitizer does not understand
# fences: see docs/TESTING.md for what that means here.
#
# Before that it must report a race that is there on purpose (scripts/sanitizers/race.rs), so that a run without a
# report says something. It needs no suppressions: one that names a frame of the standard library would also hide what
# lies between two frames of ours.
#
# Tests ask for more memory than there can be and expect a refusal: the sanitizers are told to refuse as well.
# Tests start threads in a child of a fork. ThreadSanitizer ends such a process, because its locks may have been copied
# while another thread had them, unless it is told not to.
#
# AddressSanitizer and LeakSanitizer come with the nightly toolchain. Leaks are looked for at each exit.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGET=x86_64-unknown-linux-gnu
TARGET_DIR=${CARGO_TARGET_DIR:-target}
CRATES=(-p tickwheel -p tickwheel-core)
# Programs of tests; those that only repeat arithmetic are left out, because here they cost minutes.
TESTS=(--lib --test engine --test event_loop --test futures --test hostile)
# Tests of the clock's or the sleep's precision and of memory bounds measure the sanitizer, not the library; a panic's
# payload that panics whenever it is dropped is leaked on purpose.
SKIP=(--skip timing:: --skip zombies:: --skip bounds:: --skip long_ --skip nanoseconds --skip panic_for_ever)
# Properties with few cases each: the interleavings matter here, not the numbers.
export PROPTEST_CASES=${PROPTEST_CASES:-8}
LIMIT=${SANITIZER_LIMIT:-900}

say() { printf '\n== %s\n' "$*"; }

step() {
  local name=$1 start=$SECONDS
  shift
  say "$name: $*"
  if [[ $(type -t "$1") == function ]]; then "$@"; else timeout --signal=KILL "$LIMIT" "$@"; fi
  say "$name: ok, $((SECONDS - start)) s"
}

install_thread() {
  say "installing rustc-web, rust-web-src, libclang-rt-22-dev"
  apt-get update -q
  apt-get install -q -y --no-install-recommends rustc-web rust-web-src libclang-rt-22-dev
}

thread() {
  local runtime=/usr/lib/llvm-22/lib/clang/22/lib/linux/libclang_rt.tsan-x86_64.a
  local place=/usr/lib/rustlib/$TARGET/lib/librustc-stable_rt.tsan.a
  if [[ ! -x /usr/bin/rustc || ! -e $runtime || ! -d /usr/lib/rustlib/src/rust/library ]]; then
    echo "Debian's compiler is missing: run scripts/sanitizers.sh thread --install as root" >&2
    exit 3
  fi
  [[ -e $place ]] || ln -s "$runtime" "$place"
  (
    export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
    export RUSTFLAGS="-Zsanitizer=thread"
    export CARGO_TARGET_DIR=$TARGET_DIR/tsan
    local symbolizer
    symbolizer=$(ls /usr/bin/llvm-symbolizer /usr/bin/llvm-symbolizer-* 2>/dev/null | tail -n 1 || true)
    export TSAN_OPTIONS="halt_on_error=1 allocator_may_return_null=1 die_after_fork=0"
    TSAN_OPTIONS+=${symbolizer:+" external_symbolizer_path=$symbolizer"}
    step "thread, a race on purpose" finds_the_race
    # It does not see that `fetch_max` is atomic, so what that publishes looks like a race.
    step "thread, tests" cargo test -Zbuild-std --target $TARGET "${CRATES[@]}" "${TESTS[@]}" -- \
      "${SKIP[@]}" --skip models::clock::set_or
    step "thread, load" cargo run -Zbuild-std --target $TARGET -p tickwheel-loadtest -- \
      --duration 3s --no-pin --reschedule-share 0.05 --no-report
    step "thread, load with handles" cargo run -Zbuild-std --target $TARGET -p tickwheel-loadtest -- \
      --duration 3s --no-pin --handles --payload closure --no-report
  )
}

# Whether a race is reported that is there on purpose: at the program's line, called by the library.
finds_the_race() {
  local program=$CARGO_TARGET_DIR/race report
  mkdir -p "$program"
  cp scripts/sanitizers/race.rs "$program/main.rs"
  cat >"$program/Cargo.toml" <<END
[workspace]
[package]
name = "race"
edition = "2024"
[[bin]]
name = "race"
path = "main.rs"
[dependencies]
tickwheel = { path = "$PWD" }
END
  cp Cargo.lock "$program"
  cargo build -Zbuild-std --target $TARGET --manifest-path "$program/Cargo.toml"
  report=$("$CARGO_TARGET_DIR/$TARGET/debug/race" 2>&1) && { echo "it reports no race where there is one"; return 1; }
  grep -q 'ThreadSanitizer: data race' <<<"$report" && grep -q 'race::write' <<<"$report" &&
    grep -q 'tickwheel::' <<<"$report" || { echo "$report"; return 1; }
}

address() {
  (
    export RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$TARGET_DIR/asan
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1
    # LeakSanitizer does not search mappings, and takes no address outside of a segment for a pointer to it. So it misses
    # the way to the segments, and the messages of threads, of engines that live until the exit, such as the process's
    # own. That engines which are gone hold none is for tests/memory/gone.rs to show.
    local outside
    outside=$(mktemp)
    printf 'leak:%s\n' tickwheel::sync::segments tickwheel::inbox::queue::Inbox >"$outside"
    export LSAN_OPTIONS=suppressions=$outside:print_suppressions=0
    step "address, tests" cargo +nightly test --target $TARGET "${CRATES[@]}" "${TESTS[@]}" -- "${SKIP[@]}"
    step "address, load" cargo +nightly run --target $TARGET -p tickwheel-loadtest -- \
      --duration 3s --no-pin --reschedule-share 0.05 --no-report
    step "address, load with handles" cargo +nightly run --target $TARGET -p tickwheel-loadtest -- \
      --duration 3s --no-pin --handles --payload closure --no-report
  )
}

what=all
for argument in "$@"; do
  case $argument in
    thread | address | all) what=$argument ;;
    --install) install_thread ;;
    *)
      sed -n '2,/^set/{/^#/p}' "$0" | sed 's/^# \{0,1\}//'
      exit 2
      ;;
  esac
done
[[ $what == address ]] || thread
[[ $what == thread ]] || address
say "no sanitizer has anything to report ($what)"
