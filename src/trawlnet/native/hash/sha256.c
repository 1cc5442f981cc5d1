/* SHA-256 (FIPS 180-4): the portable way, and which of the ways is taken. */
#include "sha256.h"

const uint32_t SHA256_K[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

const uint32_t SHA256_START[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

typedef void (*compress_fn)(uint32_t state[8], const uint8_t *data, size_t blocks);

static inline uint32_t rotr(uint32_t x, int n) { return x >> n | x << (32 - n); }

static inline uint32_t load_be32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return big_endian(v);
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
            uint32_t t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (g ^ (e & (f ^ g))) + SHA256_K[i] + w[i];
            uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) | (c & (a | b)));
            h = g, g = f, f = e, e = d + t1;
            d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

#ifdef SHA256_X86
/* Racing first calls all store the same answer. */
static int ask_once(int *known, int (*works)(void))
{
    int answer = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (answer < 0) {
        answer = works();
        __atomic_store_n(known, answer, __ATOMIC_RELAXED);
    }
    return answer;
}

int sha256_accelerated(void)
{
    static int known = -1;
    return ask_once(&known, sha256_ni_works);
}

static int is_wide(void)
{
    static int known = -1;
    return ask_once(&known, sha256_wide_works);
}
#else
int sha256_accelerated(void) { return 0; }
#endif

static void digest_with(compress_fn compress, const uint8_t *data, size_t len, uint8_t digest[DIGEST])
{
    hashing h;
    hashing_begin(&h, data, len);
    compress(h.state, data, h.whole);
    compress(h.state, h.tail, h.padded);
    hashing_end(&h, digest);
}

void sha256_compress(uint32_t state[8], const uint8_t *data, size_t blocks)
{
#ifdef SHA256_X86
    if (sha256_accelerated()) {
        sha256_ni_compress(state, data, blocks);
        return;
    }
#endif
    compress_portable(state, data, blocks);
}

void sha256_portable(const uint8_t *data, size_t len, uint8_t digest[DIGEST])
{
    digest_with(compress_portable, data, len, digest);
}

void sha256(const uint8_t *data, size_t len, uint8_t digest[DIGEST])
{
    digest_with(sha256_compress, data, len, digest);
}

void sha256_all(hash_job *jobs, size_t count)
{
#ifdef SHA256_X86
    if (count >= SHA256_WIDE && is_wide()) {
        sha256_wide_all(jobs, count);
        return;
    }
    if (sha256_accelerated()) {
        sha256_ni_all(jobs, count);
        return;
    }
#endif
    for (size_t i = 0; i < count; i++)
        sha256_portable(jobs[i].data, jobs[i].len, jobs[i].digest);
}
