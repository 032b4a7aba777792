#!/usr/bin/env bash
# Formatting, layers, and clang 19: thread-safety analysis as part of the compile, then clang-tidy.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

tools/check_layers.py
git ls-files '*.cc' '*.h' | xargs clang-format-19 --dry-run --Werror
make build/clang/build.ninja build/tidy/build.ninja
cmake --build --preset clang -j "$jobs"
tools/tidy.py --jobs "$jobs"
