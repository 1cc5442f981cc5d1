/* Compact JSON to DAG-CBOR, read as strictly as it is written. */
#include "json_cbor.h"
#include "utf8.h"

#if defined(__SSE2__) && !defined(TRAWLNET_PORTABLE)
#define HAVE_SSE2 1
#include <emmintrin.h>
#endif

/* CBOR is no longer than JSON but for the heads of texts of 64 KiB and more: room is made once, with some to spare. */
enum { SPARE = 64, LONG_TEXT = 65536, MAX_HEAD = 9 };

typedef struct {
    const uint8_t *end;
    const char *wrong; /* static text */
} reading;

/* Where reading and writing have come to; `to` is NULL when the JSON is refused. */
typedef struct {
    const uint8_t *at;
    uint8_t *to;
} spot;

static spot put_value(reading *r, spot s, int depth);

static spot refuse(reading *r, const char *what)
{
    r->wrong = what;
    return (spot){NULL, NULL};
}

static uint8_t *put_head(uint8_t *to, unsigned major, uint64_t arg)
{
    size_t more = head_bytes(arg) - 1;
    static const uint8_t INFO[MAX_HEAD] = {[1] = 24, [2] = 25, [4] = 26, [8] = 27};
    *to++ = (uint8_t)(major << 5 | (more ? INFO[more] : arg));
    for (size_t i = more; i; i--)
        *to++ = (uint8_t)(arg >> 8 * (i - 1));
    return to;
}

/* A head that becomes known behind what it is the head of, for which `room` bytes were left. */
static uint8_t *put_head_before(uint8_t *start, uint8_t *end, size_t room, unsigned major, uint64_t arg)
{
    size_t size = head_bytes(arg);
    if (size != room)
        memmove(start + size, start + room, (size_t)(end - start) - room);
    put_head(start, major, arg);
    return end + size - room;
}

static inline int ends_plain(uint8_t c) { return c == '"' || c == '\\' || c < 0x20; }

/* The first quote, backslash or control character, or the end; bytes beyond ASCII show in `*high`. */
static inline const uint8_t *behind_plain(const uint8_t *at, const uint8_t *end, unsigned *high)
{
#ifdef HAVE_SSE2
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);
    for (; end - at >= 16; at += 16) {
        __m128i chunk = _mm_loadu_si128((const __m128i *)at);
        __m128i ends = _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(chunk, control), chunk),
                                    _mm_or_si128(_mm_cmpeq_epi8(chunk, quote), _mm_cmpeq_epi8(chunk, slash)));
        unsigned mask = (unsigned)_mm_movemask_epi8(ends), tops = (unsigned)_mm_movemask_epi8(chunk);
        if (mask) {
            *high |= tops & ((mask & -mask) - 1);
            return at + __builtin_ctz(mask);
        }
        *high |= tops;
    }
#endif
    for (; at != end && !ends_plain(*at); at++)
        *high |= *at & 0x80u;
    return at;
}

static int is_utf8(const uint8_t *at, const uint8_t *end)
{
    while (at != end) {
        size_t len = *at < 0x80 ? 1 : utf8_sequence(at, (size_t)(end - at));
        if (!len)
            return 0;
        at += len;
    }
    return 1;
}

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The character of the escape at `at`, which has the only form that we write, and where it ends; or -1. */
static int escaped(const uint8_t **at, const uint8_t *end)
{
    static const uint8_t SHORT[128] = {['"'] = '"', ['\\'] = '\\', ['b'] = '\b', ['t'] = '\t',
                                       ['n'] = '\n', ['f'] = '\f', ['r'] = '\r'};
    const uint8_t *s = *at;
    if (end - s < 2)
        return -1;
    if (s[1] != 'u') {
        *at += 2;
        return s[1] < 128 && SHORT[s[1]] ? SHORT[s[1]] : -1;
    }
    if (end - s < 6 || s[2] != '0' || s[3] != '0' || (s[4] != '0' && s[4] != '1'))
        return -1;
    int low = hex_value(s[5]), c = (s[4] - '0') * 16 + low;
    *at += 6;
    return low < 0 || c == '\b' || c == '\t' || c == '\n' || c == '\f' || c == '\r' ? -1 : c;
}

static const char BAD_TEXT[] = "a text that is not UTF-8";

/* A text with escapes: of what length it is shows when it is read. */
static spot put_escaped(reading *r, spot s)
{
    uint8_t *start = s.to;
    unsigned high = 0;
    s.to += 5;
    for (;;) {
        const uint8_t *stop = behind_plain(s.at, r->end, &high);
        memcpy(s.to, s.at, (size_t)(stop - s.at));
        s.to += stop - s.at;
        s.at = stop;
        if (stop == r->end || *stop < 0x20)
            return refuse(r, "a text that is not closed, or has control characters");
        if (*stop == '"')
            break;
        int c = escaped(&s.at, r->end);
        if (c < 0)
            return refuse(r, "an escape that nobody writes");
        *s.to++ = (uint8_t)c;
    }
    if (high && !is_utf8(start + 5, s.to))
        return refuse(r, BAD_TEXT);
    s.at++;
    s.to = put_head_before(start, s.to, 5, 3, (uint64_t)(s.to - start - 5));
    return s;
}

/* The text whose quote is at `s.at`. */
static spot put_text(reading *r, spot s)
{
    if (s.at == r->end || *s.at != '"')
        return refuse(r, "no text where one has to be");
    s.at++;
    unsigned high = 0;
    const uint8_t *stop = behind_plain(s.at, r->end, &high);
    if (stop == r->end || *stop != '"')
        return put_escaped(r, s);
    if (high && !is_utf8(s.at, stop))
        return refuse(r, BAD_TEXT);
    size_t len = (size_t)(stop - s.at);
    s.to = put_head(s.to, 3, len);
    memcpy(s.to, s.at, len);
    return (spot){stop + 1, s.to + len};
}

/* Of a digit in base32 or base64; 64 for anything else. */
static unsigned digit_of(uint8_t c, unsigned width)
{
    if (c >= 'a' && c <= 'z')
        return c - 'a' + (width == 5 ? 0u : 26u);
    if (width == 5)
        return c >= '2' && c <= '7' ? c - '2' + 26u : 64;
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= '0' && c <= '9')
        return c - '0' + 52u;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

static const uint8_t *behind_digits(const uint8_t *at, const uint8_t *end, unsigned width)
{
    while (at != end && digit_of(*at, width) < 64)
        at++;
    return at;
}

/* Whole bytes of digits; 0 if bits are left over that are not zero, or a digit too many. */
static int put_digits(uint8_t **to, const uint8_t *at, const uint8_t *end, unsigned width)
{
    unsigned bits = 0, held = 0;
    for (; at != end; at++) {
        held = held << width | digit_of(*at, width);
        bits += width;
        if (bits >= 8) {
            bits -= 8;
            *(*to)++ = (uint8_t)(held >> bits);
        }
        held &= (1u << bits) - 1;
    }
    return bits < width && held == 0;
}

/* The byte string or link at `s.at`, if there is one: an object that has only this key, and digits. */
static int is_marked(const reading *r, const uint8_t *at, const char *mark, unsigned width, const uint8_t **digits,
                     const uint8_t **stop)
{
    enum { MARK = 11 };
    if (r->end - at < MARK + 2 || memcmp(at, mark, MARK) != 0)
        return 0;
    *digits = at + MARK;
    *stop = behind_digits(*digits, r->end, width);
    return r->end - *stop >= 2 && (*stop)[0] == '"' && (*stop)[1] == '}';
}

static spot put_bytes(reading *r, spot s, const uint8_t *digits, const uint8_t *stop)
{
    s.to = put_head(s.to, 2, (uint64_t)(stop - digits) * 6 / 8);
    if (!put_digits(&s.to, digits, stop, 6))
        return refuse(r, "base64 that nobody writes");
    s.at = stop + 2;
    return s;
}

static spot put_link(reading *r, spot s, const uint8_t *digits, const uint8_t *stop)
{
    size_t len = (size_t)(stop - digits) * 5 / 8;
    if (len == 0 || len > MAX_CID)
        return refuse(r, "a link of no length that one can have");
    *s.to++ = 0xd8;
    *s.to++ = 42;
    s.to = put_head(s.to, 2, len + 1);
    *s.to++ = 0;
    const uint8_t *cid = s.to;
    int is_sha256;
    if (!put_digits(&s.to, digits, stop, 5) || cid_parse(cid, len, &is_sha256) != len)
        return refuse(r, "a link that nobody writes");
    s.at = stop + 2;
    return s;
}

/* Behind a member of an object or an array: whether another follows. The bracket is passed. */
static int goes_on(reading *r, spot *s, uint8_t bracket)
{
    uint8_t c = s->at == r->end ? 0 : *s->at;
    s->at += s->at != r->end;
    if (c == ',')
        return 1;
    if (c != bracket)
        *s = refuse(r, "neither a comma nor the end of what was begun");
    return 0;
}

static int comes_behind(const uint8_t *key, size_t len, const uint8_t *before, size_t before_len)
{
    return len != before_len ? len > before_len : memcmp(key, before, len) > 0;
}

/* The length of the text that was just written, and where it begins. */
static const uint8_t *written_text(const uint8_t *head, const uint8_t *end, size_t *len)
{
    cursor c = {head, end};
    const uint8_t *at = head;
    *len = 0;
    cbor_span(&c, 3, &at, len);
    return at;
}

/* The only key of a map that would be taken for something else. */
static int is_mark(const uint8_t *key, size_t len)
{
    return (len == 5 && memcmp(key, "$link", 5) == 0) || (len == 6 && memcmp(key, "$bytes", 6) == 0);
}

static spot put_object(reading *r, spot s, int depth)
{
    uint8_t *start = s.to;
    const uint8_t *before = NULL;
    size_t before_len = 0, count = 0;
    s.at++;
    s.to++;
    if (s.at != r->end && *s.at == '}') {
        *start = 0xa0;
        return (spot){s.at + 1, s.to};
    }
    do {
        uint8_t *head = s.to;
        size_t len;
        s = put_text(r, s);
        if (!s.to)
            return s;
        const uint8_t *key = written_text(head, s.to, &len);
        if (before && !comes_behind(key, len, before, before_len))
            return refuse(r, "keys that are out of order");
        before = key;
        before_len = len;
        if (s.at == r->end || *s.at != ':')
            return refuse(r, "a key without a value");
        s.at++;
        s = put_value(r, s, depth + 1);
        if (!s.to)
            return s;
        if (++count > MAX_CONTAINER)
            return refuse(r, "too many entries");
    } while (goes_on(r, &s, '}'));
    if (s.to && count == 1 && is_mark(before, before_len))
        return refuse(r, "a map that stands for bytes or a link");
    if (s.to)
        s.to = put_head_before(start, s.to, 1, 5, count);
    return s;
}

static spot put_array(reading *r, spot s, int depth)
{
    uint8_t *start = s.to++;
    size_t count = 0;
    s.at++;
    if (s.at != r->end && *s.at == ']') {
        *start = 0x80;
        return (spot){s.at + 1, s.to};
    }
    do {
        s = put_value(r, s, depth + 1);
        if (!s.to)
            return s;
        if (++count > MAX_CONTAINER)
            return refuse(r, "too many entries");
    } while (goes_on(r, &s, ']'));
    if (s.to)
        s.to = put_head_before(start, s.to, 1, 4, count);
    return s;
}

/* From -2^63 to 2^64-1, as digits are written; a float is no number that gives its bytes back. */
static spot put_number(reading *r, spot s)
{
    int negative = *s.at == '-';
    const uint8_t *first = s.at + negative, *at = first;
    uint64_t v = 0;
    for (; at != r->end && *at >= '0' && *at <= '9'; at++) {
        unsigned digit = *at - '0';
        if (v > (UINT64_MAX - digit) / 10)
            return refuse(r, "a number that is too large");
        v = v * 10 + digit;
    }
    if (at == first || (*first == '0' && (at - first > 1 || negative)))
        return refuse(r, "a number that nobody writes");
    if (at != r->end && (*at == '.' || *at == 'e' || *at == 'E'))
        return refuse(r, "a float");
    if (negative && v > (uint64_t)1 << 63)
        return refuse(r, "a number that is too large");
    return (spot){at, negative ? put_head(s.to, 1, v - 1) : put_head(s.to, 0, v)};
}

static spot put_word(reading *r, spot s, const char *word, size_t len, uint8_t value)
{
    if ((size_t)(r->end - s.at) < len || memcmp(s.at, word, len) != 0)
        return refuse(r, "a word that means nothing");
    *s.to++ = value;
    s.at += len;
    return s;
}

static spot put_value(reading *r, spot s, int depth)
{
    const uint8_t *digits, *stop;
    if (s.at == r->end)
        return refuse(r, "nothing where a value has to be");
    switch (*s.at) {
    case '"': return put_text(r, s);
    case '{':
        if (is_marked(r, s.at, "{\"$bytes\":\"", 6, &digits, &stop))
            return put_bytes(r, s, digits, stop);
        if (is_marked(r, s.at, "{\"$link\":\"b", 5, &digits, &stop))
            return put_link(r, s, digits, stop);
        return depth < MAX_NESTING ? put_object(r, s, depth) : refuse(r, "too deep");
    case '[': return depth < MAX_NESTING ? put_array(r, s, depth) : refuse(r, "too deep");
    case 't': return put_word(r, s, "true", 4, 0xf5);
    case 'f': return put_word(r, s, "false", 5, 0xf4);
    case 'n': return put_word(r, s, "null", 4, 0xf6);
    default: return put_number(r, s);
    }
}

const char *cbor_from_json(const uint8_t *json, size_t len, buffer *out, int *no_memory)
{
    reading r = {json + len, NULL};
    if (!buffer_reserve(out, len + len / LONG_TEXT * 4 + SPARE)) {
        *no_memory = 1;
        return "no memory";
    }
    if (!len || *json != '{')
        return "no object";
    spot s = put_value(&r, (spot){json, out->data + out->len}, 0);
    if (!s.to)
        return r.wrong;
    if (s.at != r.end)
        return "something behind the object";
    out->len = (size_t)(s.to - out->data);
    return NULL;
}
