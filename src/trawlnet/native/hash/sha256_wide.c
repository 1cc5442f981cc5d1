/* SHA-256 of sixteen messages side by side: every register has one word of each. */
#include "sha256.h"

#ifdef SHA256_X86
#include <cpuid.h>
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw")))
#define WIDE_INLINE WIDE static inline __attribute__((always_inline))

enum { FEW = 6 }; /* messages that are done sooner one by one */

/* Whether the processor has AVX-512 F and BW, and the system keeps their registers. Asked of the processor itself: not
 * every compiler's runtime library has what __builtin_cpu_supports needs in a shared object. */
int sha256_wide_works(void)
{
    enum { OSXSAVE = 1 << 27, AVX512F = 1 << 16, AVX512BW = 1 << 30, KEPT = 0xe6 };
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & KEPT) == KEPT && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & AVX512F) && (b & AVX512BW);
}

/* The steps of a transposition: row r of one becomes column r of the other. */
WIDE_INLINE void pairs_of_words(__m512i to[16], const __m512i from[16])
{
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        to[i] = _mm512_unpacklo_epi32(from[i], from[i + 1]);
        to[i + 1] = _mm512_unpackhi_epi32(from[i], from[i + 1]);
    }
}

WIDE_INLINE void pairs_of_pairs(__m512i to[16], const __m512i from[16])
{
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        int row = (i & 12) + (i >> 1 & 1);
        to[i] = i & 1 ? _mm512_unpackhi_epi64(from[row], from[row + 2]) : _mm512_unpacklo_epi64(from[row], from[row + 2]);
    }
}

/* Quarters of rows `apart` rows from each other, even ones in front of odd ones. */
WIDE_INLINE void quarters(__m512i to[16], const __m512i from[16], int apart)
{
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        int row = i & ~apart;
        to[i] = i & apart ? _mm512_shuffle_i32x4(from[row], from[row + apart], 0xdd)
                          : _mm512_shuffle_i32x4(from[row], from[row + apart], 0x88);
    }
}

WIDE_INLINE void load_words(__m512i words[16], const uint8_t *const at[16])
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m512i rows[16], other[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        rows[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(at[i]), _mm512_broadcast_i32x4(swap));
    pairs_of_words(other, rows);
    pairs_of_pairs(rows, other);
    quarters(other, rows, 4);
    quarters(words, other, 8);
}

#define ROTATED(x, n) _mm512_ror_epi32(x, n)
#define SHIFTED(x, n) _mm512_srli_epi32(x, n)
#define ADD(x, y) _mm512_add_epi32(x, y)
/* The last number is the truth table of x ^ y ^ z, of x ? y : z, and of the majority. */
#define XOR(x, y, z) _mm512_ternarylogic_epi32(x, y, z, 0x96)
#define CHOICE(x, y, z) _mm512_ternarylogic_epi32(x, y, z, 0xca)
#define MAJORITY(x, y, z) _mm512_ternarylogic_epi32(x, y, z, 0xe8)

/* One round; s[0] to s[7] are what FIPS 180-4 calls a to h, turned by one place each time instead of being moved. */
WIDE_INLINE void round_of(__m512i s[8], __m512i w[16], int i)
{
    __m512i *a = &s[-i & 7], *b = &s[(1 - i) & 7], *c = &s[(2 - i) & 7], *d = &s[(3 - i) & 7];
    __m512i *e = &s[(4 - i) & 7], *f = &s[(5 - i) & 7], *g = &s[(6 - i) & 7], *h = &s[(7 - i) & 7];
    __m512i word = ADD(w[i & 15], _mm512_set1_epi32((int)SHA256_K[i]));
    __m512i one = XOR(ROTATED(*e, 6), ROTATED(*e, 11), ROTATED(*e, 25));
    __m512i zero = XOR(ROTATED(*a, 2), ROTATED(*a, 13), ROTATED(*a, 22));
    __m512i sum = ADD(ADD(*h, word), ADD(one, CHOICE(*e, *f, *g)));
    *d = ADD(*d, sum);
    *h = ADD(sum, ADD(zero, MAJORITY(*a, *b, *c)));
}

/* The word of sixteen rounds later, in place of the one just used. */
WIDE_INLINE void next_word(__m512i w[16], int i)
{
    __m512i near = w[(i + 1) & 15], far = w[(i + 14) & 15];
    __m512i zero = XOR(ROTATED(near, 7), ROTATED(near, 18), SHIFTED(near, 3));
    __m512i one = XOR(ROTATED(far, 17), ROTATED(far, 19), SHIFTED(far, 10));
    w[i & 15] = ADD(ADD(w[i & 15], w[(i + 9) & 15]), ADD(zero, one));
}

typedef struct {
    uint32_t state[8][SHA256_WIDE] __attribute__((aligned(64)));
    lane lanes[SHA256_WIDE];
} crowd;

/* One block of each. */
WIDE static void compress(uint32_t state[8][SHA256_WIDE], const uint8_t *const at[SHA256_WIDE])
{
    __m512i w[16], s[8];
    load_words(w, at);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        s[i] = _mm512_load_si512(state[i]);
#pragma GCC unroll 64
    for (int i = 0; i < 64; i++) {
        round_of(s, w, i);
        if (i < 48)
            next_word(w, i);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        _mm512_store_si512(state[i], ADD(_mm512_load_si512(state[i]), s[i]));
}

static void put_state(crowd *c, int i)
{
    for (int word = 0; word < 8; word++)
        c->state[word][i] = c->lanes[i].h.state[word];
}

static void take_state(crowd *c, int i)
{
    for (int word = 0; word < 8; word++)
        c->lanes[i].h.state[word] = c->state[word][i];
}

/* Whether message `i` has blocks left after the one that was just compressed. */
static int step(crowd *c, int i)
{
    lane *l = &c->lanes[i];
    l->at += 64;
    if (--l->left || lane_goes_on(l))
        return 1;
    take_state(c, i);
    hashing_end(&l->h, l->job->digest);
    return 0;
}

static void begin(crowd *c, int i, hash_job *job)
{
    lane_begin(&c->lanes[i], job);
    put_state(c, i);
}

/* Where a message ends the next one takes its place; at the end, places stay empty and are computed for nothing. */
void sha256_wide_all(hash_job *jobs, size_t count)
{
    static const uint8_t nothing[64];
    crowd c;
    const uint8_t *at[SHA256_WIDE];
    size_t next = 0;
    int busy = SHA256_WIDE;
    for (int i = 0; i < SHA256_WIDE; i++)
        begin(&c, i, &jobs[next++]);
    while (busy >= FEW) {
        for (int i = 0; i < SHA256_WIDE; i++)
            at[i] = c.lanes[i].left ? c.lanes[i].at : nothing;
        compress(c.state, at);
        for (int i = 0; i < SHA256_WIDE; i++) {
            if (!c.lanes[i].left || step(&c, i))
                continue;
            if (next < count)
                begin(&c, i, &jobs[next++]);
            else
                busy--;
        }
    }
    for (int i = 0; i < SHA256_WIDE; i++) {
        if (c.lanes[i].left)
            take_state(&c, i);
        while (c.lanes[i].left) {
            sha256_compress(c.lanes[i].h.state, c.lanes[i].at, c.lanes[i].left);
            lane_advance(&c.lanes[i], c.lanes[i].left);
        }
    }
}
#endif
