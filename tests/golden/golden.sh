#!/bin/sh
# golden.sh RUNNER [OPTIONS]: runs it over the folder of golden values. 77 tells Meson that the folder is not on this machine.
folder=${WEFT_GOLDENS:-../shared/goldens}
if [ ! -d "$folder" ]; then
  echo "no golden values in $folder; WEFT_GOLDENS names another folder"
  exit 77
fi
runner=$1
shift
exec "$runner" --dir "$folder" "$@"
