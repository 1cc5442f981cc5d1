/* One record: into its collection's run of the output, or counted as dropped. */
#include "proof.h"

#include <stdlib.h>

static repo_error drop(repo *r, drop_reason why, const leaf *l)
{
    r->dropped[why]++;
    r->told++;
    return r->options.proof ? proof_left_out(r, l) : REPO_OK;
}

static int is_wanted(const repo *r, const uint8_t *name, size_t len)
{
    for (size_t i = 0; i < r->options.pattern_count; i++)
        if (pattern_matches(&r->options.patterns[i], (const char *)name, len))
            return 1;
    return r->options.pattern_count == 0;
}

/* For a few dozen bytes quicker than calling memcmp. */
static inline int same_bytes(const uint8_t *a, const uint8_t *b, size_t len)
{
    uint64_t x, y, differ = 0;
    if (len < sizeof x)
        return memcmp(a, b, len) == 0;
    for (size_t i = 0; i < len; i += sizeof x) {
        size_t at = i + sizeof x <= len ? i : len - sizeof x;
        memcpy(&x, a + at, sizeof x);
        memcpy(&y, b + at, sizeof y);
        differ |= x ^ y;
    }
    return !differ;
}

/* The length of the last collection's name if the key is one of its, else 0. */
static size_t current_name(const repo *r, const uint8_t *key, size_t len)
{
    if (!r->collection_count)
        return 0;
    const collection *c = &r->collections[r->collection_count - 1];
    if (len <= c->name_len || key[c->name_len] != '/')
        return 0;
    return same_bytes(r->names.data + c->name, key, c->name_len) ? c->name_len : 0;
}

static repo_error open_collection(repo *r, const uint8_t *name, size_t len, const uint8_t *at)
{
    if (r->collection_count == MAX_COLLECTIONS)
        return repo_fail(r, REPO_OVER_LIMIT, "too many collections", at);
    if (r->collection_count == r->collection_cap) {
        size_t cap = r->collection_cap ? r->collection_cap * 2 : 16;
        collection *grown = realloc(r->collections, cap * sizeof *grown);
        if (!grown)
            return REPO_NO_MEMORY;
        r->collections = grown;
        r->collection_cap = cap;
    }
    if (!buffer_reserve(&r->names, len))
        return REPO_NO_MEMORY;
    r->collections[r->collection_count++] =
        (collection){.name = r->names.len, .name_len = (uint16_t)len, .start = r->out.len, .end = r->out.len};
    memcpy(r->names.data + r->names.len, name, len);
    r->names.len += len;
    return repo_charge(r, COLLECTION_COST + len, at);
}

static void put_u16(uint8_t *at, size_t v)
{
    at[0] = (uint8_t)v;
    at[1] = (uint8_t)(v >> 8);
}

static void put_u32(uint8_t *at, size_t v)
{
    put_u16(at, v & 0xffff);
    put_u16(at + 2, v >> 16);
}

static size_t get_u32(const uint8_t *at)
{
    return at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

/* The same block may stand under any number of keys: it is read once, and its JSON copied from there on. */
static drop_reason append_again(buffer *out, size_t json)
{
    size_t len = 4 + get_u32(out->data + json);
    if (!buffer_reserve(out, len))
        return DROP_NO_MEMORY;
    memcpy(out->data + out->len, out->data + json, len);
    out->len += len;
    return DROP_NONE;
}

/* Appends [u16 rkey][u32 json]; on a drop the output is as it was. */
static drop_reason append(repo *r, const uint8_t *rkey, size_t rkey_len, block *b)
{
    buffer *out = &r->out;
    size_t start = out->len;
    if (b->len > r->options.max_record)
        return DROP_TOO_LARGE;
    if (!buffer_reserve(out, rkey_len + 6 + COPY_SLACK))
        return DROP_NO_MEMORY;
    put_u16(out->data + start, rkey_len);
    copy_short(out->data + start + 2, rkey, rkey_len);
    if (b->json) {
        out->len = start + rkey_len + 2;
        return append_again(out, b->json);
    }
    size_t json = start + rkey_len + 6;
    out->len = json;
    drop_reason why = json_from_cbor(r, r->car + b->start, b->len, out, &b->odd);
    if (!why && out->len - json > r->options.max_json)
        why = DROP_TOO_LARGE;
    if (why) {
        out->len = start;
        return why;
    }
    b->json = json - 4;
    put_u32(out->data + b->json, out->len - json);
    return DROP_NONE;
}

repo_error record_add(repo *r, const leaf *l)
{
    const uint8_t *key = l->key;
    const size_t len = l->len;
    block *b = l->record;
    const uint8_t *at = b ? r->car + b->start : r->car;
    /* Keys come sorted, so each collection is one run; once it is open, its name has passed these tests. */
    size_t name_len = current_name(r, key, len);
    int current = name_len != 0;
    if (!current) {
        const uint8_t *slash = memchr(key, '/', len);
        if (!slash)
            return drop(r, DROP_BAD_PATH, l);
        name_len = (size_t)(slash - key);
        if (!is_nsid(key, name_len))
            return drop(r, DROP_BAD_COLLECTION, l);
        if (!is_wanted(r, key, name_len)) {
            r->filtered++;
            return r->options.proof ? proof_left_out(r, l) : REPO_OK;
        }
    }
    const uint8_t *rkey = key + name_len + 1;
    size_t rkey_len = len - name_len - 1;
    if (!is_rkey(rkey, rkey_len))
        return drop(r, DROP_BAD_RKEY, l);
    if (!b)
        return drop(r, DROP_BAD_CID, l);
    if (b->dropped)
        return drop(r, b->dropped, l);

    repo_error error = current ? REPO_OK : open_collection(r, key, name_len, at);
    if (error)
        return error;
    collection *c = &r->collections[r->collection_count - 1];
    drop_reason why = append(r, rkey, rkey_len, b);
    if (why == DROP_NO_MEMORY)
        return REPO_NO_MEMORY;
    if (why) {
        b->dropped = (uint8_t)why;
        return drop(r, why, l);
    }
    size_t before = c->end;
    c->end = r->out.len;
    c->records++;
    r->records++;
    r->told++;
    error = repo_charge(r, c->end - before, at);
    return error || !r->options.proof ? error : proof_kept(r, b);
}
