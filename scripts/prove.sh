#!/usr/bin/env bash
# Runs every long check, short ones first, and writes what it showed to docs/proofs.tsv: check, commit, date, machine,
# seconds, figures, verdict. A check that fails stops no other one. The whole takes many hours; stopped at any time, it
# goes on with the check that it was in.
#
#   scripts/prove.sh run               what is missing, failed, or older than the last commit that touches what it proves
#   scripts/prove.sh run NAME ...      the same, only checks whose name contains one of these
#   scripts/prove.sh all [NAME ...]    each that was not proven at this very commit: before a release
#   scripts/prove.sh status [NAME ...] runs nothing, says what would run and why; ends with 1 if something would
#   scripts/prove.sh table             writes the table of long runs into docs/TESTING.md
#   scripts/prove.sh table --check     ends with 1 if that table is not made from docs/proofs.tsv
#
# A proof is of a commit: what is proven must not have uncommitted changes. Logs are below target/prove.
set -euo pipefail
cd "$(dirname "$0")/.."

proofs=docs/proofs.tsv
page=docs/TESTING.md
logs=${CARGO_TARGET_DIR:-target}/prove
checks=scripts/prove/checks.tsv
tab=$'\t'
head="check${tab}commit${tab}date${tab}machine${tab}seconds${tab}figures${tab}verdict"
mkdir -p "$logs"
[[ -f $proofs ]] || echo "$head" >"$proofs"

# Prints every check: name, what it proves (paths), its figures (a pattern), its command. A `{}` stands for each word
# that the command in the fifth column prints.
list() {
  local name paths figures command words word
  while IFS=$tab read -r name paths figures command words; do
    [[ -n $name && $name != \#* ]] || continue
    if [[ -z $words ]]; then
      printf '%s\t%s\t%s\t%s\n' "$name" "$paths" "$figures" "$command"
      continue
    fi
    for word in $(bash -c "$words"); do
      printf '%s\t%s\t%s\t%s\n' "${name//\{\}/$word}" "${paths//\{\}/$word}" "$figures" "${command//\{\}/$word}"
    done
  done <"$checks"
}

is_wanted() {
  local check=$1 name
  shift
  [[ $# -gt 0 ]] || return 0
  for name in "$@"; do [[ $check == *"$name"* ]] && return 0; done
  return 1
}

# Says why a check must run; nothing if its proof stands. With `all` a proof of another commit does not.
reason() {
  local mode=$1 check=$2 paths=$3 commit seconds verdict
  IFS=$tab read -r commit seconds verdict < <(
    awk -F '\t' -v OFS='\t' -v check="$check" '$1 == check { print $2, $5, $7 }' "$proofs") || true
  if [[ -z ${commit-} ]]; then echo "never ran"; return; fi
  if [[ ! $seconds =~ ^[0-9]+$ ]]; then echo "its row was written by hand"; return; fi
  if [[ $verdict == failed* ]]; then echo "failed at $commit"; return; fi
  # Nothing was shown.
  if [[ $verdict != ok ]]; then echo "was $verdict at $commit"; return; fi
  if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then echo "its commit $commit is gone"; return; fi
  if [[ $mode == all ]]; then
    [[ $(git rev-parse "$commit") == "$(git rev-parse HEAD)" ]] || echo "proven at $commit"
    return
  fi
  local since
  # shellcheck disable=SC2086
  since=$(git log -1 --format='%h %s' "$commit..HEAD" -- $paths)
  [[ -z $since ]] || echo "proven at $commit, before $since"
}

machine() {
  local model
  model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
  echo "${model:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) cores, $(uname -sr)"
}

# Runs one check and writes its row.
prove() {
  local check=$1 paths=$2 figures=$3 command=$4 commit log seconds status=0 verdict found
  # shellcheck disable=SC2086
  if [[ -n $(git status --porcelain -- $paths) ]]; then
    echo "$check: not run, there are uncommitted changes in $paths"
    return 1
  fi
  commit=$(git rev-parse --short=10 HEAD)
  log=$logs/${check//[^A-Za-z0-9]/-}.log
  printf '%s: %s\n' "$check" "$command"
  seconds=$SECONDS
  # In a shell of its own, so that neither its exit nor its settings are ours. Nobody else's input is read.
  bash -c "$command" >"$log" 2>&1 </dev/null || status=$?
  seconds=$((SECONDS - seconds))
  # A stop is no verdict: the check runs again.
  if ((status == 130 || status == 143)); then
    echo "$check: stopped"
    exit "$status"
  fi
  # Other commits may have come meanwhile, such as those of other rows.
  # shellcheck disable=SC2086
  if ! git diff --quiet "$commit" -- $paths || [[ -n $(git status --porcelain -- $paths) ]]; then
    echo "$check: not counted, what it proves changed while it ran"
    return 1
  fi
  case $status in
    0) verdict=ok ;;
    3) verdict="not to be had here" ;;
    *) verdict="failed, $status" ;;
  esac
  found=
  [[ $figures == - ]] || found=$({ grep -aoE -- "$figures" "$log" || true; } | tail -n 1 | tr -s '\t ' ' ')
  # What goes on where it was stopped says itself how long it took.
  [[ ! $found =~ ([0-9]+)\ s\ in\ [0-9]+\ runs ]] || seconds=${BASH_REMATCH[1]}
  local row
  row=$(printf '%s\t%s\t%s\t%s\t%s\t%s\t%s' \
    "$check" "$commit" "$(date -u +%F)" "$(machine)" "$seconds" "$found" "$verdict")
  {
    echo "$head"
    { awk -F '\t' -v check="$check" 'NR > 1 && $1 != check' "$proofs"; echo "$row"; } | sort
  } >"$proofs.new"
  mv "$proofs.new" "$proofs"
  printf '%s: %s after %s s%s\n' "$check" "$verdict" "$seconds" "${found:+, $found}"
  [[ $verdict != failed* ]] || { tail -n 5 "$log"; echo "see $log"; return 1; }
}

# Prints the page's table: one row for the checks whose names begin with the same word.
table() {
  printf '| check | proven at | hours | result |\n|---|---|--:|---|\n'
  awk -F '\t' '
    NR > 1 {
      split($1, word, " "); group = word[1]
      if (!(group in runs)) order[++groups] = group
      runs[group]++; seconds[group] += $5; figures[group] = $6
      where = $2 ", " $3
      if (index(places[group], where) == 0) places[group] = places[group] (places[group] ? "; " : "") where
      if ($7 == "ok") good[group]++
      else others[group] = others[group] "; " $1 ": " $7
    }
    END {
      for (i = 1; i <= groups; i++) {
        group = order[i]
        result = runs[group] == 1 ? "" : good[group] + 0 " of " runs[group] " ok"
        if (runs[group] == 1 && good[group]) result = "ok" (figures[group] ? ", " figures[group] : "")
        result = result others[group]; sub(/^; /, "", result)
        gsub(/\|/, "\\|", result)
        printf "| %s | %s | %.1f | %s |\n", group, places[group], seconds[group] / 3600, result
      }
    }' "$proofs"
}

# Prints the page with the table between its marks.
page_with_table() {
  grep -q '^<!-- proofs:' "$page" && grep -q '^<!-- end of proofs -->' "$page" ||
    { echo "$page has no marks for the table" >&2; return 1; }
  sed '/^<!-- proofs:/q' "$page"
  echo
  table
  echo
  sed -n '/^<!-- end of proofs -->/,$p' "$page"
}

mode=${1-}
shift || true
case $mode in
  run | all | status) ;;
  table)
    page_with_table >"$logs/page.md"
    if [[ ${1-} == --check ]]; then
      cmp -s "$logs/page.md" "$page" && exit 0
      echo "the table of long runs in $page is not that of $proofs: run scripts/prove.sh table"
      exit 1
    fi
    cp "$logs/page.md" "$page"
    exit
    ;;
  *)
    sed -n 's/^# \{0,1\}//; 2,/^set/{/^set/!p}' "$0"
    exit 2
    ;;
esac

mapfile -t all < <(list)
due=0 done=0 bad=0
for line in "${all[@]}"; do
  IFS=$tab read -r check paths figures command <<<"$line"
  is_wanted "$check" "$@" || continue
  why=$(reason "$mode" "$check" "$paths")
  if [[ -z $why ]]; then
    done=$((done + 1))
  elif [[ $mode == status ]]; then
    due=$((due + 1))
    echo "$check: $why"
  else
    prove "$check" "$paths" "$figures" "$command" || bad=$((bad + 1))
  fi
done
# Rows of checks that are gone prove nothing.
gone=$(awk -F '\t' 'NR == FNR { known[$1] = 1; next } FNR > 1 && !($1 in known) { print $1 }' <(list) "$proofs")
[[ -z $gone ]] || { echo "no check any more, remove their rows from $proofs:"; echo "$gone"; bad=$((bad + 1)); }
if [[ $mode == status ]]; then
  echo "$due to run, $done stand"
  exit $((due + bad > 0))
fi
echo "$done stood, $bad failed or not run"
exit $((bad > 0))
