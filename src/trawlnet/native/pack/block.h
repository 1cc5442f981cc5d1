/* One repository as a block of the archive: names, table of contents, compressed collections. */
#ifndef TRAWLNET_BLOCK_H
#define TRAWLNET_BLOCK_H

#include <zstd.h>

#include "repoblock.h"

typedef struct {
    text name;
    uint32_t records;
    text data;
} run;

/* What the block of version 2 has behind its collections. */
typedef struct {
    text key;        /* KEY_BYTES, or none */
    const uint8_t *signature;
    text sums;
    text exceptions; /* not compressed yet */
} block_proof;

typedef struct {
    text did, pds, rev;
    int64_t crawled_at_us;
    const run *runs; /* by name */
    size_t run_count;
    const block_proof *proof; /* NULL: a block of version 1 */
} block_content;

typedef enum {
    BLOCK_OK = 0,
    BLOCK_LONG_TEXT,      /* a text of more than 65,535 bytes */
    BLOCK_MANY_RUNS,      /* more than 65,535 collections */
    BLOCK_TOO_LARGE,      /* 4 GiB or more */
    BLOCK_NOT_COMPRESSED, /* an error of zstd's */
    BLOCK_NO_MEMORY
} block_error;

/* Into `out`, which comes empty. */
block_error block_encode(buffer *out, const block_content *content, ZSTD_CCtx *context);

#endif
