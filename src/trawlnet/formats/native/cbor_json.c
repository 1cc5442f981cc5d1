/* DAG-CBOR to compact JSON, straight into the output buffer. */
#include "repoblock.h"

#include <math.h>
#include <stdlib.h>

#include "utf8.h"

#if defined(__SSE2__) && !defined(TRAWLNET_PORTABLE)
#define HAVE_SSE2 1
#include <emmintrin.h>
#endif

typedef struct {
    cursor in;
    const uint8_t *readable; /* end of the CAR: a wide load may pass the record, not this */
    buffer *out;
    scratch *mem;
    size_t key_count; /* keys of all maps that are open, in mem->keys */
    int keep_cids;
} transcoder;

/* Every put_ function leaves this much room behind what it wrote: for the separators that follow without asking, at most
 * one per level of nesting, and for wide stores. */
enum { SLACK = 64 };

static drop_reason put_value(transcoder *t, int depth);

static inline void put_byte(buffer *out, char c) { out->data[out->len++] = (uint8_t)c; }

static inline void put(buffer *out, const char *literal, size_t len)
{
    memcpy(out->data + out->len, literal, len);
    out->len += len;
}

static inline drop_reason put_literal(buffer *out, const char *literal, size_t len)
{
    if (!buffer_reserve(out, len + SLACK))
        return DROP_NO_MEMORY;
    put(out, literal, len);
    return DROP_NONE;
}

static drop_reason put_integer(buffer *out, uint64_t magnitude, int negative)
{
    char digits[24];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + magnitude % 10);
    while (magnitude /= 10);
    if (negative)
        digits[--at] = '-';
    return put_literal(out, digits + at, sizeof digits - at);
}

static inline int is_plain(uint8_t c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

/* Copies the plain ASCII that `s` begins with and returns its length; may store up to SLACK bytes more. */
static inline size_t copy_plain(uint8_t *to, const uint8_t *s, size_t len, const uint8_t *readable)
{
    size_t i = 0;
#ifdef HAVE_SSE2
    const __m128i space = _mm_set1_epi8(0x20), quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    for (; i < len && (size_t)(readable - s) - i >= 16; i += 16) {
        __m128i chunk = _mm_loadu_si128((const __m128i *)(s + i));
        /* Signed comparison: bytes from 0x80 up are negative, so they count as below the space too. */
        __m128i special = _mm_or_si128(_mm_cmplt_epi8(chunk, space),
                                       _mm_or_si128(_mm_cmpeq_epi8(chunk, quote), _mm_cmpeq_epi8(chunk, slash)));
        unsigned mask = (unsigned)_mm_movemask_epi8(special);
        _mm_storeu_si128((__m128i *)(to + i), chunk);
        if (mask) {
            size_t stop = i + (size_t)__builtin_ctz(mask);
            return stop < len ? stop : len;
        }
    }
    if (i >= len)
        return len;
#else
    (void)readable;
#endif
    for (; i < len && is_plain(s[i]); i++)
        to[i] = s[i];
    return i;
}

static size_t escape(uint8_t *to, uint8_t c)
{
    static const char HEX[] = "0123456789abcdef";
    static const char SHORT[32] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    char letter = c < 0x20 ? SHORT[c] : (char)c;
    to[0] = '\\';
    if (letter) {
        to[1] = (uint8_t)letter;
        return 2;
    }
    memcpy(to + 1, "u00", 3);
    to[4] = (uint8_t)HEX[c >> 4];
    to[5] = (uint8_t)HEX[c & 15];
    return 6;
}

static drop_reason put_any_string(transcoder *t, const uint8_t *s, size_t len)
{
    buffer *out = t->out;
    const uint8_t *end = s + len;
    if (!buffer_reserve(out, len + 2 + SLACK))
        return DROP_NO_MEMORY;
    put_byte(out, '"');
    for (;;) {
        size_t plain = copy_plain(out->data + out->len, s, (size_t)(end - s), t->readable);
        s += plain;
        out->len += plain;
        if (s == end)
            break;
        if (*s < 0x80) {
            if (!buffer_reserve(out, (size_t)(end - s) + 8 + SLACK))
                return DROP_NO_MEMORY;
            out->len += escape(out->data + out->len, *s++);
            continue;
        }
        do {
            size_t n = utf8_sequence(s, (size_t)(end - s));
            if (!n)
                return DROP_BAD_UTF8;
            memcpy(out->data + out->len, s, n);
            out->len += n;
            s += n;
        } while (s != end && *s >= 0x80);
    }
    put_byte(out, '"');
    return DROP_NONE;
}

/* Most strings are plain ASCII from end to end; the others start over in put_any_string. */
static inline drop_reason put_string(transcoder *t, const uint8_t *s, size_t len)
{
    buffer *out = t->out;
    if (!buffer_reserve(out, len + 2 + SLACK))
        return DROP_NO_MEMORY;
    uint8_t *to = out->data + out->len + 1;
    if (copy_plain(to, s, len, t->readable) != len)
        return put_any_string(t, s, len);
    to[-1] = '"';
    to[len] = '"';
    out->len += len + 2;
    return DROP_NONE;
}

static size_t put_base64(uint8_t *to, const uint8_t *s, size_t len)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *start = to;
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | s[i];
        for (held += 8; held >= 6; held -= 6)
            *to++ = (uint8_t)DIGITS[bits >> (held - 6) & 63];
    }
    if (held)
        *to++ = (uint8_t)DIGITS[bits << (6 - held) & 63];
    return (size_t)(to - start);
}

static size_t put_base32(uint8_t *to, const uint8_t *s, size_t len)
{
    static const char DIGITS[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t *start = to;
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | s[i];
        for (held += 8; held >= 5; held -= 5)
            *to++ = (uint8_t)DIGITS[bits >> (held - 5) & 31];
    }
    if (held)
        *to++ = (uint8_t)DIGITS[bits << (5 - held) & 31];
    return (size_t)(to - start);
}

static drop_reason put_bytes(transcoder *t, uint64_t len)
{
    buffer *out = t->out;
    if (len > (size_t)(t->in.end - t->in.at))
        return DROP_BAD_CBOR;
    if (!buffer_reserve(out, (size_t)len + (size_t)len / 3 + 16 + SLACK))
        return DROP_NO_MEMORY;
    put(out, "{\"$bytes\":\"", 11);
    out->len += put_base64(out->data + out->len, t->in.at, (size_t)len);
    put(out, "\"}", 2);
    t->in.at += len;
    return DROP_NONE;
}

static drop_reason put_link(transcoder *t)
{
    buffer *out = t->out;
    const uint8_t *cid;
    size_t len;
    int is_sha256;
    if (!cbor_span(&t->in, 2, &cid, &len) || len == 0 || *cid != 0)
        return DROP_BAD_CBOR;
    if (cid_parse(cid + 1, len - 1, &is_sha256) != len - 1 || len == 1)
        return DROP_BAD_CID;
    if (!buffer_reserve(out, 2 * MAX_CID + SLACK))
        return DROP_NO_MEMORY;
    put(out, "{\"$link\":\"b", 11);
    out->len += put_base32(out->data + out->len, cid + 1, len - 1);
    put(out, "\"}", 2);
    return DROP_NONE;
}

static double half_to_double(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent ? ldexp(mantissa + 1024, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31)
        value = mantissa ? NAN : INFINITY;
    return bits & 0x8000 ? -value : value;
}

static drop_reason put_simple(transcoder *t, head h)
{
    char digits[32];
    double value;
    float narrow;
    uint32_t word = (uint32_t)h.arg;
    switch (h.info) {
    case 20: return put_literal(t->out, "false", 5);
    case 21: return put_literal(t->out, "true", 4);
    case 22: return put_literal(t->out, "null", 4);
    case 25: value = half_to_double((uint16_t)h.arg); break;
    case 26: memcpy(&narrow, &word, 4); value = narrow; break;
    case 27: memcpy(&value, &h.arg, 8); break;
    default: return DROP_BAD_CBOR;
    }
    if (!isfinite(value))
        return put_literal(t->out, "null", 4);
    return put_literal(t->out, digits, json_double(value, digits));
}

/* Every element has left a comma behind; the last one becomes the closing bracket. */
static drop_reason close_container(buffer *out, uint8_t bracket)
{
    if (out->data[out->len - 1] == ',') {
        out->data[out->len - 1] = bracket;
        return DROP_NONE;
    }
    return put_literal(out, (const char *)&bracket, 1);
}

static drop_reason open_container(transcoder *t, uint64_t entries, int depth, char bracket)
{
    if (depth >= MAX_NESTING)
        return DROP_TOO_DEEP;
    if (entries > MAX_CONTAINER)
        return DROP_TOO_LARGE;
    return put_literal(t->out, &bracket, 1);
}

static drop_reason put_array(transcoder *t, uint64_t entries, int depth)
{
    drop_reason why = open_container(t, entries, depth, '[');
    for (; !why && entries; entries--) {
        why = put_value(t, depth + 1);
        if (!why)
            put_byte(t->out, ',');
    }
    return why ? why : close_container(t->out, ']');
}

static inline int text_order(const void *left, const void *right)
{
    const text *a = left, *b = right;
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return a->len ? memcmp(a->at, b->at, a->len) : 0;
}

enum { FEW_KEYS = 12 }; /* up to here comparing each with each is quicker than sorting */

/* Only for maps out of canonical order: strictly rising keys cannot repeat. */
static drop_reason find_duplicate(text *keys, size_t count)
{
    size_t reach = count; /* how far apart equals can be */
    if (count > FEW_KEYS) {
        qsort(keys, count, sizeof *keys, text_order);
        reach = 2;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count && k < i + reach; k++)
            if (text_order(&keys[i], &keys[k]) == 0)
                return DROP_DUPLICATE_KEY;
    return DROP_NONE;
}

/* Follows one map for the pair of texts that makes a strong reference. */
typedef struct {
    size_t cid_start, cid_end; /* the written entry "cid":"...", */
    int has_cid, has_uri;
} reference;

static void note_entry(reference *ref, text key, size_t start, size_t end)
{
    if (memcmp(key.at, "uri", 3) == 0) {
        ref->has_uri = 1;
    } else if (memcmp(key.at, "cid", 3) == 0) {
        ref->has_cid = 1;
        ref->cid_start = start;
        ref->cid_end = end;
    }
}

static void strip_cid(buffer *out, const reference *ref)
{
    memmove(out->data + ref->cid_start, out->data + ref->cid_end, out->len - ref->cid_end);
    out->len -= ref->cid_end - ref->cid_start;
}

/* In canonical order "uri" comes right behind "cid", which then is simply written over. */
static void forget_cid(buffer *out, reference *ref, text key)
{
    if (ref->has_cid && ref->cid_end == out->len && memcmp(key.at, "uri", 3) == 0) {
        out->len = ref->cid_start;
        ref->has_cid = 0;
    }
}

static inline drop_reason put_text(transcoder *t, uint64_t len)
{
    const uint8_t *s = t->in.at;
    if (len > (size_t)(t->in.end - s))
        return DROP_BAD_CBOR;
    t->in.at += len;
    return put_string(t, s, (size_t)len);
}

/* Four values in five are texts: those need not go through the general case. */
static inline drop_reason put_member(transcoder *t, int depth)
{
    head h;
    if (t->in.at == t->in.end || *t->in.at >> 5 != 3)
        return put_value(t, depth);
    return cbor_head(&t->in, &h) ? put_text(t, h.arg) : DROP_BAD_CBOR;
}

static drop_reason put_entry(transcoder *t, text key, int depth, reference *ref)
{
    int may_refer = key.len == 3 && t->in.at != t->in.end && *t->in.at >> 5 == 3;
    if (may_refer && !t->keep_cids)
        forget_cid(t->out, ref, key);
    size_t start = t->out->len;
    drop_reason why = put_string(t, key.at, key.len);
    if (why)
        return why;
    put_byte(t->out, ':');
    why = put_member(t, depth + 1);
    if (why)
        return why;
    put_byte(t->out, ',');
    if (may_refer)
        note_entry(ref, key, start, t->out->len);
    return DROP_NONE;
}

static drop_reason put_map(transcoder *t, uint64_t entries, int depth)
{
    drop_reason why = open_container(t, entries, depth, '{');
    scratch *mem = t->mem;
    const size_t first = t->key_count;
    reference ref = {0};
    int rising = 1;

    for (uint64_t n = 0; !why && n < entries; n++) {
        if (t->key_count == mem->key_cap && !grow(&mem->keys, &mem->key_cap, 64, sizeof *mem->keys))
            return DROP_NO_MEMORY;
        text *key = &mem->keys[t->key_count++];
        if (!cbor_span(&t->in, 3, &key->at, &key->len))
            return DROP_BAD_CBOR;
        rising = rising && (n == 0 || text_order(key - 1, key) < 0);
        why = put_entry(t, *key, depth, &ref);
    }
    if (!why && !rising)
        why = find_duplicate(mem->keys + first, t->key_count - first);
    t->key_count = first;
    if (why)
        return why;
    if (!t->keep_cids && ref.has_cid && ref.has_uri)
        strip_cid(t->out, &ref);
    return close_container(t->out, '}');
}

static drop_reason put_value(transcoder *t, int depth)
{
    head h;
    if (!cbor_head(&t->in, &h))
        return DROP_BAD_CBOR;
    switch (h.major) {
    case 0: return put_integer(t->out, h.arg, 0);
    case 1: return h.arg > INT64_MAX ? DROP_INT_RANGE : put_integer(t->out, h.arg + 1, 1);
    case 2: return put_bytes(t, h.arg);
    case 3: return put_text(t, h.arg);
    case 4: return put_array(t, h.arg, depth);
    case 5: return put_map(t, h.arg, depth);
    case 6: return h.arg == 42 ? put_link(t) : DROP_BAD_CBOR;
    default: return put_simple(t, h);
    }
}

drop_reason json_from_cbor(const repo *r, const uint8_t *at, size_t len, buffer *out)
{
    transcoder t = {
        .in = {at, at + len},
        .readable = r->car + r->car_len,
        .out = out,
        .mem = r->mem,
        .keep_cids = r->options.keep_cids,
    };
    if (len && *at >> 5 != 5)
        return DROP_NOT_A_MAP;
    drop_reason why = put_value(&t, 0);
    if (!why && t.in.at != t.in.end)
        why = DROP_BAD_CBOR;
    return why;
}
