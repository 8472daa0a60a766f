#!/usr/bin/env bash
# Takes the first C++ program out of a document, counts its lines, builds it with the command that stands in README.md
# and runs it twice in a folder of its own: it prints what the document says it prints.
#
# usage: readme.sh SOURCE_ROOT BUILD_FOLDER DOCUMENT MOST_LINES
set -euo pipefail
source_root=$1
build=$2
document=$3
most=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# block LANGUAGE: the first fenced block of that language.
block() { awk -v start="\`\`\`$1" '$0 == start {inside = 1; next} inside && $0 == "```" {exit} inside' "$source_root/$document"; }

block cpp >"$folder/program.cpp"
lines=$(wc -l <"$folder/program.cpp")
((lines > 0)) || { echo "$document has no cpp block"; exit 1; }
((lines <= most)) || { echo "the program in $document has $lines lines, more than $most"; exit 1; }
c++ -std=c++20 -O1 -Wall -Wextra -Werror -I"$source_root" "$folder/program.cpp" -o "$folder/program" \
  -L"$build" -Wl,-rpath,"$build" -lweft -lfmt
cd "$folder"
"$folder/program" >"$folder/printed"
cat "$folder/printed"
block text >"$folder/expected"
# Digits may differ in the last place between machines, so only words and the number of lines are compared.
diff <(tr -d '0-9.' <"$folder/expected") <(tr -d '0-9.' <"$folder/printed") || { echo "$document says otherwise"; exit 1; }
"$folder/program" | cmp - "$folder/printed" || { echo "the second run printed something else"; exit 1; }
