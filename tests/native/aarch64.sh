#!/bin/sh
# Runs the tests of the native code as compiled for aarch64, from its wheel: aarch64.sh WHEEL [FOLDER]
# In a Debian for that processor, under qemu-user; needs root, debootstrap and qemu-user-static. FOLDER keeps it for the next run.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(realpath "$1")
folder=${2:-}
if [ -z "$folder" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
debian=$folder/debian
packages=$folder/packages
uv=$(command -v uv || true)
[ -n "$uv" ] || { echo "error: uv is not installed; hint: pip install uv" >&2; exit 1; }

if [ ! -e "$debian/usr/bin/python3.11" ]; then
    debootstrap --foreign --variant=minbase --arch=arm64 --include=python3.11,libpython3.11-stdlib bookworm "$debian" >/dev/null
    # Unpacked is enough: nothing of it has to be set up.
    for package in "$debian"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$debian"; done
fi
rm -rf "$packages"
"$uv" pip install -q --python-platform aarch64-unknown-linux-gnu --python-version 3.11 --only-binary :all: \
    --target "$packages" "trawlnet[sim] @ file://$wheel" pytest pytest-timeout pytest-xdist hypothesis zstandard
cd "$root"
# Two tests start a Python of their own, which this processor cannot run by itself: they are left out.
# shellcheck disable=SC2046  # The list of tests is meant to split.
PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 TRAWLNET_NATIVE=require TRAWLNET_TWIN_ROUNDS=${TRAWLNET_TWIN_ROUNDS:-1000} \
    qemu-aarch64-static -L "$debian" "$debian/usr/bin/python3.11" -c '
import platform, sys
import trawlnet.native.loader as loader
print(platform.machine(), loader.native.__file__, loader.native.ZSTD_VERSION)
assert platform.machine() == "aarch64" and loader.page_reader() is not None
import pytest
sys.exit(pytest.main(sys.argv[1:]))' -q -o pythonpath=. -k "not one_zstd_in_a_process and not powers_of_ten_are_those" \
    $(cat tests/native/of_a_wheel.txt)
