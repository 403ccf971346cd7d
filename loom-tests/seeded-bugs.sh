#!/usr/bin/env bash
# Shows that the models can fail: applies each patch of loom-tests/seeded-bugs to a copy of the tree, runs the
# scenario that the patch names in its first line, with the quick bounds and then with the full ones, and expects
# it to fail. Exits non-zero if a bug survives, does not apply any more, or does not compile.
#
#   loom-tests/seeded-bugs.sh             all of them; half an hour, nearly all of it compiling
#   loom-tests/seeded-bugs.sh NAME ...    only patches whose name contains NAME
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/loom-seeded
copy=$(mktemp -d)
log=$(mktemp)
trap 'rm -rf "$copy" "$log"' EXIT
tar --create --exclude=./target --exclude=./fuzz/target --exclude=./.git --dereference . |
  tar --extract --directory "$copy"

export CARGO_TARGET_DIR=$target RUSTFLAGS="--cfg tickwheel_loom --cfg tickwheel_epoch_stand_in"
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_DEBUG=0
# Compiling is what takes the time here.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_INCREMENTAL=true RUST_BACKTRACE=0

# Whether the scenario finds nothing within these bounds; it has five minutes.
explored() {
  local status=0
  (cd "$copy" && TICKWHEEL_MODELS=$1 timeout 300 "${run[@]}" -- --nocapture --exact "models::$2") >"$log" 2>&1 ||
    status=$?
  # What has not ended has found nothing.
  if [[ $status -eq 124 ]]; then
    echo "MODEL given up after 300 s" >>"$log"
    status=0
  fi
  # Killed from outside (SIGINT, SIGKILL, SIGTERM), it has noticed nothing. Cargo names the signal of its program.
  if [[ $status =~ ^(130|137|143)$ ]] || grep -qE 'signal: (2|9|15),' "$log"; then
    echo "killed: $2" >&2
    exit 1
  fi
  return "$status"
}

survived=0
count=0
printf '%-46s %-56s %s\n' "seeded bug" scenario "what it says"
for patch in "$PWD"/loom-tests/seeded-bugs/*.patch; do
  name=$(basename "$patch" .patch)
  if [[ $# -gt 0 ]]; then
    wanted=0
    for part in "$@"; do [[ $name == *"$part"* ]] && wanted=1; done
    [[ $wanted -eq 1 ]] || continue
  fi
  count=$((count + 1))
  scenario=$(sed -n '1s/^Caught by: //p' "$patch")
  run=(cargo test --quiet --release --package tickwheel --lib)
  verdict=""
  if ! (cd "$copy" && patch --quiet --strip=1 --fuzz=0 --forward --no-backup-if-mismatch <"$patch") >"$log" 2>&1; then
    verdict="DOES NOT APPLY: $(head -1 "$log")"
    survived=$((survived + 1))
    printf '%-46s %-56s %s\n' "$name" "$scenario" "$verdict"
    echo "the copy is spoilt, stopping: bring the patch up to date"
    exit 1
  fi
  if ! (cd "$copy" && "${run[@]}" --no-run) >"$log" 2>&1; then
    verdict="DOES NOT COMPILE: $(grep -m1 '^error' "$log")"
    survived=$((survived + 1))
  elif explored quick "$scenario" && explored full "$scenario"; then
    if grep -q 'MODEL ' "$log"; then verdict="SURVIVED"; else verdict="NO SUCH SCENARIO"; fi
    survived=$((survived + 1))
  else
    # A panic prints where, then what; a crash prints neither.
    verdict=$(grep -v '^ *$' "$log" | grep -A1 -m1 'panicked at' | tail -1 | cut -c1-70 || true)
    verdict=${verdict:-$(grep -m1 -oE 'stack has overflowed|signal: [0-9]+, SIG[A-Z]+' "$log" || true)}
    [[ -n $verdict ]] || verdict="fails"
  fi
  printf '%-46s %-56s %s\n' "$name" "$scenario" "$verdict"
  (cd "$copy" && patch --quiet --strip=1 --reverse --no-backup-if-mismatch <"$patch")
done

if [[ $count -eq 0 ]]; then
  echo "no patch was found"
  exit 1
fi
printf '\n%d seeded bugs, %d not caught\n' "$count" "$survived"
[[ $survived -eq 0 ]]
