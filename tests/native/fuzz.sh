#!/bin/sh
# Fuzzes the C extraction under AddressSanitizer and UBSan: fuzz.sh [SECONDS] [SEED]
set -eu
seconds=${1:-20}
seed=${2:-1}
here=$(cd "$(dirname "$0")" && pwd)
native=$here/../../src/trawlnet/formats/native
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
python=${PYTHON:-$here/../../.venv/bin/python}

"$python" "$here/corpus.py" "$build/corpus"
sources=$(find "$native" -name '*.c' ! -name module.c)
# shellcheck disable=SC2086  # The list of sources is meant to split.
${CC:-cc} -std=gnu11 -O1 -g -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover=all \
    ${FUZZ_CFLAGS:-} -I"$native" -o "$build/fuzz" "$here/fuzz_extract.c" $sources -lm \
    -Wl,--wrap=malloc,--wrap=realloc
"$build/fuzz" "$seconds" "$seed" "$build"/corpus/*.car
