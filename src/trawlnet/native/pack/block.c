/* Compresses each collection straight to its place in the block; nothing is put together afterwards. */
#include "block.h"

#include "crc32.h"
#include "proof.h"

enum { U16 = 2, U32 = 4, U64 = 8, U16_MAX = 65535 };
enum { FULL = 1 << 12, LONGEST_DID = FULL - 1 }; /* the form of a block, on top of the length of its DID */

static void put_number(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static void append_number(buffer *out, uint64_t value, size_t bytes)
{
    put_number(out->data + out->len, value, bytes);
    out->len += bytes;
}

static void append_text(buffer *out, text t)
{
    append_number(out, t.len, U16);
    if (t.len)
        memcpy(out->data + out->len, t.at, t.len);
    out->len += t.len;
}

static int is_short(text t) { return t.len <= U16_MAX; }

/* Bytes of everything before the compressed data; texts are short, so that this cannot overflow. */
static size_t head_size(const block_content *content)
{
    size_t size = U32 + 3 * U16 + content->did.len + content->pds.len + content->rev.len + U64 + U16 + U32;
    for (size_t i = 0; i < content->run_count; i++)
        size += U16 + content->runs[i].name.len + 2 * U32;
    return content->proof ? size + U32 : size;
}

static block_error check(const block_content *content)
{
    if (content->run_count > U16_MAX)
        return BLOCK_MANY_RUNS;
    if (content->did.len > LONGEST_DID || !is_short(content->pds) || !is_short(content->rev))
        return BLOCK_LONG_TEXT;
    for (size_t i = 0; i < content->run_count; i++)
        if (!is_short(content->runs[i].name))
            return BLOCK_LONG_TEXT;
    return BLOCK_OK;
}

/* What compressing needs at most is asked for run by run: all at once would be as much as the JSON. */
static block_error compress(buffer *out, text data, ZSTD_CCtx *context)
{
    size_t bound = ZSTD_compressBound(data.len);
    if (ZSTD_isError(bound))
        return BLOCK_NOT_COMPRESSED;
    if (!buffer_reserve(out, bound))
        return BLOCK_NO_MEMORY;
    size_t size = ZSTD_compress2(context, out->data + out->len, out->cap - out->len, data.at, data.len);
    if (ZSTD_isError(size))
        return BLOCK_NOT_COMPRESSED;
    out->len += size;
    return out->len > UINT32_MAX ? BLOCK_TOO_LARGE : BLOCK_OK;
}

static block_error compress_run(buffer *out, const run *r, size_t size_at, ZSTD_CCtx *context)
{
    size_t start = out->len;
    block_error error = compress(out, r->data, context);
    if (!error)
        put_number(out->data + size_at, out->len - start, U32);
    return error;
}

static void append_bytes(buffer *out, text t, size_t least)
{
    if (t.len)
        memcpy(out->data + out->len, t.at, t.len);
    if (t.len < least)
        memset(out->data + out->len + t.len, 0, least - t.len);
    out->len += t.len < least ? least : t.len;
}

static block_error append_proof(buffer *out, const block_proof *proof, size_t size_at, ZSTD_CCtx *context)
{
    size_t start = out->len;
    block_error error = BLOCK_OK;
    if (!buffer_reserve(out, KEY_BYTES + SIGNATURE + proof->sums.len))
        return BLOCK_NO_MEMORY;
    append_bytes(out, proof->key, KEY_BYTES);
    append_bytes(out, (text){proof->signature, SIGNATURE}, 0);
    append_bytes(out, proof->sums, 0);
    if (proof->exceptions.len)
        error = compress(out, proof->exceptions, context);
    if (!error)
        put_number(out->data + size_at, out->len - start, U32);
    return error;
}

/* In version 1 of what is behind it; in version 2 of all else. */
static uint32_t block_crc(const buffer *out, size_t checked, int all)
{
    uint32_t crc = all ? crc32_ieee(0, out->data, checked - U32) : 0;
    return crc32_ieee(crc, out->data + checked, out->len - checked);
}

block_error block_encode(buffer *out, const block_content *content, ZSTD_CCtx *context)
{
    block_error error = check(content);
    if (error)
        return error;
    if (!buffer_reserve(out, head_size(content)))
        return BLOCK_NO_MEMORY;
    out->len += U32; /* the size, known at the end */
    append_text(out, content->did);
    if (content->proof)
        put_number(out->data + U32, content->did.len | FULL, U16);
    append_text(out, content->pds);
    append_text(out, content->rev);
    append_number(out, (uint64_t)content->crawled_at_us, U64);
    append_number(out, content->run_count, U16);
    const size_t checked = out->len + U32;
    out->len = checked;
    for (size_t i = 0; i < content->run_count; i++) {
        append_text(out, content->runs[i].name);
        append_number(out, content->runs[i].records, U32);
        out->len += U32;
    }
    const size_t proof_at = out->len;
    out->len += content->proof ? U32 : 0;
    size_t at = checked;
    for (size_t i = 0; !error && i < content->run_count; i++) {
        at += U16 + content->runs[i].name.len + 2 * U32;
        error = compress_run(out, &content->runs[i], at - U32, context);
    }
    if (!error && content->proof)
        error = append_proof(out, content->proof, proof_at, context);
    if (error)
        return error;
    if (out->len > UINT32_MAX)
        return BLOCK_TOO_LARGE;
    put_number(out->data, out->len, U32);
    put_number(out->data + checked - U32, block_crc(out, checked, content->proof != NULL), U32);
    return BLOCK_OK;
}
