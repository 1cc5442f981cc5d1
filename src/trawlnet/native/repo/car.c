/* CARv1: frames in, an index of blocks by digest out. */
#include "repoblock.h"

const uint8_t CID_PREFIX[4] = {0x01, 0x71, 0x12, 0x20}; /* v1, DAG-CBOR, SHA-256, 32 bytes */

enum { VARINT_OK, VARINT_CUT, VARINT_BAD };

/* Unsigned varints of at most nine bytes, in their only shortest form. */
static inline int varint(cursor *c, uint64_t *value)
{
    uint64_t v = 0;
    if (c->end - c->at >= 2 && c->at[0] >= 0x80 && c->at[1] - 1u < 0x7f) {
        *value = (uint64_t)(c->at[0] & 0x7f) | (uint64_t)c->at[1] << 7;
        c->at += 2;
        return VARINT_OK;
    }
    for (int shift = 0; shift < 63; shift += 7) {
        if (c->at == c->end)
            return VARINT_CUT;
        uint8_t byte = *c->at++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *value = v;
            return byte == 0 && shift ? VARINT_BAD : VARINT_OK;
        }
    }
    return VARINT_BAD;
}

/* The length of the CIDv1 that `at` begins with, or 0. */
size_t cid_parse(const uint8_t *at, size_t len, int *is_sha256)
{
    cursor c = {at, at + len};
    uint64_t version, codec, hash, digest;
    if (varint(&c, &version) || version != 1 || varint(&c, &codec) || varint(&c, &hash) || varint(&c, &digest))
        return 0;
    if (digest > MAX_CID || digest > (size_t)(c.end - c.at))
        return 0;
    size_t size = (size_t)(c.at - at) + (size_t)digest;
    *is_sha256 = hash == 0x12 && digest == DIGEST;
    return size <= MAX_CID ? size : 0;
}

static repo_error load_header(repo *r, cursor *c)
{
    const uint8_t *start = c->at, *key, *root = NULL;
    uint64_t len, version = 0;
    size_t key_len;
    head h;

    switch (varint(c, &len)) {
    case VARINT_CUT: return repo_fail(r, REPO_TRUNCATED, "the header's length is cut", start);
    case VARINT_BAD: return repo_fail(r, REPO_BAD_CAR, "the header's length is no varint", start);
    }
    if (len > (size_t)(c->end - c->at))
        return repo_fail(r, REPO_TRUNCATED, "the header is cut", start);
    cursor in = {c->at, c->at + len};
    c->at = in.end;
    if (!cbor_head(&in, &h) || h.major != 5)
        return repo_fail(r, REPO_BAD_CAR, "the header is no map", start);
    for (uint64_t n = h.arg; n; n--) {
        head v;
        if (!cbor_span(&in, 3, &key, &key_len))
            return repo_fail(r, REPO_BAD_CAR, "a header key is no text", in.at);
        cursor value = in;
        if (!cbor_skip(&in, 1))
            return repo_fail(r, REPO_BAD_CAR, "a header value is malformed", in.at);
        if (key_len == 7 && memcmp(key, "version", 7) == 0) {
            version = cbor_head(&value, &v) && v.major == 0 ? v.arg : 0;
        } else if (key_len == 5 && memcmp(key, "roots", 5) == 0) {
            if (!cbor_head(&value, &v) || v.major != 4 || v.arg == 0 || !cbor_sha256_link(&value, &root))
                return repo_fail(r, REPO_BAD_CAR, "the first root is no DAG-CBOR SHA-256 link", value.at);
        }
    }
    if (in.at != in.end)
        return repo_fail(r, REPO_BAD_CAR, "bytes follow the header's map", in.at);
    if (version != 1)
        return repo_fail(r, REPO_BAD_CAR, "the CAR version is not 1", start);
    if (!root)
        return repo_fail(r, REPO_BAD_CAR, "the header has no roots", start);
    r->root = root;
    return REPO_OK;
}

static repo_error append_block(repo *r, block b, const uint8_t *at)
{
    scratch *mem = r->mem;
    if (r->block_count == mem->block_cap && !grow(&mem->blocks, &mem->block_cap, 64, sizeof b))
        return REPO_NO_MEMORY;
    mem->blocks[r->block_count++] = b;
    return repo_charge(r, FRAME_COST, at);
}

static inline uint64_t index_hash(const repo *r, const uint8_t digest[DIGEST])
{
    uint64_t w[4];
    const uint64_t *seed = r->options.seed;
    memcpy(w, digest, DIGEST);
    return fold(fold(w[0] ^ seed[0], w[1] ^ seed[1]) ^ seed[2], fold(w[2] ^ seed[2], w[3] ^ seed[3]) ^ seed[0]);
}

enum { LINE = 64, AHEAD = 4096, GUESSED_LINES = 5 };

static repo_error load_frame(repo *r, cursor *c)
{
    const uint8_t *start = c->at;
    uint64_t len;
    int is_sha256 = 1;
    size_t cid = CID_SIZE;

    switch (varint(c, &len)) {
    case VARINT_CUT: return repo_fail(r, REPO_TRUNCATED, "a frame's length is cut", start);
    case VARINT_BAD: return repo_fail(r, REPO_BAD_CAR, "a frame's length is no varint", start);
    }
    if (len > (size_t)(c->end - c->at))
        return repo_fail(r, REPO_TRUNCATED, "a frame is cut", start);
    if (len > UINT32_MAX)
        return repo_fail(r, REPO_OVER_LIMIT, "a frame of 4 GiB or more", start);
    int indexed = len >= CID_SIZE && memcmp(c->at, CID_PREFIX, 4) == 0;
    if (!indexed)
        cid = cid_parse(c->at, (size_t)len, &is_sha256);
    if (!cid)
        return repo_fail(r, REPO_BAD_CAR, "a frame does not begin with a CIDv1", start);
    block b = {
        .start = (size_t)(c->at - r->car) + cid,
        .len = (uint32_t)(len - cid),
        .indexed = indexed & 1,
        .hashed = is_sha256 & 1,
        .hash = indexed ? index_hash(r, c->at + CID_SIZE - DIGEST) : 0,
    };
    /* Where a frame begins only the one before it says: without this, each would be waited for. Not in a function of
     * its own, which the compiler would take for one that does nothing. */
    if (AHEAD + len < (size_t)(c->end - c->at))
        for (size_t i = 0; i < len; i += LINE)
            __builtin_prefetch(c->at + AHEAD + i);
    c->at += len;
    return append_block(r, b, start);
}

static inline const uint8_t *block_digest(const repo *r, const block *b)
{
    return r->car + b->start - DIGEST;
}

static inline int same_digest(const uint8_t *a, const uint8_t *b)
{
    uint64_t x[4], y[4];
    memcpy(x, a, DIGEST);
    memcpy(y, b, DIGEST);
    return ((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) == 0;
}

static inline uint32_t tag_of(uint64_t hash) { return (uint32_t)(hash >> 32); }

/* From slot `at` on, the first that is empty or has the hash's tag. */
static inline slot *probe(const repo *r, uint64_t hash, size_t at)
{
    for (;; at++) {
        slot *s = &r->mem->slots[at & r->slot_mask];
        if (!s->number || s->tag == tag_of(hash))
            return s;
    }
}

static inline block *slot_block(const repo *r, const slot *s) { return &r->mem->blocks[s->number - 1]; }

/* The slot that holds the digest, or the empty one where it would go. */
static inline slot *find_slot(const repo *r, uint64_t hash, const uint8_t digest[DIGEST])
{
    slot *s = probe(r, hash, (size_t)hash);
    while (s->number && !same_digest(block_digest(r, slot_block(r, s)), digest))
        s = probe(r, hash, (size_t)(s - r->mem->slots) + 1);
    return s;
}

static repo_error build_index(repo *r)
{
    scratch *mem = r->mem;
    size_t size = 16;
    if (r->block_count >= UINT32_MAX)
        return repo_fail(r, REPO_OVER_LIMIT, "too many frames", r->car);
    while (size < r->block_count * 2)
        size *= 2;
    if (size > mem->slot_cap && !grow(&mem->slots, &mem->slot_cap, size, sizeof *mem->slots))
        return REPO_NO_MEMORY;
    memset(mem->slots, 0, size * sizeof *mem->slots);
    r->slot_mask = size - 1;
    for (size_t i = 0; i < r->block_count; i++) {
        block *b = &mem->blocks[i];
        uint64_t hash = b->hash;
        b->json = 0;
        if (!b->indexed)
            continue;
        slot *s = find_slot(r, hash, block_digest(r, b));
        /* A repeated block is legal; the first one counts. */
        if (!s->number)
            *s = (slot){tag_of(hash), (uint32_t)i + 1};
    }
    return REPO_OK;
}

block *car_find(const repo *r, const uint8_t digest[DIGEST])
{
    const slot *s = find_slot(r, index_hash(r, digest), digest);
    return s->number ? slot_block(r, s) : NULL;
}

/* The block of the digest if the CAR has it, but for one time in billions, when it is another or when there is none.
 * It is not read here: whoever looks blocks up ahead of their turn does not wait for each of them. */
block *car_guess(const repo *r, const uint8_t digest[DIGEST])
{
    uint64_t hash = index_hash(r, digest);
    const slot *s = probe(r, hash, (size_t)hash);
    if (!s->number)
        return NULL;
    block *b = slot_block(r, s);
    for (size_t ahead = 0; ahead < GUESSED_LINES * LINE; ahead += LINE)
        __builtin_prefetch(block_digest(r, b) + ahead);
    return b;
}

block *car_confirm(const repo *r, block *guess, const uint8_t digest[DIGEST])
{
    return !guess || same_digest(block_digest(r, guess), digest) ? guess : car_find(r, digest);
}

static int hash_holds(const hash_job *job)
{
    return same_digest(job->digest, job->data - DIGEST);
}

enum { HASHED_TOGETHER = 512 };

static repo_error verify_hashes(repo *r)
{
    hash_job jobs[HASHED_TOGETHER];
    for (size_t next = 0; next < r->block_count;) {
        size_t count = 0;
        for (; next < r->block_count && count < HASHED_TOGETHER; next++) {
            const block *b = &r->mem->blocks[next];
            if (b->hashed)
                jobs[count++] = (hash_job){.data = r->car + b->start, .len = b->len};
        }
        sha256_all(jobs, count);
        for (size_t i = 0; i < count; i++)
            if (!hash_holds(&jobs[i]))
                return repo_fail(r, REPO_HASH_MISMATCH, "a block's bytes do not hash to its CID", jobs[i].data);
    }
    return REPO_OK;
}

repo_error car_load(repo *r)
{
    cursor c = {r->car, r->car + r->car_len};
    repo_error error = load_header(r, &c);
    while (!error && c.at != c.end)
        error = load_frame(r, &c);
    if (!error)
        error = build_index(r);
    if (!error && r->options.verify_hashes)
        error = verify_hashes(r);
    return error;
}
