#!/usr/bin/env bash
# Builds the libFuzzer targets and runs each for FUZZ_SECONDS, starting from the kept seeds. A crash
# leaves its input in build/fuzz/crashes; copy it to tests/fuzz/seeds/<target>/ with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}

make build/fuzz/build.ninja
cmake --build --preset fuzz -j "$(nproc)" --target fuzzers
mkdir -p build/fuzz/crashes
for seeds in tests/fuzz/seeds/*/; do
  name=$(basename "$seeds")
  mkdir -p "build/fuzz/corpus/$name"
  echo "== $name"
  "build/fuzz/bin/fuzz_$name" -max_total_time="$seconds" -print_final_stats=0 -verbosity=0 \
    -artifact_prefix="build/fuzz/crashes/$name-" "build/fuzz/corpus/$name" "$seeds"
done
