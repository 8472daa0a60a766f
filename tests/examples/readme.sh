#!/usr/bin/env bash
# Takes the C++ program out of README.md, counts its lines, builds it with the command that stands there and runs it
# twice: it prints what README.md says it prints.
#
# usage: readme.sh SOURCE_ROOT BUILD_FOLDER
set -euo pipefail
source_root=$1
build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# block LANGUAGE: the first fenced block of that language.
block() { awk -v start="\`\`\`$1" '$0 == start {inside = 1; next} inside && $0 == "```" {exit} inside' "$source_root/README.md"; }

block cpp >"$folder/program.cpp"
lines=$(wc -l <"$folder/program.cpp")
((lines > 0)) || { echo "README.md has no cpp block"; exit 1; }
((lines <= 20)) || { echo "the program in README.md has $lines lines, more than 20"; exit 1; }
c++ -std=c++20 -O1 -Wall -Wextra -Werror -I"$source_root" "$folder/program.cpp" -o "$folder/program" \
  -L"$build" -Wl,-rpath,"$build" -lweft -lfmt
"$folder/program" >"$folder/printed"
cat "$folder/printed"
block text >"$folder/expected"
# Digits may differ in the last place between machines, so only words and the number of lines are compared.
diff <(tr -d '0-9.' <"$folder/expected") <(tr -d '0-9.' <"$folder/printed") || { echo "README.md says otherwise"; exit 1; }
"$folder/program" | cmp - "$folder/printed" || { echo "the second run printed something else"; exit 1; }
