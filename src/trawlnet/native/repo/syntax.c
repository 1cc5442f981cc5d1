/* The identifier grammars of atproto, over bytes. */
#include "repoblock.h"

#if defined(__SSE2__) && !defined(TRAWLNET_PORTABLE)
#include <emmintrin.h>
#endif

static int is_alpha(uint8_t c) { return (uint8_t)((c | 0x20) - 'a') < 26; }
static int is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }
static int is_alnum(uint8_t c) { return is_alpha(c) || is_digit(c); }

int is_nsid(const uint8_t *s, size_t len)
{
    size_t start = 0, segments = 0;
    if (len == 0 || len > 317 || !is_alpha(s[0]))
        return 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && s[i] != '.') {
            if (!is_alnum(s[i]) && s[i] != '-')
                return 0;
            continue;
        }
        if (i == start || i - start > 63 || s[start] == '-' || s[i - 1] == '-')
            return 0;
        segments++;
        if (i < len)
            start = i + 1;
    }
    /* The last segment is a name, not part of a domain: letters first, and no hyphens. */
    if (segments < 3 || !is_alpha(s[start]))
        return 0;
    return memchr(s + start, '-', len - start) == NULL;
}

#if defined(__SSE2__) && !defined(TRAWLNET_PORTABLE)
static inline __m128i within(__m128i bytes, char first, char last)
{
    __m128i above = _mm_sub_epi8(bytes, _mm_set1_epi8(first));
    return _mm_cmpeq_epi8(_mm_min_epu8(above, _mm_set1_epi8((char)(last - first))), above);
}

/* May all of sixteen bytes stand in a record key? A bit for each. */
static inline uint32_t rkey_bytes(const uint8_t *s)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)s);
    __m128i letters = within(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 'z');
    __m128i digits = within(bytes, '0', ':'), marks = within(bytes, '-', '.');
    __m128i others = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('_')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('~')));
    return (uint32_t)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(letters, digits), _mm_or_si128(marks, others)));
}
#else
static uint32_t rkey_bytes(const uint8_t *s)
{
    uint32_t found = 0;
    for (int i = 0; i < 16; i++) {
        int mark = s[i] == '.' || s[i] == '-' || s[i] == '_' || s[i] == ':' || s[i] == '~';
        found |= (uint32_t)(is_alnum(s[i]) || mark) << i;
    }
    return found;
}
#endif

int is_rkey(const uint8_t *s, size_t len)
{
    if (len == 0 || len > 512 || (s[0] == '.' && (len == 1 || (len == 2 && s[1] == '.'))))
        return 0;
    for (; len > 16; len -= 16, s += 16)
        if (rkey_bytes(s) != 0xffff)
            return 0;
    uint32_t last = ((uint32_t)1 << len) - 1;
    return (rkey_bytes(s) & last) == last;
}

int is_tid(const uint8_t *s, size_t len)
{
    if (len != 13 || s[0] > 'j')
        return 0;
    for (size_t i = 0; i < len; i++)
        if (!(s[i] >= '2' && s[i] <= '7') && !(s[i] >= 'a' && s[i] <= 'z'))
            return 0;
    return 1;
}

int is_did(const uint8_t *s, size_t len)
{
    size_t i = 4;
    if (len < 7 || len > 2048 || memcmp(s, "did:", 4) != 0)
        return 0;
    while (i < len && s[i] >= 'a' && s[i] <= 'z')
        i++;
    if (i == 4 || i + 1 >= len || s[i] != ':')
        return 0;
    for (i++; i < len; i++)
        if (!is_alnum(s[i]) && s[i] != '.' && s[i] != '_' && s[i] != ':' && s[i] != '%' && s[i] != '-')
            return 0;
    return s[len - 1] != ':' && s[len - 1] != '%';
}
