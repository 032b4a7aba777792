#!/usr/bin/env bash
# Runs every benchmark that exists and prints its ratios. Builds the release programs they need.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --build --preset release -j "${JOBS:-$(nproc)}" --target redis_bench
bench/redis.sh
