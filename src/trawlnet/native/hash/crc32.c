/* CRC-32: long runs by carry-less multiplication where the processor has it, the rest by tables. */
#include "crc32.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(TRAWLNET_PORTABLE)
#define HAVE_CLMUL 1
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { SLICES = 8 };

static const uint32_t POLYNOMIAL = 0xedb88320;

/* TABLE[n][b]: what the byte b adds to the remainder when n more bytes have followed it. */
static uint32_t TABLE[SLICES][256];

/* When the library is loaded, before any thread can ask. */
__attribute__((constructor)) static void fill_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t rest = byte;
        for (int bit = 0; bit < 8; bit++)
            rest = rest >> 1 ^ (rest & 1 ? POLYNOMIAL : 0);
        TABLE[0][byte] = rest;
    }
    for (int n = 1; n < SLICES; n++)
        for (int byte = 0; byte < 256; byte++)
            TABLE[n][byte] = TABLE[n - 1][byte] >> 8 ^ TABLE[0][TABLE[n - 1][byte] & 255];
}

/* The remainder as it is between bytes; what is handed out is its complement. */
static uint32_t by_table(uint32_t rest, const uint8_t *data, size_t len)
{
    for (; len >= SLICES; len -= SLICES, data += SLICES) {
        uint32_t first = rest ^ (data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        rest = TABLE[7][first & 255] ^ TABLE[6][first >> 8 & 255] ^ TABLE[5][first >> 16 & 255] ^ TABLE[4][first >> 24]
             ^ TABLE[3][data[4]] ^ TABLE[2][data[5]] ^ TABLE[1][data[6]] ^ TABLE[0][data[7]];
    }
    for (; len; len--)
        rest = rest >> 8 ^ TABLE[0][(rest ^ *data++) & 255];
    return rest;
}

uint32_t crc32_portable(uint32_t crc, const uint8_t *data, size_t len) { return ~by_table(~crc, data, len); }

#ifdef HAVE_CLMUL
#define CLMUL __attribute__((target("pclmul,sse4.1")))

/* Sixteen bytes are a polynomial of degree 127 whose highest coefficients come first, in both halves of a register.
 * `n` bits further on it weighs x^n times as much: its first half times x^(n + 64) and its second half times x^n, both
 * modulo the CRC's polynomial. A product of reflected factors comes out one place short, hence exponents one lower.
 * A test computes these anew. */
static const uint64_t FOUR_ON[2] = {0x653d982200000000, 0xcad38e8f00000000}; /* x^(512 + 63), x^(512 - 1) */
static const uint64_t ONE_ON[2] = {0x65673b4600000000, 0x9ba54c6f00000000};  /* x^(128 + 63), x^(128 - 1) */

CLMUL static inline __m128i load(const void *at) { return _mm_loadu_si128(at); }

/* What sixteen bytes come to where later ones lie. */
CLMUL static inline __m128i fold(__m128i earlier, __m128i by, __m128i later)
{
    __m128i first = _mm_clmulepi64_si128(earlier, by, 0x00), second = _mm_clmulepi64_si128(earlier, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(first, second), later);
}

enum { WIDTH = 16, LANES = 4, STRIDE = WIDTH * LANES };

/* At least a stride. Four lanes, since a product takes several cycles and another can begin in each of them. */
CLMUL static uint32_t by_clmul(uint32_t rest, const uint8_t *data, size_t len)
{
    const __m128i four_on = load(FOUR_ON), one_on = load(ONE_ON);
    __m128i lane[LANES];
    uint8_t folded[WIDTH];
    for (int i = 0; i < LANES; i++)
        lane[i] = load(data + i * WIDTH);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128((int)rest));
    for (data += STRIDE, len -= STRIDE; len >= STRIDE; data += STRIDE, len -= STRIDE)
        for (int i = 0; i < LANES; i++)
            lane[i] = fold(lane[i], four_on, load(data + i * WIDTH));
    for (int i = 1; i < LANES; i++)
        lane[0] = fold(lane[0], one_on, lane[i]);
    for (; len >= WIDTH; data += WIDTH, len -= WIDTH)
        lane[0] = fold(lane[0], one_on, load(data));
    _mm_storeu_si128((__m128i *)folded, lane[0]);
    return by_table(by_table(0, folded, WIDTH), data, len);
}

static int cpu_has_clmul(void)
{
    /* Racing first calls all store the same answer. */
    static int known = -1;
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer < 0) {
        unsigned a, b, c, d;
        answer = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_PCLMUL) && (c & bit_SSE4_1);
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer;
}
#endif

uint32_t crc32_ieee(uint32_t crc, const uint8_t *data, size_t len)
{
#ifdef HAVE_CLMUL
    if (len >= STRIDE && cpu_has_clmul())
        return ~by_clmul(~crc, data, len);
#endif
    return crc32_portable(crc, data, len);
}
