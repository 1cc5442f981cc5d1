#!/bin/sh
# Fuzzes the C code under AddressSanitizer and UBSan: fuzz.sh [SECONDS] [SEED] [TARGET...], the time for each target.
# With clang and its runtime libFuzzer follows what each input reaches; with gcc alone a corpus is mutated blindly.
# FUZZ_CORPUS=FOLDER keeps what libFuzzer found worth keeping, for the next run. FUZZ_CFLAGS=-DCOPY_SLACK=64 makes
# wide reads wider, which nothing may depend on.
set -eu
seconds=${1:-20}
seed=${2:-1}
shift $(($# < 2 ? $# : 2))
here=$(cd "$(dirname "$0")" && pwd)
src=$here/../../src
native=$src/trawlnet/native
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
python=${PYTHON:-$here/../../.venv/bin/python}
shortest=65536 longest=4194304 # Bytes of an input: most of the time the first, then the second.
sanitizers=address,undefined

# The first clang that can link libFuzzer, or nothing.
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' >"$build/try.c"
guided=
for clang in ${FUZZ_CLANG-clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14}; do
    if $clang -fsanitize=fuzzer,$sanitizers -o "$build/try" "$build/try.c" 2>/dev/null; then
        guided=$clang
        break
    fi
done
rm -f "$build/try.c"
flags="-std=gnu11 -O1 -g -Wall -Wextra -fno-sanitize-recover=all ${FUZZ_CFLAGS:-} -I$native/repo -I$native/json -I$native/hash -I$native/live -I$native/plc"
if [ -n "$guided" ]; then
    cc="$guided $flags -DLIBFUZZER -fsanitize=fuzzer-no-link,$sanitizers"
    link="$guided $flags -fsanitize=fuzzer,$sanitizers"
else
    cc="${CC:-cc} $flags -fsanitize=$sanitizers"
    link=$cc
fi

# shellcheck disable=SC2086  # Flags and sources are meant to split, here and below.
compile() { # FOLDER FLAG_OR_SOURCE...
    mkdir -p "$build/$1"
    (cd "$build/$1" && shift && $cc -c "$@")
}

# shellcheck disable=SC2086
build_target() { # TARGET
    wrapped=-Wl,--wrap=malloc,--wrap=realloc
    if [ "$1" != page ]; then
        [ -d "$build/core.o" ] || compile core.o "$here/fuzz_driver.c" \
            $(find "$native/repo" "$native/json" "$native/hash" "$native/live" "$native/plc" -name '*.c' ! -name 'module*.c')
        compile "$1.o" "$here/fuzz_$1.c"
        $link -o "$build/$1" "$build/$1.o"/*.o "$build"/core.o/*.o -lm $wrapped
        return
    fi
    eval "$("$python" -c 'import sysconfig as s
print("include=" + s.get_path("include"), "lib=" + s.get_config_var("LIBDIR"), "version=" + s.get_config_var("LDVERSION"))')"
    # shellcheck disable=SC2154  # The interpreter says where it is.
    compile page.o -isystem "$include" "$here/fuzz_driver.c" "$here/fuzz_page.c" "$native"/page/*.c
    $link -o "$build/page" "$build"/page.o/*.o -L"$lib" -Wl,-rpath,"$lib" "-lpython$version" -ldl -lm $wrapped
}

guided() { # TARGET SECONDS LONGEST
    found=${FUZZ_CORPUS:-$build/found}/$1
    mkdir -p "$found"
    "$build/$1" -max_total_time="$2" -seed="$seed" -max_len="$3" -timeout=60 -rss_limit_mb=4096 \
        -print_final_stats=1 -artifact_prefix=fuzz.finding. "$found" "$build/corpus/$1" >>"$build/$1.log" 2>&1 ||
        { tail -60 "$build/$1.log" >&2; return 1; }
}

run_guided() { # TARGET
    guided "$1" $((seconds - seconds / 4)) "$shortest"
    guided "$1" $((seconds / 4 + 1)) "$longest"
    awk -v seed="$seed" -v seeds="$(find "$build/corpus/$1" -type f | wc -l)" '
        /stat::number_of_executed_units/ {runs += $2}
        match($0, /cov: [0-9]+/) {cov = substr($0, RSTART + 5, RLENGTH - 5)}
        END {printf "%d executions, seed %s, %d seeds, %d edges covered, no findings\n", runs, seed, seeds, cov}' "$build/$1.log"
}

"$python" "$here/corpus.py" "$build/corpus"
for target in ${*:-extract live records proofs numbers plc page}; do
    build_target "$target"
    # What the interpreter keeps until it ends is no leak of ours.
    leaks=1
    if [ "$target" = page ]; then leaks=0; fi
    export ASAN_OPTIONS="detect_leaks=$leaks:allocator_may_return_null=1"
    if [ "$target" = page ]; then
        PYTHONPATH="$here:$src:$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
        PYTHONHOME=$("$python" -c 'import sys; print(sys.base_prefix)')
        # Every object has memory of its own, so that reading past its end is seen.
        PYTHONMALLOC=malloc TRAWLNET_NATIVE=0
        export PYTHONPATH PYTHONHOME PYTHONMALLOC TRAWLNET_NATIVE
    fi
    printf '%s: ' "$target"
    if [ -n "$guided" ]; then
        run_guided "$target"
    else
        "$build/$target" "$seconds" "$seed" "$build/corpus/$target"/*
    fi
done
