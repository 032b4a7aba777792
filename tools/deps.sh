#!/bin/sh
# Installs the Debian packages that the build and the tests need. Quick when all are there.
#
#   tools/deps.sh            what `make build` and `make test` need
#   tools/deps.sh lint       ... and clang 19 with its tools
#   tools/deps.sh bench      ... and the programs that benchmarks compare with
#
# Groups may be combined. Needs root or sudo only when something is missing.
set -eu

base="
  g++ cmake ninja-build ccache pkg-config git
  libcurl4-openssl-dev libssl-dev libboost1.81-dev
  nlohmann-json3-dev libsimdjson-dev libyaml-cpp-dev libpugixml-dev
  libhiredis-dev libsqlite3-dev libaio-dev libfuse3-dev fuse3
  libfmt-dev libspdlog-dev libcli11-dev prometheus-cpp-dev
  libzstd-dev liblz4-dev zlib1g-dev libxxhash-dev libhowardhinnant-date-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  redis-server redis-tools etcd-server
  python3 python3-venv python3-boto3
  maven default-jdk-headless
  curl openssl sqlite3 attr iproute2"
lint="clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev"
bench="wrk nginx-light fio s3fs redis-tools"

wanted=$base
for group in "$@"; do
  case $group in
    lint) wanted="$wanted $lint" ;;
    bench) wanted="$wanted $bench" ;;
    *) echo "usage: tools/deps.sh [lint] [bench]" >&2; exit 2 ;;
  esac
done

command -v dpkg-query >/dev/null || { echo "tools/deps.sh: needs Debian 12 or a relative of it" >&2; exit 1; }

# An unknown package makes dpkg-query fail, which only says that it is missing.
have=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
  sed -n 's/^installed //p' | tr '\n' ' ') "
missing=
for package in $wanted; do
  case $have in *" $package "*) ;; *) missing="$missing $package" ;; esac
done
[ -n "$missing" ] || exit 0

echo "tools/deps.sh: installing$missing"
if [ "$(id -u)" = 0 ]; then
  as_root=
else
  command -v sudo >/dev/null || { echo "tools/deps.sh: needs root or sudo" >&2; exit 1; }
  as_root=sudo
fi

# Tests start servers of their own: the packages' daemons would only hold ports and memory.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap '$as_root rm -f $policy' EXIT
  trap 'exit 1' HUP INT TERM
  printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
  $as_root chmod 755 $policy
fi

$as_root apt-get update -q
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -yq -o Dpkg::Use-Pty=0 \
  --no-install-recommends $missing
