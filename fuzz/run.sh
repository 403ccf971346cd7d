#!/usr/bin/env bash
# Runs every fuzz target for the given number of seconds (60 if none is given), or only the targets named after it, as
# many at once as there are processors. Fails if one of them finds a crash, a leak or a hang, or has not run at all.
#
#   fuzz/run.sh [SECONDS_EACH] [TARGET...]
#
# A run of a minute or more writes its figures to results.tsv. New inputs go to target/found/, crashes to
# artifacts/; the committed corpus stays as it is.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_TARGET_DIR="$PWD/target" CARGO_TERM_COLOR=never

seconds=${1:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "usage: fuzz/run.sh [SECONDS_EACH] [TARGET...]"; exit 2; }
shift || true

cargo +nightly --version >/dev/null ||
  { echo "the fuzzer needs a nightly compiler: rustup toolchain install nightly"; exit 1; }
command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked --version ^0.13

cargo +nightly fuzz build
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <(cargo +nightly fuzz list)

mkdir -p target/found target/logs
rm -rf target/rows target/failed
mkdir target/rows target/failed
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)

# Runs one target. Leaves its row, and its name if it failed.
run() {
  local target=$1 log=target/logs/$1.log status=0 runs coverage edges features
  local options=(-max_total_time="$seconds" -max_len=2048 -rss_limit_mb=2048 -timeout=60 -print_final_stats=1)
  mkdir -p "target/found/$target"
  [[ -f $target.dict ]] && options+=(-dict="$target.dict")
  cargo +nightly fuzz run "$target" "target/found/$target" "corpus/$target" -- "${options[@]}" >"$log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
  coverage=$(grep --text -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -n 1 || true)
  printf '%-18s %10s executions in %s s, %s\n' "$target" "${runs:-0}" "$seconds" "${coverage:-no coverage}"
  if [[ $seconds -ge 60 && -n $coverage ]]; then
    read -r _ edges _ features <<<"$coverage"
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$target" "$seconds" "$runs" "$edges" "$features" "$commit" >"target/rows/$target"
  fi
  [[ $status -eq 0 && ${runs:-0} -gt 0 ]] || touch "target/failed/$target"
}
export -f run
export seconds commit
printf '%s\n' "${targets[@]}" | xargs -P "$(getconf _NPROCESSORS_ONLN)" -I{} bash -c 'run {}'

for row in target/rows/*; do
  [[ -e $row ]] || continue
  { grep -v "^${row##*/}"$'\t' results.tsv || true; cat "$row"; } >target/results.tsv
  cp target/results.tsv results.tsv
done
failed=()
for name in target/failed/*; do
  [[ -e $name ]] || continue
  failed+=("${name##*/}")
  tail -n 60 "target/logs/${name##*/}.log"
done

if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]}; see fuzz/README.md on how to reproduce and minimise"
  exit 1
fi
printf '%d targets, %s s each, none failed\n' "${#targets[@]}" "$seconds"
