#!/usr/bin/env bash
# Our pipelined Redis commands a second beside redis-benchmark's, on one server, in turns. Prints the
# ratio of the medians for each command and fails below the bar.
set -euo pipefail
cd "$(dirname "$0")/.."
requests=${REQUESTS:-1000000} clients=${CLIENTS:-50} pipeline=${PIPELINE:-100} rounds=${ROUNDS:-5}
bar=0.8

make build/release/build.ninja
cmake --build --preset release --target redis_bench >&2

coproc PEER { tests/peers/peer serve redis; }
trap 'exec {PEER[1]}>&-; wait "$PEER_PID" 2>/dev/null || true' EXIT
read -r description <&"${PEER[0]}"
port=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["port"])' "$description")

theirs() { # COMMAND...
  redis-benchmark -h 127.0.0.1 -p "$port" -c "$clients" -P "$pipeline" -n "$requests" -r 100000 \
    --csv "$@" | tail -n 1 | awk -F '","|"' '{ printf "%.0f\n", $3 }'
}
ours() { # set|get|hset
  build/release/bin/redis_bench "redis://127.0.0.1:$port/0" "$1" "$requests" "$clients" "$pipeline"
}
median() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }

declare -A command=(
  [set]="SET key:__rand_int__ 0123456789abcdef"
  [get]="GET key:__rand_int__"
  [hset]="HSET myhash key:__rand_int__ 0123456789abcdef"
)
failed=0
printf '%-6s %12s %16s %6s\n' "" "ours/s" "redis-benchmark/s" "ratio"
for name in set get hset; do
  mine=() other=()
  for ((round = 0; round < rounds; round++)); do
    # shellcheck disable=SC2086 # the command is several words
    other+=("$(theirs ${command[$name]})")
    mine+=("$(ours "$name")")
  done
  a=$(printf '%s\n' "${mine[@]}" | median)
  b=$(printf '%s\n' "${other[@]}" | median)
  ratio=$(awk "BEGIN { printf \"%.2f\", $a / $b }")
  printf '%-6s %12s %16s %6s\n' "$name" "$a" "$b" "$ratio"
  awk "BEGIN { exit !($ratio < $bar) }" && failed=1
done
if ((failed)); then
  echo "below the bar of $bar" >&2
  exit 1
fi
