#!/usr/bin/env bash
# Runs every benchmark that prints ratios, one after the other; fails if one is below its bar.
# Each builds the release programs it needs.
set -uo pipefail
cd "$(dirname "$0")"
failed=0
for bench in ./*.sh ./*.py; do
  [[ $bench == ./run.sh || ! -x $bench ]] && continue
  echo "== ${bench#./}"
  "$bench" || failed=1
done
exit $failed
