/* Texts that need escapes or a look at their UTF-8, and bytes as digits. */
#include "transcode.h"
#include "utf8.h"

static uint8_t *escape(uint8_t *to, uint8_t c)
{
    static const char HEX[] = "0123456789abcdef";
    static const char SHORT[32] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    char letter = c < 0x20 ? SHORT[c] : (char)c;
    *to++ = '\\';
    if (letter) {
        *to++ = (uint8_t)letter;
        return to;
    }
    to = put(to, "u00", 3);
    *to++ = (uint8_t)HEX[c >> 4];
    *to++ = (uint8_t)HEX[c & 15];
    return to;
}

#ifdef HAVE_SSE2
typedef struct {
    __m128i first, second;
} chunk;

static inline uint64_t bits(__m128i first, __m128i second)
{
    return (uint32_t)_mm_movemask_epi8(first) | (uint64_t)(uint32_t)_mm_movemask_epi8(second) << CHUNK / 2;
}

/* A bit for each byte that is above `least` as signed bytes are: ASCII is above all others. */
static inline uint64_t above(chunk c, uint8_t least)
{
    __m128i than = _mm_set1_epi8((char)least);
    return bits(_mm_cmpgt_epi8(c.first, than), _mm_cmpgt_epi8(c.second, than));
}

static inline uint64_t equal(chunk c, uint8_t to)
{
    __m128i with = _mm_set1_epi8((char)to);
    return bits(_mm_cmpeq_epi8(c.first, with), _mm_cmpeq_epi8(c.second, with));
}

/* Four leads allow only some of the continuations: the rest would be overlong, surrogates or beyond U+10FFFF. */
static inline uint64_t forbidden_seconds(chunk c)
{
    uint64_t from_90 = above(c, 0x8f), from_a0 = above(c, 0x9f);
    return (equal(c, 0xe0) << 1 & ~from_a0) | (equal(c, 0xed) << 1 & from_a0) | (equal(c, 0xf0) << 1 & ~from_90)
         | (equal(c, 0xf4) << 1 & from_90);
}

/* Copies well-formed text up to the end of a chunk at most, or to what must be escaped; 0 if it is not well-formed. */
static size_t copy_text(uint8_t *to, const uint8_t *s, size_t len)
{
    chunk c = {_mm_loadu_si128((const __m128i *)s), _mm_loadu_si128((const __m128i *)(s + CHUNK / 2))};
    _mm_storeu_si128((__m128i *)to, c.first);
    _mm_storeu_si128((__m128i *)(to + CHUNK / 2), c.second);
    const uint64_t one = 1, high = bits(c.first, c.second);
    size_t count = len < CHUNK ? len : CHUNK;
    uint64_t within = (one << count) - 1;
    uint64_t escaped = within & ~high & (~above(c, 0x1f) | equal(c, '"') | equal(c, '\\'));
    if (escaped) {
        count = (size_t)__builtin_ctzll(escaped);
        within = (one << count) - 1;
    }
    /* Leads of two bytes or more, of three or more, and of four. */
    uint64_t lead = within & high & above(c, 0xbf), three = lead & above(c, 0xdf), four = lead & above(c, 0xef);
    uint64_t following = within & high & ~lead, wanted = lead << 1 | three << 2 | four << 3;
    if (lead & (~above(c, 0xc1) | above(c, 0xf4)))
        return 0;
    if (three && (forbidden_seconds(c) & following))
        return 0;
    /* The chunk may end within the last sequence, which is left to the next one. */
    if (count == CHUNK && wanted >> CHUNK) {
        count = (size_t)(63 - __builtin_clzll(lead));
        wanted &= (one << (count + 1)) - 1;
        following &= (one << (count + 1)) - 1;
    }
    return wanted == following ? count : 0;
}
#else
static size_t copy_text(uint8_t *to, const uint8_t *s, size_t len)
{
    size_t done = copy_plain(to, s, len);
    while (done < len && s[done] >= 0x80) {
        size_t n = utf8_sequence(s + done, len - done);
        if (!n)
            return 0;
        memcpy(to + done, s + done, n);
        done += n;
    }
    return done;
}
#endif

place put_odd_string(transcoder *t, place p, const uint8_t *s, size_t len)
{
    const uint8_t *end = s + len;
    while (s != end) {
        if (*s < 0x80 && !is_plain(*s)) {
            p = room(t, p, (size_t)(end - s) + 8);
            if (!p.to)
                return p;
            p.to = escape(p.to, *s++);
        } else {
            size_t copied = copy_text(p.to, s, (size_t)(end - s));
            if (!copied)
                return give_up(t, DROP_BAD_UTF8);
            p.to += copied;
            s += copied;
        }
    }
    *p.to++ = '"';
    return p;
}

/* A group of bytes as digits of `width` bits each; one that is cut is filled up with zero bits. */
static inline uint8_t *put_group(uint8_t *to, const uint8_t *s, size_t len, size_t full, size_t width, const char *digits)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < full; i++)
        bits = bits << 8 | (i < len ? s[i] : 0);
    for (size_t left = full * 8; left + len * 8 > full * 8; left -= width)
        *to++ = (uint8_t)digits[bits >> (left - width) & ((1u << width) - 1)];
    return to;
}

uint8_t *put_base64(uint8_t *to, const uint8_t *s, size_t len)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; len >= 3; len -= 3, s += 3)
        to = put_group(to, s, 3, 3, 6, DIGITS);
    return put_group(to, s, len, 3, 6, DIGITS);
}

uint8_t *put_base32(uint8_t *to, const uint8_t *s, size_t len)
{
    static const char DIGITS[] = "abcdefghijklmnopqrstuvwxyz234567";
    for (; len >= 5; len -= 5, s += 5)
        to = put_group(to, s, 5, 5, 5, DIGITS);
    return put_group(to, s, len, 5, 5, DIGITS);
}
