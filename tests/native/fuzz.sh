#!/bin/sh
# Fuzzes the C code under AddressSanitizer and UBSan: fuzz.sh [SECONDS] [SEED] [TARGET...], the time for each target.
set -eu
seconds=${1:-20}
seed=${2:-1}
shift $(($# < 2 ? $# : 2))
here=$(cd "$(dirname "$0")" && pwd)
native=$here/../../src/trawlnet/formats/native
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
python=${PYTHON:-$here/../../.venv/bin/python}

"$python" "$here/corpus.py" "$build/corpus"
flags="-std=gnu11 -O1 -g -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover=all ${FUZZ_CFLAGS:-} -I$native"
# shellcheck disable=SC2086  # Flags and sources are meant to split.
(cd "$build" && ${CC:-cc} $flags -c "$here/fuzz_driver.c" $(find "$native" -maxdepth 1 -name '*.c' ! -name 'module*.c'))
for target in ${*:-extract records}; do
    # shellcheck disable=SC2086
    ${CC:-cc} $flags -o "$build/$target" "$here/fuzz_$target.c" "$build"/*.o -lm -Wl,--wrap=malloc,--wrap=realloc
    printf '%s: ' "$target"
    "$build/$target" "$seconds" "$seed" "$build/corpus/$target"/*
done
