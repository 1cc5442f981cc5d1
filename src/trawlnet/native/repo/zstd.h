/* The few functions of zstd that packing needs, found in a library that Python's zstandard brings along: all of them
 * belong to zstd's stable interface and take opaque pointers. */
#ifndef TRAWLNET_ZSTD_H
#define TRAWLNET_ZSTD_H

#include <stddef.h>

typedef struct zstd_context zstd_context;

enum { ZSTD_LEVEL = 100 }; /* zstd's number for this parameter */

typedef struct {
    zstd_context *(*create)(void);
    size_t (*destroy)(zstd_context *);
    size_t (*set)(zstd_context *, int parameter, int value);
    size_t (*compress)(zstd_context *, void *to, size_t room, const void *from, size_t len);
    size_t (*bound)(size_t len);
    unsigned (*is_error)(size_t result);
    unsigned (*version)(void);
} zstd;

/* NULL, or the name of what is missing. */
const char *zstd_load(zstd *into, const char *library);

#endif
