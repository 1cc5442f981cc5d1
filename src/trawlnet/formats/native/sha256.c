/* SHA-256 (FIPS 180-4), with the processor's own instructions where it has them. */
#include "repoblock.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(TRAWLNET_PORTABLE)
#define HAVE_SHA_NI 1
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t K[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static const uint32_t START[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

typedef void (*compress_fn)(uint32_t state[8], const uint8_t *data, size_t blocks);

static inline uint32_t rotr(uint32_t x, int n) { return x >> n | x << (32 - n); }

static inline uint32_t big_endian(uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap32(v);
#else
    return v;
#endif
}

static inline uint32_t load_be32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return big_endian(v);
}

static inline void store_be32(uint8_t *p, uint32_t v)
{
    v = big_endian(v);
    memcpy(p, &v, 4);
}

static void compress_portable(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    for (; blocks; blocks--, data += 64) {
        uint32_t w[64];
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 16; i++)
            w[i] = load_be32(data + 4 * i);
        for (int i = 16; i < 64; i++) {
            uint32_t x = w[i - 15], y = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (rotr(x, 7) ^ rotr(x, 18) ^ x >> 3)
                 + (rotr(y, 17) ^ rotr(y, 19) ^ y >> 10);
        }
        for (int i = 0; i < 64; i++) {
            uint32_t t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (g ^ (e & (f ^ g))) + K[i] + w[i];
            uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) | (c & (a | b)));
            h = g, g = f, f = e, e = d + t1;
            d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

#ifdef HAVE_SHA_NI
#define SHA_NI __attribute__((target("sha,sse4.1,ssse3")))

/* The state as the instructions want it: the word pairs ABEF and CDGH. */
typedef struct {
    __m128i abef, cdgh;
} ni_state;

SHA_NI static inline ni_state ni_load(const uint32_t state[8])
{
    __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    return (ni_state){_mm_alignr_epi8(badc, hgfe, 8), _mm_blend_epi16(hgfe, badc, 0xf0)};
}

SHA_NI static inline void ni_store(uint32_t state[8], ni_state s)
{
    __m128i feba = _mm_shuffle_epi32(s.abef, 0x1b);
    __m128i dchg = _mm_shuffle_epi32(s.cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

SHA_NI static inline void ni_words(__m128i w[4], const uint8_t *data)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    for (int i = 0; i < 4; i++)
        w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + 16 * i)), swap);
}

/* Four rounds, and the schedule words of four steps later in place of those just used. */
SHA_NI static inline __attribute__((always_inline)) void ni_step(ni_state *s, __m128i w[4], int i)
{
    __m128i now = w[i & 3];
    __m128i wk = _mm_add_epi32(now, _mm_load_si128((const __m128i *)(K + 4 * i)));
    s->cdgh = _mm_sha256rnds2_epu32(s->cdgh, s->abef, wk);
    s->abef = _mm_sha256rnds2_epu32(s->abef, s->cdgh, _mm_shuffle_epi32(wk, 0x0e));
    if (i < 12) {
        __m128i last = w[(i + 3) & 3];
        __m128i seven_back = _mm_alignr_epi8(last, w[(i + 2) & 3], 4);
        __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) & 3]), seven_back);
        w[i & 3] = _mm_sha256msg2_epu32(sum, last);
    }
}

SHA_NI static inline void ni_add(ni_state *s, ni_state before)
{
    s->abef = _mm_add_epi32(s->abef, before.abef);
    s->cdgh = _mm_add_epi32(s->cdgh, before.cdgh);
}

SHA_NI static void compress_sha_ni(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    ni_state s = ni_load(state);
    for (; blocks; blocks--, data += 64) {
        ni_state before = s;
        __m128i w[4];
        ni_words(w, data);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            ni_step(&s, w, i);
        ni_add(&s, before);
    }
    ni_store(state, s);
}

/* Two messages side by side: one's rounds run while the other's wait for their result. */
SHA_NI static void compress_two_sha_ni(uint32_t one[8], const uint8_t *one_data, uint32_t other[8],
                                       const uint8_t *other_data, size_t blocks)
{
    ni_state s = ni_load(one), t = ni_load(other);
    for (; blocks; blocks--, one_data += 64, other_data += 64) {
        ni_state s_before = s, t_before = t;
        __m128i v[4], w[4];
        ni_words(v, one_data);
        ni_words(w, other_data);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            ni_step(&s, v, i);
            ni_step(&t, w, i);
        }
        ni_add(&s, s_before);
        ni_add(&t, t_before);
    }
    ni_store(one, s);
    ni_store(other, t);
}

static int cpu_has_sha(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & 1u << 29))
        return 0;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & 1u << 19) && (c & 1u << 9);
}
#else
static int cpu_has_sha(void) { return 0; }
#endif

/* A message as whole blocks of its own bytes, then one or two of padding. */
typedef struct {
    uint32_t state[8];
    const uint8_t *data;
    size_t whole, padded;
    uint8_t tail[128];
} hashing;

static void hashing_begin(hashing *h, const uint8_t *data, size_t len)
{
    size_t rest = len % 64;
    uint64_t bits = (uint64_t)len * 8;
    memcpy(h->state, START, sizeof h->state);
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

static void hashing_end(const hashing *h, uint8_t digest[DIGEST])
{
    for (int i = 0; i < 8; i++)
        store_be32(digest + 4 * i, h->state[i]);
}

static void digest_with(compress_fn compress, const uint8_t *data, size_t len, uint8_t digest[DIGEST])
{
    hashing h;
    hashing_begin(&h, data, len);
    compress(h.state, data, h.whole);
    compress(h.state, h.tail, h.padded);
    hashing_end(&h, digest);
}

int sha256_accelerated(void)
{
    /* Racing first calls all store the same answer. */
    static int known = -1;
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer < 0) {
        answer = cpu_has_sha();
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer;
}

void sha256_portable(const uint8_t *data, size_t len, uint8_t digest[DIGEST])
{
    digest_with(compress_portable, data, len, digest);
}

void sha256(const uint8_t *data, size_t len, uint8_t digest[DIGEST])
{
#ifdef HAVE_SHA_NI
    if (sha256_accelerated()) {
        digest_with(compress_sha_ni, data, len, digest);
        return;
    }
#endif
    digest_with(compress_portable, data, len, digest);
}

#ifdef HAVE_SHA_NI
/* Two messages of at most 55 bytes, as tree keys are: each is one block, put together here. */
static int pair_of_short(hash_job jobs[2])
{
    uint8_t blocks[2][64] __attribute__((aligned(16))) = {{0}};
    uint32_t states[2][8];
    if (jobs[0].len > 55 || jobs[1].len > 55)
        return 0;
    for (int i = 0; i < 2; i++) {
        memcpy(blocks[i], jobs[i].data, jobs[i].len);
        blocks[i][jobs[i].len] = 0x80;
        blocks[i][62] = (uint8_t)(jobs[i].len >> 5);
        blocks[i][63] = (uint8_t)(jobs[i].len << 3);
        memcpy(states[i], START, sizeof START);
    }
    compress_two_sha_ni(states[0], blocks[0], states[1], blocks[1], 1);
    for (int i = 0; i < 2; i++)
        for (int word = 0; word < 8; word++)
            store_be32(jobs[i].digest + 4 * word, states[i][word]);
    return 1;
}

/* A message under way: first its own whole blocks, then those of its padding. */
typedef struct {
    hashing h;
    hash_job *job;
    const uint8_t *at;
    size_t left; /* blocks from there on that lie together; 0 at the end */
} lane;

static void lane_begin(lane *l, hash_job *job)
{
    hashing_begin(&l->h, job->data, job->len);
    l->job = job;
    l->at = l->h.whole ? job->data : l->h.tail;
    l->left = l->h.whole ? l->h.whole : l->h.padded;
}

static void lane_advance(lane *l, size_t blocks)
{
    l->at += blocks * 64;
    l->left -= blocks;
    if (l->left)
        return;
    if (l->at == l->h.tail + l->h.padded * 64) {
        hashing_end(&l->h, l->job->digest);
    } else {
        l->at = l->h.tail;
        l->left = l->h.padded;
    }
}

/* Where a message ends the next one takes its place: there are two side by side until the last. */
static void all_sha_ni(hash_job *jobs, size_t count)
{
    lane lanes[2];
    size_t next = 0;
    for (lanes[0].left = lanes[1].left = 0;;) {
        for (int i = 0; i < 2; i++)
            if (!lanes[i].left && next < count)
                lane_begin(&lanes[i], &jobs[next++]);
        if (!lanes[0].left || !lanes[1].left)
            break;
        size_t blocks = lanes[0].left < lanes[1].left ? lanes[0].left : lanes[1].left;
        compress_two_sha_ni(lanes[0].h.state, lanes[0].at, lanes[1].h.state, lanes[1].at, blocks);
        lane_advance(&lanes[0], blocks);
        lane_advance(&lanes[1], blocks);
    }
    for (int i = 0; i < 2; i++) {
        while (lanes[i].left) {
            compress_sha_ni(lanes[i].h.state, lanes[i].at, lanes[i].left);
            lane_advance(&lanes[i], lanes[i].left);
        }
    }
}
#endif

void sha256_all(hash_job *jobs, size_t count)
{
#ifdef HAVE_SHA_NI
    if (sha256_accelerated()) {
        if (count != 2 || !pair_of_short(jobs))
            all_sha_ni(jobs, count);
        return;
    }
#endif
    for (size_t i = 0; i < count; i++)
        sha256_portable(jobs[i].data, jobs[i].len, jobs[i].digest);
}
