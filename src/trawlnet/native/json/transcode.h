/* What the parts of the way from CBOR to JSON share: where it has come to, room for more, and plain text. */
#ifndef TRAWLNET_TRANSCODE_H
#define TRAWLNET_TRANSCODE_H

#include "repoblock.h"

#if defined(__SSE2__) && !defined(TRAWLNET_PORTABLE)
#define HAVE_SSE2 1
#include <emmintrin.h>
#endif

#define ALWAYS_INLINE inline __attribute__((always_inline))

typedef struct {
    const uint8_t *end; /* of the record; CHUNK bytes more can be read */
    uint8_t *limit;     /* end of the output's memory */
    buffer *out;        /* its `len` is set when the record is done, or when it has to grow */
    scratch *mem;
    const uint64_t *seed; /* of hashes, so that nobody can aim for collisions */
    size_t key_count;   /* keys of all maps that are open, in mem->keys */
    int keep_cids;
    int keep_keys;      /* in mem->keys: some map is out of canonical order, and may have a key twice */
    int out_of_order;   /* that was noticed just now, and the record must be begun again */
    uint8_t odd;        /* these bytes are not those that the JSON stands for */
    drop_reason why;
} transcoder;

/* Where reading and writing have come to. It goes from hand to hand in registers: a byte written through a pointer may
 * be part of anything that lies in memory, for all the compiler knows. */
typedef struct {
    const uint8_t *at;
    uint8_t *to; /* NULL when the record is dropped, and transcoder.why says why */
} place;

/* There is always room for EXPANSION bytes for each that is still to be read, and SLACK for wide stores and the comma
 * behind a value. Containers and plain texts, quotes and separators counted, never take more; whatever may take more
 * asks for room that leaves as much. */
enum { EXPANSION = 3, SLACK = 64, CHUNK = 32 };

static inline place give_up(transcoder *t, drop_reason why)
{
    t->why = why;
    return (place){NULL, NULL};
}

/* Makes room for `len` bytes besides what is there for all that is still to be read. */
static inline place room(transcoder *t, place p, size_t len)
{
    buffer *out = t->out;
    len += EXPANSION * (size_t)(t->end - p.at) + SLACK;
    if ((size_t)(t->limit - p.to) >= len)
        return p;
    out->len = (size_t)(p.to - out->data);
    if (!buffer_grow(out, len))
        return give_up(t, DROP_NO_MEMORY);
    t->limit = out->data + out->cap;
    p.to = out->data + out->len;
    return p;
}

static inline uint8_t *put(uint8_t *to, const char *literal, size_t len)
{
    memcpy(to, literal, len);
    return to + len;
}

static inline int is_plain(uint8_t c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

#ifdef HAVE_SSE2
/* Copies half a chunk; a bit for each byte that is not plain. */
static inline uint32_t copy_half(uint8_t *to, const uint8_t *s)
{
    const __m128i space = _mm_set1_epi8(0x20), quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    __m128i bytes = _mm_loadu_si128((const __m128i *)s);
    __m128i quoting = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash));
    /* Of signed bytes those from 0x80 up are below the space, too; the mask is made of signs alone. */
    __m128i special = _mm_or_si128(_mm_subs_epi8(bytes, space), quoting);
    _mm_storeu_si128((__m128i *)to, bytes);
    return (uint32_t)_mm_movemask_epi8(special);
}

/* Copies the plain ASCII that `s` begins with and returns its length; copies up to a chunk more. */
static ALWAYS_INLINE size_t copy_plain(uint8_t *to, const uint8_t *s, size_t len)
{
    for (size_t left = len;; left -= CHUNK, to += CHUNK, s += CHUNK) {
        uint32_t special = copy_half(to, s) | copy_half(to + CHUNK / 2, s + CHUNK / 2) << CHUNK / 2;
        /* In the last chunk only what lies before the end counts. */
        if (left <= CHUNK && (uint32_t)((uint64_t)special << (CHUNK - left)) == 0)
            return len;
        if (special)
            return len - left + (size_t)__builtin_ctz(special);
    }
}
#else
static inline size_t copy_plain(uint8_t *to, const uint8_t *s, size_t len)
{
    size_t i = 0;
    for (; i < len && is_plain(s[i]); i++)
        to[i] = s[i];
    return i;
}
#endif

/* json_scalar.c */
place put_integer(transcoder *t, place p, uint64_t magnitude, int negative);
place put_bytes(transcoder *t, place p, uint64_t len);
place put_link(transcoder *t, place p);
place put_simple(transcoder *t, place p, head h);

/* json_text.c */
/* The rest of a string, from its first byte that is not plain on. */
place put_odd_string(transcoder *t, place p, const uint8_t *s, size_t len);
uint8_t *put_base64(uint8_t *to, const uint8_t *s, size_t len);
uint8_t *put_base32(uint8_t *to, const uint8_t *s, size_t len);

/* `p.at` is behind the string already. */
static ALWAYS_INLINE place put_string(transcoder *t, place p, const uint8_t *s, size_t len)
{
    *p.to++ = '"';
    size_t plain = copy_plain(p.to, s, len);
    p.to += plain;
    if (plain != len)
        return put_odd_string(t, p, s + plain, len - plain);
    *p.to++ = '"';
    return p;
}

#endif
