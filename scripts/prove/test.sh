#!/usr/bin/env bash
# Tests scripts/prove.sh on a small repository of its own; takes seconds.
set -euo pipefail
script=$(realpath "$(dirname "$0")/../prove.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset CARGO_TARGET_DIR
git init -q
git config user.email test@example.com
git config user.name test

commit() { git add -A && git commit -qm "$1"; }
says() {
  local wanted=$1 code=$2 said status=0
  shift 2
  said=$(scripts/prove.sh "$@" 2>&1) || status=$?
  [[ $said =~ $wanted && $status -eq $code ]] && return
  echo "prove.sh $* ended with $status instead of $code, or did not say \"$wanted\":"
  echo "$said"
  exit 1
}
verdict() { awk -F '\t' -v check="$1" '$1 == check { print $6 "|" $7 }' docs/proofs.tsv; }
expect() { [[ $1 == "$2" ]] || { echo "\"$1\" instead of \"$2\""; exit 1; }; }

mkdir -p scripts/prove src docs
cp "$script" scripts/
printf 'target\n' >.gitignore
{
  printf 'good\tsrc/a\t[0-9]+ passed\techo 7 passed; echo 9 passed\n'
  printf 'bad\tsrc/b\t-\techo no luck; exit 5\n'
  printf 'absent\tsrc/a\t-\texit 3\n'
  printf 'part {}\tsrc/{}\t-\ttest -e target/{}.fine\techo a b\n'
} >scripts/prove/checks.tsv
printf '# Tests\n\n<!-- proofs: made by scripts/prove.sh table -->\n<!-- end of proofs -->\n\nThe rest.\n' >docs/TESTING.md
touch src/a src/b
commit first

says 'good: never ran.*5 to run, 0 stand' 1 status
mkdir -p target && touch target/a.fine
# Failures stop nothing.
says 'bad: failed, 5 .*no luck.*part a: ok.*part b: failed, 1' 1 run
expect "$(verdict good)" '9 passed|ok'
expect "$(verdict bad)" '|failed, 5'
expect "$(verdict absent)" '|not to be had here'
# What is proven stands, what failed runs again; other commits do not matter to it.
touch target/b.fine
git add -A && commit 'Write proofs'
says 'absent: not to be had here.*part b: ok.*2 stood, 1 failed' 1 run
echo change >src/a
says 'good: not run, there are uncommitted changes in src/a' 1 all good
commit 'Change a'
says 'good: proven at [0-9a-f]+, before [0-9a-f]+ Change a' 1 status
sed -i 's/exit 5/true/' scripts/prove/checks.tsv && commit 'Mend b'
says 'bad: ok' 0 run bad
says 'good: ok.*absent: not to be had here.*part a: ok.*2 stood' 0 run
# What was not to be had shows nothing, and is tried again.
says 'absent: was not to be had here at [0-9a-f]+.*1 to run, 4 stand' 1 status
# Before a release everything is proven at one commit.
commit 'Write proofs again'
says 'good: ok.*bad: ok.*part b: ok' 0 all
expect "$(awk -F '\t' 'NR > 1 { print $2 }' docs/proofs.tsv | sort -u | wc -l)" 1
# A stop is no verdict.
sed -i 's/echo 7 passed/kill -TERM $$/' scripts/prove/checks.tsv && echo more >src/a && commit 'Stop good'
says 'good: stopped' 143 run
says 'good: proven at .*before .*Stop good' 1 status good
# The page.
says 'is not that of docs/proofs.tsv' 1 table --check
says '' 0 table
says '' 0 table --check
grep -q '^| part | .* | 2 of 2 ok |$' docs/TESTING.md || { cat docs/TESTING.md; exit 1; }
grep -q '^| good | .* | ok, 9 passed |$' docs/TESTING.md || { cat docs/TESTING.md; exit 1; }
grep -q '^The rest.$' docs/TESTING.md
# A check that is gone.
sed -i '/^bad/d' scripts/prove/checks.tsv && commit 'Drop bad'
says 'no check any more.*bad' 1 status
echo "prove.sh does what it says"
