#!/usr/bin/env bash
# Everything that a GPU has to prove, in one command of under eight minutes.
#
#   tools/gpu/check.sh prepare   # where the compilers are: builds, and packs what is needed into gpu-check/ (ignored by git)
#   tools/gpu/check.sh           # where the GPU is: needs the checkout with gpu-check/, python3, and NVIDIA's libraries
#
# It runs, each with a limit of its own: the tests of the cuda device, every operation against the CPU, the golden values,
# compute-sanitizer over the kernel tests, the training of a GPT, and the times of operations and training steps beside
# PyTorch's where python3 has it. Results go to gpu-check/results.json (or $WEFT_GPU_RESULTS);
# tools/gpu/report.py writes them into docs/performance.md. Ends with 0 when all is well, 1 when something failed, 2 when
# there is no GPU to ask.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=gpu-check
say() { printf '\n== %s\n' "$*"; }
die() {
  printf 'check: %s\n' "$*" >&2
  exit 2
}

# --- where the compilers are ----------------------------------------------------------------------------------------

# The programs, by their target in the build folder.
programs=(
  benchmarks/device_ops
  benchmarks/train_step
  examples/gpt/gpt
  tests/autograd_op_case_test
  tests/golden_runner
  tests/kernels/cuda_status_test
)

prepare() {
  local build=${WEFT_GPU_BUILD:-build-gpu}
  [[ -f $build/build.ninja ]] ||
    meson setup "$build" -Dcuda=enabled -Dsimt=enabled -Ddefault_library=shared ${WEFT_GPU_SETUP:-} >&2
  # The tests of the suite simt, which run on cuda too: what they are is known to the build folder.
  mapfile -t tests < <(ninja -C "$build" -t targets all | sed -n 's/^\(tests\/simt_[a-z_]*\): .*/\1/p')
  ninja -C "$build" libweft_cuda.so libweft_simt.so "${programs[@]}" "${tests[@]}" >&2
  rm -rf "$folder/bundle"
  mkdir -p "$folder/bundle/bin" "$folder/bundle/lib" "$folder/bundle/goldens"
  local program
  for program in "${programs[@]}" "${tests[@]}"; do
    strip -o "$folder/bundle/bin/$(basename "$program")" "$build/$program"
  done
  strip -o "$folder/bundle/lib/libweft.so.0" "$build/libweft.so.0.1.0"
  strip -o "$folder/bundle/lib/libweft_cuda.so" "$build/libweft_cuda.so"
  strip -o "$folder/bundle/lib/libweft_simt.so" "$build/libweft_simt.so"
  # The system's libraries that another machine may not have; not the compiler's, which it has newer, nor NVIDIA's.
  ldd "$folder/bundle/bin/"* "$folder/bundle/lib/"*.so* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -E '/lib(dnnl|fmt|gomp|hwy|gtest|gtest_main|boost_context)[.]' |
    xargs -r cp -L -t "$folder/bundle/lib"
  local goldens=${WEFT_GOLDENS:-../shared/goldens}
  if [[ -d $goldens ]]; then
    cp -rL "$goldens/." "$folder/bundle/goldens/"
  else
    echo "check: no golden values in $goldens; they are left out (WEFT_GOLDENS names another folder)" >&2
  fi
  local data=${WEFT_DATA_DIR:-build/data}
  if compgen -G "$data/shakespeare/*_gut.txt" >/dev/null; then
    mkdir -p "$folder/bundle/data"
    cp -r "$data/shakespeare" "$folder/bundle/data/"
  fi
  tar -C "$folder" -czf "$folder/bundle.tar.gz" bundle
  rm -rf "$folder/bundle"
  local bytes
  bytes=$(stat -c %s "$folder/bundle.tar.gz")
  printf '%s: %d bytes\n' "$folder/bundle.tar.gz" "$bytes"
  ((bytes < 40000000)) || die "the bundle is larger than 40 MB"
}

# --- where the GPU is -----------------------------------------------------------------------------------------------

failures=0
results=""

# record NAME JSON: adds to the results.
record() { results+="${results:+,}$(printf '\n"%s": %s' "$1" "$2")"; }

# All of it fits this many seconds: what no time is left for is stopped and counts as failed.
total=460
# limit SECONDS: that, or what is left.
limit() {
  local left=$((total - SECONDS))
  echo $((left < 1 ? 1 : left < $1 ? left : $1))
}

# step NAME SECONDS COMMAND…: runs it with a limit; its output goes to a log, the end of which is shown when it fails.
step() {
  local name=$1 limit begin status=0
  limit=$(limit "$2")
  shift 2
  say "$name"
  begin=$(date +%s)
  timeout "$limit" "$@" >"$work/$name.log" 2>&1 || status=$?
  tail -n 3 "$work/$name.log"
  if ((status == 124)); then echo "$name: stopped after $limit s"; fi
  if ((status)); then
    grep -E 'FAILED|rror' "$work/$name.log" | head -n 30 || true
    failures=$((failures + 1))
  fi
  record "$name" "{\"status\": $status, \"seconds\": $(($(date +%s) - begin)), \"last_line\": $(tail -n 1 "$work/$name.log" | quoted)}"
}

quoted() { python3 -c 'import json, sys; print(json.dumps(sys.stdin.read().strip()))'; }

# measured NAME SECONDS COMMAND…: the same for a program that prints JSON, which becomes a result.
measured() {
  local name=$1 limit status=0
  limit=$(limit "$2")
  shift 2
  say "$name"
  timeout "$limit" "$@" >"$work/out.json" 2>"$work/$name.log" || status=$?
  if ((status == 0)) && python3 -m json.tool "$work/out.json" >/dev/null 2>&1; then
    record "$name" "$(cat "$work/out.json")"
    echo ok
  else
    tail -n 5 "$work/$name.log"
    echo "$name: failed with $status"
    failures=$((failures + 1))
    record "$name" "{\"status\": $status, \"error\": $(tail -n 1 "$work/$name.log" | quoted)}"
  fi
}

# NVIDIA's libraries: of the toolkit, else the ones that Python packages bring.
find_libraries() {
  local found="" candidate
  for candidate in /usr/local/cuda/lib64 /usr/local/cuda/lib $(python3 - <<'PYTHON' 2>/dev/null || true
import glob, site, sys
for root in [*site.getsitepackages(), *sys.path]:
    print(*glob.glob(root + "/nvidia/*/lib"))
PYTHON
  ); do
    [[ -d $candidate && :$found: != *:$candidate:* ]] && found+="${found:+:}$candidate"
  done
  printf '%s' "$found"
}

kernel_tests() {
  local test status=0
  for test in "$bin"/simt_*_device_test; do
    echo "-- $(basename "$test")"
    "$@" "$test" --gtest_brief=1 || status=1
  done
  return $status
}

run() {
  [[ -f $folder/bundle.tar.gz ]] || die "$folder/bundle.tar.gz is missing; run tools/gpu/check.sh prepare where nvcc is"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  tar -C "$work" -xzf "$folder/bundle.tar.gz"
  bin=$work/bundle/bin
  local libraries
  libraries=$(find_libraries)
  local own_path=${LD_LIBRARY_PATH:-}  # python3's libraries are its own business
  export LD_LIBRARY_PATH=$work/bundle/lib${libraries:+:$libraries}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # The folder that libweft.so lies in is where it looks for libweft_cuda.so.

  say "device"
  local missing
  missing=$(ldd "$work/bundle/lib/libweft_cuda.so" | awk '/not found/ {print $1}' | tr '\n' ' ')
  [[ -z $missing ]] || die "NVIDIA's libraries are not all here: $missing(looked in ${libraries:-no folder})"
  # The first call of the device: an addition.
  local answer
  answer=$("$bin/device_ops" --device cuda --small --repeats 1 2>&1) ||
    die "no GPU that can be used: $(tail -n 1 <<<"$answer"). Needed: an NVIDIA GPU and a driver for CUDA 13"
  local name
  name=$(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader | head -n 1)
  echo "$name"
  record device "$(quoted <<<"$name")"
  record date "$(date -u +%Y-%m-%d | quoted)"

  export WEFT_TEST_DEVICES=cuda
  step cuda_library 60 "$bin/simt_cuda_library_test"
  step cuda_status 30 "$bin/cuda_status_test"
  export -f kernel_tests
  export bin
  step kernels 90 bash -c kernel_tests
  step ops_against_cpu 90 "$bin/autograd_op_case_test" --gtest_filter='*Device*' --gtest_brief=1
  if [[ -n $(ls "$work/bundle/goldens") ]]; then
    step goldens 60 "$bin/golden_runner" --dir "$work/bundle/goldens" --device cuda
  fi
  if [[ -d $work/bundle/data ]] && "$bin/gpt" train --help | grep -q -- --device; then
    step gpt_f32 40 "$bin/gpt" train --data "$work/bundle/data/shakespeare" --device cuda --steps 300 --out "$work/gpt-f32"
    if "$bin/gpt" train --help | grep -q -- --dtype; then
      step gpt_bf16 40 "$bin/gpt" train --data "$work/bundle/data/shakespeare" --device cuda --dtype bf16 --steps 300 --out "$work/gpt-bf16"
    fi
  fi

  local torch=""
  env LD_LIBRARY_PATH="$own_path" python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null && torch=yes
  local model dtype batch
  while read -r model dtype batch; do
    measured "train $model $dtype $batch" 40 \
      "$bin/train_step" --device cuda --model "$model" --dtype "$dtype" --batch "$batch" --steps 30 --json
    [[ -z $torch ]] ||
      measured "torch train $model $dtype $batch" 40 env LD_LIBRARY_PATH="$own_path" python3 tools/gpu/torch_ops.py train "$model" "$dtype" "$batch" 30
  done <<'MODELS'
char-gpt f32 16
gpt2-124m f32 64
gpt2-124m bf16 4
gpt2-124m bf16 64
cnn f32 64
MODELS
  measured ops 60 "$bin/device_ops" --device cuda --json
  [[ -z $torch ]] || measured "torch ops" 60 env LD_LIBRARY_PATH="$own_path" python3 tools/gpu/torch_ops.py ops

  # Last, as it is slow: what is cut off by the limit has been tested above without it.
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  if [[ -x $sanitizer ]]; then
    step memcheck 70 bash -c "kernel_tests '$sanitizer' --tool memcheck --error-exitcode 9"
    step racecheck 50 bash -c "kernel_tests '$sanitizer' --tool racecheck --error-exitcode 9"
  else
    echo "compute-sanitizer is not here; left out"
    record memcheck '{"status": -1, "last_line": "compute-sanitizer was not there"}'
  fi

  local target=${WEFT_GPU_RESULTS:-$folder/results.json}
  printf '{%s\n}\n' "$results" >"$target"
  python3 -m json.tool "$target" >/dev/null
  say "$failures failed; results in $target"
  ((failures == 0)) || exit 1
}

case ${1:-run} in
  prepare) prepare ;;
  run) run ;;
  *) die "usage: tools/gpu/check.sh [prepare | run]" ;;
esac
