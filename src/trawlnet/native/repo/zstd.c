/* Finds zstd's functions in a library. */
#include "zstd.h"

#include "symbols.h"

const char *zstd_load(zstd *into, const char *library)
{
    static const symbol wanted[] = {
        {offsetof(zstd, create), "ZSTD_createCCtx"},
        {offsetof(zstd, destroy), "ZSTD_freeCCtx"},
        {offsetof(zstd, set), "ZSTD_CCtx_setParameter"},
        {offsetof(zstd, compress), "ZSTD_compress2"},
        {offsetof(zstd, bound), "ZSTD_compressBound"},
        {offsetof(zstd, is_error), "ZSTD_isError"},
        {offsetof(zstd, version), "ZSTD_versionNumber"},
    };
    return symbols_find(into, library, LOAD, wanted, sizeof wanted / sizeof *wanted);
}
