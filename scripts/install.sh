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
    # Without pip: to unpack one takes longer than to fetch uv.
    "$python" -m venv --without-pip "$venv" ||
        { echo "error: cannot make a virtual environment; hint: apt-get install python3-venv" >&2; exit 1; }
fi

# The environment's own pip, made if need be.
with_pip() {
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null ||
        { echo "error: $python has no pip; hint: apt-get install python3-venv" >&2; exit 1; }
    "$venv/bin/python" -m pip "$@"
}

if [ -z "$uv" ] && [ -x "$venv/uv/bin/uv" ]; then
    uv=$venv/uv/bin/uv
elif [ -z "$uv" ]; then
    echo "fetching uv, which installs faster than pip"
    fetch="install -q --disable-pip-version-check --root-user-action=ignore --target $venv/uv uv"
    # By whichever pip is there.
    # shellcheck disable=SC2086  # Words.
    if "$python" -m pip $fetch 2>/dev/null || with_pip $fetch; then
        uv=$venv/uv/bin/uv
    else
        echo "not to be had; pip does it"
    fi
fi
echo "installing into $venv: $*"
if [ -z "$uv" ] || ! "$uv" pip install --python "$venv/bin/python" "$@"; then
    with_pip install --disable-pip-version-check "$@"
fi
echo "installed in $(($(date +%s) - begun)) s"
