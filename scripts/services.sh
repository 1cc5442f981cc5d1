#!/bin/sh
# Install the servers that the contract tests start as private instances. Nothing is left running.
set -eu
missing=
command -v redis-server >/dev/null || missing="$missing redis-server"
command -v rabbitmq-server >/dev/null || [ -x /usr/sbin/rabbitmq-server ] || missing="$missing rabbitmq-server"
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
command -v chromium >/dev/null || missing="$missing chromium"
command -v chromedriver >/dev/null || missing="$missing chromium-driver"
command -v promtool >/dev/null || missing="$missing prometheus"
for shell in zsh fish; do command -v $shell >/dev/null || missing="$missing $shell"; done
command -v man >/dev/null || missing="$missing man-db"
command -v cc >/dev/null || missing="$missing gcc"
[ -e /usr/include/zstd.h ] || missing="$missing libzstd-dev"
command -v clang >/dev/null || missing="$missing clang"
ls /usr/lib/clang/*/lib/linux/libclang_rt.fuzzer-* /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-* \
  2>/dev/null | grep -q . || missing="$missing libclang-rt-dev"
if [ -z "$missing" ]; then
  echo "services: all installed"
  exit 0
fi
if [ "$(id -u)" != 0 ]; then
  echo "error: missing:$missing; hint: sudo apt-get install$missing" >&2
  exit 1
fi
echo "services: installing$missing"
# A package would start its server at once; policy-rc.d says no.
policy=/usr/sbin/policy-rc.d
made=
if [ ! -e "$policy" ]; then printf '#!/bin/sh\nexit 101\n' > "$policy"; chmod +x "$policy"; made=yes; fi
trap '[ -z "$made" ] || rm -f "$policy"' EXIT
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # The list is meant to be split.
apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo "services: done"
