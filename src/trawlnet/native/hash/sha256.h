/* What the ways to compute SHA-256 share: its constants, and messages under way. */
#ifndef TRAWLNET_SHA256_H
#define TRAWLNET_SHA256_H

#include "repoblock.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(TRAWLNET_PORTABLE)
#define SHA256_X86 1
#endif

extern const uint32_t SHA256_K[64];
extern const uint32_t SHA256_START[8];

/* sha256.c: by whatever this processor has. */
void sha256_compress(uint32_t state[8], const uint8_t *data, size_t blocks);

#ifdef SHA256_X86
/* sha256_ni.c: the processor's own instructions, two messages side by side. */
int sha256_ni_works(void);
void sha256_ni_compress(uint32_t state[8], const uint8_t *data, size_t blocks);
void sha256_ni_all(hash_job *jobs, size_t count);

/* sha256_wide.c: sixteen messages side by side, in AVX-512; for at least as many. */
enum { SHA256_WIDE = 16 };
int sha256_wide_works(void);
void sha256_wide_all(hash_job *jobs, size_t count);
#endif

static inline uint32_t big_endian(uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap32(v);
#else
    return v;
#endif
}

static inline void store_be32(uint8_t *p, uint32_t v)
{
    v = big_endian(v);
    memcpy(p, &v, 4);
}

/* A message as whole blocks of its own bytes, then one or two of padding. */
typedef struct {
    uint32_t state[8];
    const uint8_t *data;
    size_t whole, padded;
    uint8_t tail[128];
} hashing;

static inline void hashing_begin(hashing *h, const uint8_t *data, size_t len)
{
    size_t rest = len % 64;
    uint64_t bits = (uint64_t)len * 8;
    memcpy(h->state, SHA256_START, sizeof h->state);
    h->data = data;
    h->whole = len / 64;
    h->padded = rest < 56 ? 1 : 2;
    memset(h->tail, 0, h->padded * 64);
    if (rest)
        memcpy(h->tail, data + h->whole * 64, rest);
    h->tail[rest] = 0x80;
    store_be32(h->tail + h->padded * 64 - 8, (uint32_t)(bits >> 32));
    store_be32(h->tail + h->padded * 64 - 4, (uint32_t)bits);
}

static inline void hashing_end(const hashing *h, uint8_t digest[DIGEST])
{
    for (int i = 0; i < 8; i++)
        store_be32(digest + 4 * i, h->state[i]);
}

/* A message under way: first its own whole blocks, then those of its padding. */
typedef struct {
    hashing h;
    hash_job *job;
    const uint8_t *at;
    size_t left; /* blocks from there on that lie together; 0 at the end */
} lane;

static inline void lane_begin(lane *l, hash_job *job)
{
    hashing_begin(&l->h, job->data, job->len);
    l->job = job;
    l->at = l->h.whole ? job->data : l->h.tail;
    l->left = l->h.whole ? l->h.whole : l->h.padded;
}

/* Behind its own blocks: to the padding, or 0 if that is done as well. */
static inline int lane_goes_on(lane *l)
{
    if (l->at == l->h.tail + l->h.padded * 64)
        return 0;
    l->at = l->h.tail;
    l->left = l->h.padded;
    return 1;
}

static inline void lane_advance(lane *l, size_t blocks)
{
    l->at += blocks * 64;
    l->left -= blocks;
    if (!l->left && !lane_goes_on(l))
        hashing_end(&l->h, l->job->digest);
}

#endif
