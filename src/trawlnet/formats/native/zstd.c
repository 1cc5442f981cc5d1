/* Finds zstd's functions in a library. */
#include "zstd.h"

#ifdef _WIN32

const char *zstd_load(zstd *into, const char *library)
{
    (void)into;
    (void)library;
    return "dlopen";
}

#else

#include <dlfcn.h>
#include <string.h>

const char *zstd_load(zstd *into, const char *library)
{
    static const struct {
        size_t place;
        const char *name;
    } wanted[] = {
        {offsetof(zstd, create), "ZSTD_createCCtx"},
        {offsetof(zstd, destroy), "ZSTD_freeCCtx"},
        {offsetof(zstd, set), "ZSTD_CCtx_setParameter"},
        {offsetof(zstd, compress), "ZSTD_compress2"},
        {offsetof(zstd, bound), "ZSTD_compressBound"},
        {offsetof(zstd, is_error), "ZSTD_isError"},
        {offsetof(zstd, version), "ZSTD_versionNumber"},
    };
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (!handle)
        return library;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(handle, wanted[i].name);
        if (!found)
            return wanted[i].name;
        memcpy((char *)into + wanted[i].place, &found, sizeof found);
    }
    return NULL; /* The handle stays: the functions are used until the process ends. */
}

#endif
