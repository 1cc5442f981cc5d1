#!/bin/sh
# Builds the extension with AddressSanitizer and UBSan into a temporary folder and runs its tests on that build:
# once as compiled here, once with the portable code in place of the processor's own instructions; then fuzzes.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
tests="tests/unit/test_block_encoder.py tests/unit/test_zstd.py tests/unit/test_pack.py tests/unit/test_native_crc32.py tests/property/test_native_twin.py tests/property/test_record_counts.py tests/property/test_page_links.py tests/unit/test_repoblock.py tests/unit/test_repoblock_refusals.py tests/unit/test_record_text.py tests/unit/test_firehose_frames.py tests/unit/test_firehose_hostile.py tests/property/test_firehose_twin.py tests/unit/test_proofs.py tests/property/test_proof_twin.py tests/property/test_usual_lines.py"

checked() {
    portable=$1
    lib=$build/lib$portable
    mkdir -p "$lib"
    (cd "$root/src" && find trawlnet -name '*.py' | tar cf - -T -) | tar xf - -C "$lib"
    (cd "$root" && TRAWLNET_NATIVE=require TRAWLNET_SANITIZE=1 TRAWLNET_PORTABLE=$portable \
        "$python" setup.py -q build_ext --force --build-lib "$lib" --build-temp "$build/temp$portable" 2>"$build/log$portable") ||
        { cat "$build/log$portable" >&2; return 1; }
    # Leaks are not looked for: the interpreter itself keeps much until it ends. The fuzzer looks for them.
    # shellcheck disable=SC2086  # The list of tests is meant to split.
    (cd "$root" && LD_PRELOAD="$(${CC:-cc} -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
        TRAWLNET_NATIVE=require TRAWLNET_TWIN_ROUNDS="${TRAWLNET_TWIN_ROUNDS:-2000}" PYTHONPATH=$lib \
        "$python" -m pytest -q -p no:cacheprovider $tests)
}

# Side by side: each takes one processor for minutes.
checked 1 >"$build/portable" 2>&1 &
portable_build=$!
checked 0
wait "$portable_build" || { cat "$build/portable" >&2; exit 1; }
cat "$build/portable"
"$root/tests/native/fuzz.sh" "${FUZZ_SECONDS:-4}" "${FUZZ_SEED:-1}"
# Nothing may lean on how few bytes a wide read takes beyond what it was asked for.
FUZZ_CFLAGS=-DCOPY_SLACK=64 "$root/tests/native/fuzz.sh" 2 "${FUZZ_SEED:-1}" extract
