#!/usr/bin/env bash
# Soak: the load program for a long time, with its own verdict, and memory that must stay flat.
#
#   scripts/soak.sh [MINUTES] [load program options]        (20 minutes by default)
#   scripts/soak.sh --churn [MINUTES]                       (1 minute by default)
#
# Three things are asserted: the verdict is ok; the resident memory of the last quarter of the run (median) is
# no more than 5 % + 4 MiB above that of the second quarter; and a zombie run (one-hour timers, all scheduled
# and cancelled at once, at least 10 million of them) never holds more than its live timers twice over + 32 MiB.
# The bounds are those of docs/PERFORMANCE.md. The runs' figures stay in target/soak/ as JSON.
#
# With --churn, threads come and go by the thousand, engines are built and ended, loops change threads: `loadtest
# churn`. Its books must be exact, memory flat, and no thread or open file left. An hour: scripts/soak.sh --churn 60
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=20 what=load
if [[ ${1:-} == --churn ]]; then
  what=churn minutes=1
  shift
fi
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  minutes=$1
  shift
fi
target=${CARGO_TARGET_DIR:-target}
out=$target/soak
mkdir -p "$out"
cargo build --release --package tickwheel-loadtest
loadtest=$target/release/loadtest

mib='def mib: . / 1048576 * 10 | round / 10;'
flat() {
  jq -r "$mib"'
  def median: sort | .[length / 2 | floor];
  (.phases | last) as $phase
  | ([$phase.timelines.resident_bytes | .at_s, .values] | transpose | map({at: .[0], bytes: .[1]})) as $samples
  | def quarter($n): ($phase.seconds / 4) as $long
      | [$samples[] | select(.at >= $long * $n and .at < $long * ($n + 1)).bytes] | median;
    quarter(1) as $before | quarter(3) as $after
  | "\(.seconds | floor) s, \(.counts.accepted) timers, \(.counts.fired) fired, \(.counts.cancelled) cancelled, "
      + "\(.counts.returned) returned",
    "\(.breaches); verdict \(.verdict)",
    "resident memory: second quarter \($before | mib) MiB, last quarter \($after | mib) MiB, "
      + "peak \($phase.figures.resident_peak_bytes.value | mib) MiB",
    if .verdict == "ok" and $before > 0 and $after <= $before * 1.05 + 4194304 then "flat: ok"
    else error("BREACH: the verdict is not ok, or memory grows") end
' "$1"
}

echo "== $what: $minutes minutes, $(nproc) cores, load average $(cut -d' ' -f1-3 /proc/loadavg)"
if [[ $what == churn ]]; then
  "$loadtest" churn --duration "${minutes}m" --no-report --quiet --json "$out/churn.json"
  jq -r '.phases | last | .figures | map_values(.value)
    | "\(.threads) threads, \(.engines) engines, \(.moves) moves of loops"' "$out/churn.json"
  flat "$out/churn.json"
  exit
fi
"$loadtest" --duration "${minutes}m" --reschedule-share 0.02 --no-report --quiet --json "$out/soak.json" "$@"
flat "$out/soak.json"

echo "== zombies: one-hour timers, cancelled at once"
"$loadtest" --duration 20s --delay fixed:1h --cancel-share 1 --in-flight 1 --no-report --quiet \
  --json "$out/zombies.json"
jq -r "$mib"'
  (.phases | last | .figures | map_values(.value)) as $figures
  | ($figures.resident_start_bytes + $figures.ledger_bytes) as $ours
  | ($figures.resident_peak_bytes - $ours) as $held
  | ($figures.resident_end_bytes - $ours) as $left
  | "\(.counts.accepted) timers, \(.counts.cancelled) cancelled; held at the peak \($held | mib) MiB, "
      + "at the end \($left | mib) MiB",
    if .verdict != "ok" then error("BREACH: the verdict is \(.verdict)")
    elif .counts.accepted < 10000000 then
      error("BREACH: fewer than 10 million timers in 20 s: run it on a quieter machine")
    elif $held > 33554432 then error("BREACH: more than 32 MiB")
    else "bounded: ok" end
' "$out/zombies.json"
