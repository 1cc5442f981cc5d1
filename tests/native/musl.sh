#!/bin/sh
# Runs the tests of the native code as compiled for musl, from its wheel, and a crawl with it: musl.sh WHEEL [FOLDER]
# By a Python that musl_python.sh builds; needs what that needs, and uv. FOLDER keeps it for the next run.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(realpath "$1")
folder=${2:-}
if [ -z "$folder" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
uv=$(command -v uv || true)
[ -n "$uv" ] || { echo "error: uv is not installed; hint: pip install uv" >&2; exit 1; }
export UV="$uv"
"$root/tests/native/musl_python.sh" "$folder/python"
python=$(realpath "$folder/python")/bin/python3.11

rm -rf "$folder/tested"
"$uv" venv -q --python "$python" "$folder/tested"
# lmdb has no wheel for musl: it alone is compiled.
CC=$(realpath "$folder/python")/parts/cc "$uv" pip install -q --python "$folder/tested/bin/python" --only-binary :all: --no-binary lmdb \
    "trawlnet[redis,sim] @ file://$wheel" pytest pytest-timeout pytest-xdist hypothesis zstandard
cd "$root"
# shellcheck disable=SC2046  # The list of tests is meant to split.
PYTHONDONTWRITEBYTECODE=1 TRAWLNET_NATIVE=require TRAWLNET_TWIN_ROUNDS=${TRAWLNET_TWIN_ROUNDS:-1000} \
    "$folder/tested/bin/python" -c '
import sys, sysconfig
import trawlnet.native.loader as loader
print(sysconfig.get_config_var("SOABI"), loader.native.__file__, loader.native.ZSTD_VERSION)
assert sysconfig.get_config_var("SOABI").endswith("-musl") and loader.page_reader() is not None
import pytest
sys.exit(pytest.main(sys.argv[1:]))' -q -o pythonpath=. \
    $(cat tests/native/of_a_wheel.txt)
"$python" scripts/trial.py "$folder/tested"
