/* JSON of a record, checked in one pass as strictly as the twin's parser does, with nothing built from it. */
#include "recordcounts.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

#if defined(__SSE2__) && !defined(TRAWLNET_PORTABLE)
#define HAVE_SSE2 1
#include <emmintrin.h>
#endif

typedef struct {
    const uint8_t *end;  /* of the record */
    const uint8_t *wide; /* before this a record goes on, and 16 bytes may be loaded */
} bounds;

static const uint8_t *behind_blanks(const uint8_t *at, const uint8_t *end)
{
    while (at != end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

/* What we write has no blanks; others may. */
static inline const uint8_t *skip_blanks(const uint8_t *at, const uint8_t *end)
{
    return at != end && *at > ' ' ? at : behind_blanks(at, end);
}

static inline int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static int hex_digit(uint8_t c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits at `at`, or -1. */
static int hex_code(const uint8_t *at, const uint8_t *end)
{
    int code = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

/* Behind the escape at `at`, or NULL: surrogates come in pairs. */
static const uint8_t *behind_escape(const uint8_t *at, const uint8_t *end)
{
    if (end - at < 2)
        return NULL;
    if (at[1] != 'u')
        return at[1] && strchr("\"\\/bfnrt", at[1]) ? at + 2 : NULL;
    int code = hex_code(at + 2, end);
    if (code < 0 || (code >= 0xdc00 && code <= 0xdfff))
        return NULL;
    if (code < 0xd800 || code > 0xdbff)
        return at + 6;
    if (end - at < 12 || at[6] != '\\' || at[7] != 'u')
        return NULL;
    int low = hex_code(at + 8, end);
    return low >= 0xdc00 && low <= 0xdfff ? at + 12 : NULL;
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

static inline int ends_run(uint8_t c) { return c == '"' || c == '\\' || c < 0x20; }

/* The first quote, backslash or control character from `at` on, or the end; bytes beyond ASCII show in `*high`. */
static inline const uint8_t *behind_run(const uint8_t *at, const bounds *in, unsigned *high)
{
#ifdef HAVE_SSE2
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);
    for (; at < in->wide; at += 16) {
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
    for (; at < in->end && !ends_run(*at); at++)
        *high |= *at & 0x80u;
    return at;
}

/* The quote that closes a string with escapes or bytes beyond ASCII, which was read up to `at`; or NULL. */
static const uint8_t *quote_of_odd(const uint8_t *start, const uint8_t *at, const bounds *in, unsigned high)
{
    while (at < in->end && *at == '\\') {
        at = behind_escape(at, in->end);
        if (!at)
            return NULL;
        at = behind_run(at, in, &high);
    }
    return at < in->end && *at == '"' && (!high || is_utf8(start, at)) ? at : NULL;
}

/* The quote that closes the string whose first byte is at `start`, or NULL. */
static inline const uint8_t *closing_quote(const uint8_t *start, const bounds *in)
{
    unsigned high = 0;
    const uint8_t *at = behind_run(start, in, &high);
    return at < in->end && *at == '"' && !high ? at : quote_of_odd(start, at, in, high);
}

static inline const uint8_t *behind_digits(const uint8_t *at, const uint8_t *end)
{
    while (at != end && is_digit(*at))
        at++;
    return at;
}

/* Behind the number at `at`, or NULL; also where it is too large for a double, which the twin's parser refuses. */
static const uint8_t *behind_number(const uint8_t *at, const uint8_t *end)
{
    enum { SURELY_FINITE = 200, SHORT_EXPONENT = 2 }; /* digits: under 10^200 times 10^99 */
    const uint8_t *start = at, *from;
    int doubtful = 0;
    at += *at == '-';
    from = at;
    at = behind_digits(at, end);
    if (at == from || (*from == '0' && at - from > 1))
        return NULL;
    if (at != end && *at == '.') {
        from = ++at;
        at = behind_digits(at, end);
        if (at == from)
            return NULL;
    }
    if (at != end && (*at == 'e' || *at == 'E')) {
        at++;
        int small = at != end && *at == '-';
        at += at != end && (*at == '+' || *at == '-');
        from = at;
        at = behind_digits(at, end);
        if (at == from)
            return NULL;
        doubtful = !small && at - from > SHORT_EXPONENT;
    }
    /* A number that ends where its object must still be closed is wrong, so strtod finds a byte to stop at. */
    if (at == end)
        return NULL;
    if (doubtful || at - start > SURELY_FINITE) {
        double value = strtod((const char *)start, NULL);
        if (value > DBL_MAX || value < -DBL_MAX)
            return NULL;
    }
    return at;
}

static const uint8_t *behind_word(const uint8_t *at, const uint8_t *end, const char *word, size_t len)
{
    return (size_t)(end - at) >= len && memcmp(at, word, len) == 0 ? at + len : NULL;
}

/* Behind the value at `at`, which is no object and no array; or NULL. */
static inline const uint8_t *behind_scalar(const uint8_t *at, const bounds *in)
{
    switch (*at) {
    case '"': {
        const uint8_t *quote = closing_quote(at + 1, in);
        return quote ? quote + 1 : NULL;
    }
    case 't': return behind_word(at, in->end, "true", 4);
    case 'f': return behind_word(at, in->end, "false", 5);
    case 'n': return behind_word(at, in->end, "null", 4);
    default: return behind_number(at, in->end);
    }
}

/* The key may be written with escapes, and mean the same. */
static int is_spelt(const uint8_t *key, const char *name)
{
    int c;
    while ((c = json_next_char(&key)) >= 0 && *name && c == *name)
        name++;
    return c < 0 && !*name;
}

static void note_odd_key(record_fields *fields, const uint8_t *key, const uint8_t *value)
{
    if (is_spelt(key, "createdAt"))
        fields->created = value;
    else if (is_spelt(key, "langs"))
        fields->langs = value;
}

/* Of a key that comes twice the last one counts. */
static inline void note_field(record_fields *fields, const uint8_t *key, size_t len, const uint8_t *value)
{
    if (*key != 'c' && *key != 'l' && *key != '\\')
        return;
    if (len == 9 && memcmp(key, "createdAt", 9) == 0)
        fields->created = value;
    else if (len == 5 && memcmp(key, "langs", 5) == 0)
        fields->langs = value;
    else if (memchr(key, '\\', len))
        note_odd_key(fields, key, value);
}

/* Which of the open containers are objects: a bit for each. */
typedef struct {
    uint64_t objects[DEEPEST_JSON / 64];
    unsigned depth;
} nesting;

static inline int in_object(const nesting *open)
{
    unsigned level = open->depth - 1;
    return open->objects[level / 64] >> level % 64 & 1;
}

static inline int enter(nesting *open, int object)
{
    unsigned level = open->depth;
    if (level == DEEPEST_JSON)
        return 0;
    open->objects[level / 64] &= ~((uint64_t)1 << level % 64);
    open->objects[level / 64] |= (uint64_t)object << level % 64;
    open->depth++;
    return 1;
}

int json_record(const uint8_t *at, const uint8_t *end, const uint8_t *limit, record_fields *fields)
{
    bounds in = {end, limit - end >= 15 ? end : end - at > 15 ? limit - 15 : at};
    nesting open;
    int object = 1;
    open.depth = 0;
    fields->created = fields->langs = NULL;
    at = skip_blanks(at, end);
    if (at == end || *at != '{')
        return 0;

value:
    if (at == end)
        return 0;
    if (*at == '{' || *at == '[') {
        object = *at == '{';
        if (!enter(&open, object))
            return 0;
        at = skip_blanks(at + 1, end);
        if (at == end)
            return 0;
        if (*at == (object ? '}' : ']'))
            goto close;
        if (!object)
            goto value;
        goto key;
    }
    at = behind_scalar(at, &in);
    if (!at)
        return 0;

next:
    at = skip_blanks(at, end);
    if (at == end)
        return 0;
    if (*at != ',') {
        if (*at != (object ? '}' : ']'))
            return 0;
        goto close;
    }
    at = skip_blanks(at + 1, end);
    if (!object)
        goto value;

key:
    if (at == end || *at != '"')
        return 0;
    const uint8_t *name = at + 1, *quote = closing_quote(name, &in);
    if (!quote)
        return 0;
    at = skip_blanks(quote + 1, end);
    if (at == end || *at != ':')
        return 0;
    at = skip_blanks(at + 1, end);
    if (open.depth == 1)
        note_field(fields, name, (size_t)(quote - name), at);
    goto value;

close:
    at++;
    if (--open.depth == 0)
        return skip_blanks(at, end) == end;
    object = in_object(&open);
    goto next;
}

int json_next_char(const uint8_t **at)
{
    static const char MEANT[] = {['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'};
    const uint8_t *s = *at;
    if (*s == '"')
        return -1;
    if (*s != '\\') {
        *at += 1;
        return *s;
    }
    if (s[1] == 'u') {
        *at += 6;
        return hex_code(s + 2, s + 6);
    }
    *at += 2;
    return s[1] < sizeof MEANT && MEANT[s[1]] ? MEANT[s[1]] : s[1];
}

static const uint8_t *behind_string(const uint8_t *at)
{
    for (at++; *at != '"'; at++)
        at += *at == '\\';
    return at + 1;
}

const uint8_t *json_behind(const uint8_t *at)
{
    size_t depth = 0;
    do {
        if (*at == '"') {
            at = behind_string(at);
            continue;
        }
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at++;
        /* A scalar at the top ends where its array goes on. */
    } while (depth || !(*at == ',' || *at == ']'));
    return at;
}
