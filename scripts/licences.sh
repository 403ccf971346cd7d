#!/usr/bin/env bash
# Prints the licences of the crates that a program or library contains on Linux, for its packages: each text once, below
# the crates that it is of. Of a crate with a choice of licences it takes MIT. Needs no tool but cargo, and the sources
# in its registry, which a build has fetched.
#
#     scripts/licences.sh MANIFEST      the path of its Cargo.toml
set -euo pipefail
manifest=$1
own=$(cd "$(dirname "$0")/.." && pwd)
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
texts=$(mktemp -d)
trap 'rm -rf "$texts"' EXIT

# The files of a crate that say its licence, one a line.
files_of() {
  local found
  found=$(find "$1" -maxdepth 3 -type f ! -name '*.rs' ! -name '*.py' \
    -iregex '.*/\(licen[sc]e\|copying\|unlicense\|copyright\)[^/]*' | sort)
  # Several licences at once are no choice.
  if [[ $2 == *MIT* && $2 != *AND* ]] && grep -qi 'mit[^/]*$' <<<"$found"; then
    grep -i 'mit[^/]*$' <<<"$found"
  elif [[ -n $found ]]; then
    echo "$found"
  fi
  find "$1" -maxdepth 3 -type f -iname 'notice*' ! -name '*.rs' | sort
}

while IFS='|' read -r name licence; do
  version=${name#* v}
  version=${version%% *}
  crate=${name%% *}
  folder=$(find "$registry" -mindepth 2 -maxdepth 2 -name "$crate-$version" | head -n 1)
  [[ -n $folder ]] || { echo "the source of $crate $version is not in $registry" >&2; exit 1; }
  mapfile -t files < <(files_of "$folder" "$licence")
  if [[ -z ${files[*]} ]]; then
    # Its authors have packed no text: they are named, and the text is the one of this repository.
    authors=$(sed -n '/^authors = \[/,/\]/p' "$folder/Cargo.toml" | grep -o '"[^"]*"' | tr -d '"' | paste -sd ',' | sed 's/,/, /g')
    files=("$texts/none")
    { echo "Copyright (c) ${authors:-the authors of $crate}"; } >"$texts/none"
    case $licence in
      *MIT*) sed 1,4d "$own/LICENSE-MIT" >>"$texts/none" ;;
      *Apache-2.0*) cat "$own/LICENSE-APACHE" >>"$texts/none" ;;
      *) echo "$crate $version has no text of its licence, $licence" >&2; exit 1 ;;
    esac
  fi
  for file in "${files[@]}"; do
    tr -d '\r' <"$file" | sed -e 's/[[:space:]]*$//' | sed -e '/./,$!d' >"$texts/text"
    sum=$(sha256sum <"$texts/text" | cut -c 1-16)
    [[ -e $texts/$sum.text ]] || { cp "$texts/text" "$texts/$sum.text"; echo "$sum" >>"$texts/order"; }
    echo "$crate $version ($licence)" >>"$texts/$sum.crates"
  done
done < <(cargo tree --manifest-path "$manifest" -e normal --offline --target x86_64-unknown-linux-gnu --prefix none \
  --format '{p}|{l}' | sed 's/ (\*)$//' | grep -v ' (/' | sort -u)

echo "This contains these crates, each under the licence that follows it, and the standard library of Rust (MIT or"
echo "Apache-2.0), whose notices come with Rust as COPYRIGHT-library.html."
while read -r sum; do
  printf '\n%s\n' "$(printf '=%.0s' {1..80})"
  cat "$texts/$sum.crates"
  printf '%s\n\n' "$(printf -- '-%.0s' {1..80})"
  cat "$texts/$sum.text"
done <"$texts/order"
