#!/usr/bin/env bash
# Measures the CPU seconds of a build from empty: tickwheel with default features beside tokio with
# `rt-multi-thread,time`, each as the one dependency of an empty program, in turn. Prints the medians and their ratio.
#
#   scripts/build-cpu.sh [ROUNDS]       3 rounds by default; a round takes about half a minute on two cores
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} top=$PWD work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CARGO_TARGET_DIR RUSTFLAGS
# As a dependency from a registry is built; cargo would build a path incrementally, tokio not.
export CARGO_INCREMENTAL=0

program() { # name, dependency
  mkdir -p "$work/$1/src"
  printf "%s\n" "[package]" "name = \"empty\"" "version = \"0.1.0\"" "edition = \"2021\"" "[dependencies]" \
    "$2" "[workspace]" >"$work/$1/Cargo.toml"
  echo 'fn main() {}' >"$work/$1/src/main.rs"
  (cd "$work/$1" && cargo fetch -q)
}

cpu() { # name
  rm -rf "$work/$1/target"
  (
    cd "$work/$1"
    TIMEFORMAT='%U %S'
    { time cargo build -q --offline 2>/dev/null; } 2>&1 | awk '{ print $1 + $2 }'
  )
}

median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

program tickwheel "tickwheel = { path = \"$top\" }"
program tokio 'tokio = { version = "1", features = ["rt-multi-thread", "time"] }'
for round in $(seq "$rounds"); do
  for name in tickwheel tokio; do
    seconds=$(cpu "$name")
    echo "$seconds" >>"$work/$name.seconds"
    echo "round $round: $name $seconds s of CPU"
  done
done
ours=$(median <"$work/tickwheel.seconds") theirs=$(median <"$work/tokio.seconds")
awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "tickwheel %.1f s, tokio %.1f s: %.2f times\n", a, b, a / b }'
