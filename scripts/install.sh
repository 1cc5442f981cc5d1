#!/bin/sh
# Installs into a virtual environment, which is made if need be: install.sh VENV WHAT...
# By uv, which takes a tenth of pip's time: the one on the path, else one from the index; by pip where neither is to be had.
set -eu
venv=$1
shift
python=${PYTHON:-python3}
begun=$(date +%s)
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "error: $python is older than 3.11; hint: make PYTHON=python3.12 …" >&2; exit 1; }

uv=$(command -v uv || true)
[ -n "$uv" ] && "$uv" --version >/dev/null 2>&1 || uv=
if [ ! -x "$venv/bin/python" ]; then
    if [ -z "$uv" ] || ! "$uv" venv -q --seed --python "$python" "$venv"; then
        uv=
        rm -rf "$venv"
        "$python" -m venv "$venv" ||
            { echo "error: cannot make a virtual environment; hint: apt-get install python3-venv" >&2; exit 1; }
    fi
fi
if [ -z "$uv" ]; then
    echo "fetching uv, which installs faster than pip"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check uv && uv=$venv/bin/uv || echo "not to be had; pip does it"
fi
echo "installing into $venv: $*"
if [ -z "$uv" ] || ! "$uv" pip install --python "$venv/bin/python" "$@"; then
    "$venv/bin/python" -m pip install --disable-pip-version-check "$@"
fi
echo "installed in $(($(date +%s) - begun)) s"
