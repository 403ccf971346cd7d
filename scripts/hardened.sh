#!/usr/bin/env bash
# Runs tests and the load program on a Linux that refuses system calls, as hardened containers do: each call by itself,
# then all of them. A test that needs a refused call skips itself with a line that says so; the script counts them.
#
#   scripts/hardened.sh            everything, some minutes
#   scripts/hardened.sh NAME ..    only these refusals: membarrier, give-back, huge-pages, advice,
#                                  affinity, timer-slack, all
#
# The refusal is a seccomp filter (scripts/hardened/deny.c): the library calls the kernel itself, so that a preloaded
# library would not see it. A filter cannot refuse FUTEX_WAIT, because libc's own locks need it. Where the system takes
# no filter the script says so and exits with 3.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A refused=(
  [membarrier]="membarrier"
  [give-back]="madvise:2=4"
  [huge-pages]="madvise:2=14"
  [advice]="madvise:2=4 madvise:2=14"
  [affinity]="sched_setaffinity sched_getaffinity"
  [timer-slack]="prctl:0=29"
)
order=(membarrier give-back huge-pages advice affinity timer-slack all)
refused[all]="${refused[membarrier]} ${refused[advice]} ${refused[affinity]} ${refused[timer-slack]}"
if (($#)); then order=("$@"); fi

work=${CARGO_TARGET_DIR:-target}/hardened
mkdir -p "$work"
compiler=$(command -v cc || command -v gcc) || { echo "skipped: no C compiler for the filter"; exit 3; }
"$compiler" -O1 -Wall -Wextra -Werror -o "$work/deny" scripts/hardened/deny.c
deny=$work/deny
"$deny" membarrier -- true || { echo "skipped: this system takes no filter"; exit 3; }

# Properties with few cases each: the system calls matter here, not the numbers.
export PROPTEST_CASES=${PROPTEST_CASES:-8}
programs=$(cargo test -p tickwheel -p tickwheel-core --no-run --lib --test engine --test event_loop --test hostile \
  --test memory --test sleep 2>&1 | tee /dev/stderr | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
cargo build --release -p tickwheel-loadtest
load=${CARGO_TARGET_DIR:-target}/release/loadtest

faults=0
for name in "${order[@]}"; do
  [[ -n ${refused[$name]-} ]] || { echo "$name is none of ${!refused[*]}"; exit 2; }
  read -ra rules <<<"${refused[$name]}"
  start=$SECONDS passed=0 failed=0 skipped=0
  for program in $programs; do
    # Models need no system, and years of virtual time take long.
    timeout 300 "$deny" "${rules[@]}" -- "$program" --nocapture --skip models:: --skip long_uptime \
      >"$work/log" 2>&1 || { failed=$((failed + 1)); grep -E 'panicked|FAILED|test result' -A 3 "$work/log" || true; }
    counted=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$work/log" | awk '{ s += $1 } END { print s + 0 }')
    passed=$((passed + counted))
    skipped=$((skipped + $(grep -c 'skipped: ' "$work/log" || true)))
  done
  "$deny" "${rules[@]}" -- "$load" --duration 3s --no-report --json "$work/load.json" >"$work/log" 2>&1 || true
  verdict=$(grep -oE '"verdict": ?"[a-z]+"' "$work/load.json" | grep -oE '[a-z]+"$' | tr -d '"')
  [[ $verdict == ok ]] || { failed=$((failed + 1)); tail -n 20 "$work/log"; }
  printf '%-14s %s passed, %s skipped themselves, %s failed; load: %s; %s s\n' \
    "$name" "$passed" "$skipped" "$failed" "${verdict:-none}" $((SECONDS - start))
  faults=$((faults + failed))
done
((faults == 0))
