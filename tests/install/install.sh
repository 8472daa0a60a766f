#!/usr/bin/env bash
# Installs into a temporary folder, then builds and runs a program outside the tree against that copy: by pkg-config
# and by CMake, with the shared and with the static library.
#
# usage: install.sh SOURCE_ROOT BUILD_FOLDER
set -euo pipefail
source_root=$1
build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

meson install -C "$build" --no-rebuild --quiet --destdir "$folder/copy"
config=$(find "$folder/copy" -name weft.pc)
prefix=$(cd "$(dirname "$config")/../../.." && pwd)
libraries=$(dirname "$(dirname "$config")")
export PKG_CONFIG_PATH=$libraries/pkgconfig
export LD_LIBRARY_PATH=$libraries
cp "$source_root"/tests/install/{program.cpp,CMakeLists.txt} "$folder"
cd "$folder"

echo "== pkg-config, shared"
c++ program.cpp -o by_pkg_config $(pkg-config --cflags --libs weft)
readelf -d by_pkg_config | grep -q 'NEEDED.*libweft\.so' || { echo "not linked to libweft.so"; exit 1; }
./by_pkg_config

echo "== pkg-config, static"
# The archive by name, since a linker prefers the shared library of the same name.
c++ program.cpp -o by_pkg_config_static $(pkg-config --cflags weft) \
  $(pkg-config --static --libs weft | sed 's/-lweft\b/-l:libweft.a/')
if readelf -d by_pkg_config_static | grep -q 'NEEDED.*libweft'; then echo "still needs libweft.so"; exit 1; fi
./by_pkg_config_static

echo "== CMake"
cmake -S . -B cmake -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >cmake.log || { cat cmake.log; exit 1; }
cmake --build cmake >cmake.log || { cat cmake.log; exit 1; }
./cmake/program_weft
./cmake/program_static
if readelf -d cmake/program_static | grep -q 'NEEDED.*libweft'; then echo "still needs libweft.so"; exit 1; fi
echo "installed copy works both ways"
