#!/usr/bin/env bash
# "A stopped thread delays at most its own timers", checked by Spin: in the models of loom-tests/stops every thread but
# the owner may stop for ever before each of its steps. Lines "sound:" and "broken:" at the head of a model name the
# versions that Spin must accept, and those that it must reject.
#
#   loom-tests/stops.sh             all of them; half a minute
#   loom-tests/stops.sh NAME ...    only versions whose "file version" contains NAME
#
# Spin and a C compiler come from Debian's packages. Where they cannot be had the script says so and exits with 3.
set -euo pipefail
cd "$(dirname "$0")/stops"

install() {
  command -v apt-get >/dev/null || return 1
  apt-get install -q -y --no-install-recommends spin gcc libc6-dev >/dev/null 2>&1
}
{ command -v spin && command -v gcc; } >/dev/null || install || { echo "not to be had here: spin"; exit 3; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp ./*.pml "$work"
cd "$work"

tried=0 faults=0
printf '%-12s %-7s %-18s %10s  %s\n' model kind version states verdict
for model in *.pml; do
  while read -r kind version; do
    if [[ $# -gt 0 ]]; then
      wanted=0
      for part in "$@"; do [[ "$model $version" == *"$part"* ]] && wanted=1; done
      [[ $wanted -eq 1 ]] || continue
    fi
    tried=$((tried + 1))
    options=()
    for name in $version; do options+=("-D$name"); done
    # In C the whole state space, to a depth that is never reached: invalid ends and assertions.
    spin "${options[@]}" -run -safety -O2 -m1000000 "$model" >log 2>&1 || true
    errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' log)
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' log)
    if [[ -z $errors ]] || grep -q 'max search depth too small' log; then
      verdict="FAULT: $(grep -m1 -iE 'error|depth' log || echo 'the search did not end')"
    elif [[ $kind == sound && $errors -ne 0 || $kind == broken && $errors -eq 0 ]]; then
      verdict="FAULT: $errors errors"
    elif [[ $kind == sound ]]; then
      verdict="accepted"
    else
      verdict=$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' log)
    fi
    [[ $verdict != FAULT* ]] || faults=$((faults + 1))
    printf '%-12s %-7s %-18s %10s  %s\n' "${model%.pml}" "$kind" "$version" "$states" "$verdict"
  done < <(sed -nE 's/^ \* (sound|broken): *(([A-Z_]+ ?)*).*/\1 \2/p' "$model")
done

[[ $tried -gt 0 ]] || { echo "no version was found"; exit 1; }
printf '\n%d versions, %d faults\n' "$tried" "$faults"
[[ $faults -eq 0 ]]
