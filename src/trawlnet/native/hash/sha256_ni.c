/* SHA-256 by the processor's own instructions. */
#include "sha256.h"

#ifdef SHA256_X86
#include <cpuid.h>
#include <immintrin.h>

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
    __m128i wk = _mm_add_epi32(now, _mm_load_si128((const __m128i *)(SHA256_K + 4 * i)));
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

SHA_NI void sha256_ni_compress(uint32_t state[8], const uint8_t *data, size_t blocks)
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
SHA_NI static void compress_two(uint32_t one[8], const uint8_t *one_data, uint32_t other[8],
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

int sha256_ni_works(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & 1u << 29))
        return 0;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & 1u << 19) && (c & 1u << 9);
}

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
        memcpy(states[i], SHA256_START, sizeof SHA256_START);
    }
    compress_two(states[0], blocks[0], states[1], blocks[1], 1);
    for (int i = 0; i < 2; i++)
        for (int word = 0; word < 8; word++)
            store_be32(jobs[i].digest + 4 * word, states[i][word]);
    return 1;
}

/* Where a message ends the next one takes its place: there are two side by side until the last. */
void sha256_ni_all(hash_job *jobs, size_t count)
{
    if (count == 2 && pair_of_short(jobs))
        return;
    lane lanes[2];
    size_t next = 0;
    for (lanes[0].left = lanes[1].left = 0;;) {
        for (int i = 0; i < 2; i++)
            if (!lanes[i].left && next < count)
                lane_begin(&lanes[i], &jobs[next++]);
        if (!lanes[0].left || !lanes[1].left)
            break;
        size_t blocks = lanes[0].left < lanes[1].left ? lanes[0].left : lanes[1].left;
        compress_two(lanes[0].h.state, lanes[0].at, lanes[1].h.state, lanes[1].at, blocks);
        lane_advance(&lanes[0], blocks);
        lane_advance(&lanes[1], blocks);
    }
    for (int i = 0; i < 2; i++) {
        while (lanes[i].left) {
            sha256_ni_compress(lanes[i].h.state, lanes[i].at, lanes[i].left);
            lane_advance(&lanes[i], lanes[i].left);
        }
    }
}
#endif
