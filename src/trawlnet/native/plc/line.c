/* Nearly every operation says the same few things in the same few fields, in the order in which the directory's
 * database keeps them. Such an operation is matched byte by byte, and is stored in the bytes that it came in, for they
 * are what writing it anew would give. */
#include "line.h"

#include "repoblock.h"

#if defined(__SSE2__) && !defined(TRAWLNET_PORTABLE)
#include <emmintrin.h>
#endif

typedef struct {
    const uint8_t *at, *end;
} reader;

static int takes(reader *r, const char *literal, size_t len)
{
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, literal, len) != 0)
        return 0;
    r->at += len;
    return 1;
}

#define TAKES(r, literal) takes(r, literal, sizeof literal - 1)

static int equals(span s, const char *literal, size_t len) { return s.len == len && memcmp(s.at, literal, len) == 0; }

#define EQUALS(s, literal) equals(s, literal, sizeof literal - 1)

/* Characters that JSON writes as they are, in one byte each: a text of these has one spelling only. */
static inline int is_plain_ascii(uint8_t c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; }

#if defined(__SSE2__) && !defined(TRAWLNET_PORTABLE)
/* Past the plain characters, as far as sixteen can be looked at together. */
static inline const uint8_t *skip_plain(const uint8_t *s, const uint8_t *end)
{
    const __m128i space = _mm_set1_epi8(' '), delete = _mm_set1_epi8(0x7f);
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    for (; end - s >= 16; s += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)s);
        /* Of signed bytes those from 0x80 up are below the space, too. */
        __m128i beyond = _mm_or_si128(_mm_cmplt_epi8(bytes, space), _mm_cmpeq_epi8(bytes, delete));
        __m128i quoting = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash));
        unsigned odd = (unsigned)_mm_movemask_epi8(_mm_or_si128(beyond, quoting));
        if (odd)
            return s + __builtin_ctz(odd);
    }
    return s;
}
#else
static const uint8_t *skip_plain(const uint8_t *s, const uint8_t *end)
{
    (void)end;
    return s;
}
#endif

static int takes_text(reader *r, span *found)
{
    const uint8_t *s = r->at, *end = r->end;
    if (s == end || *s++ != '"')
        return 0;
    found->at = s;
    s = skip_plain(s, end);
    while (s < end && is_plain_ascii(*s))
        s++;
    if (s == end || *s != '"')
        return 0;
    found->len = (size_t)(s - found->at);
    r->at = s + 1;
    return 1;
}

/* The first text that names a handle is told without its scheme. */
static void note_handle(span *handle, span name)
{
    static const char SCHEME[] = "at://";
    size_t len = sizeof SCHEME - 1;
    if (!handle->at && name.len >= len && memcmp(name.at, SCHEME, len) == 0)
        *handle = (span){name.at + len, name.len - len};
}

static int takes_texts(reader *r, span *handle)
{
    span one;
    if (!TAKES(r, "["))
        return 0;
    if (TAKES(r, "]"))
        return 1;
    do {
        if (!takes_text(r, &one))
            return 0;
        if (handle)
            note_handle(handle, one);
    } while (TAKES(r, ","));
    return TAKES(r, "]");
}

static int takes_operation(reader *r, plc_line *line)
{
    const uint8_t *start = r->at;
    span ignored;
    if (!TAKES(r, "{\"sig\":") || !takes_text(r, &ignored) || !TAKES(r, ",\"prev\":"))
        return 0;
    if (!TAKES(r, "null") && !(takes_text(r, &line->prev) && line->prev.len))
        return 0;
    if (!TAKES(r, ",\"type\":\"plc_operation\",\"services\":{\"atproto_pds\":{\"type\":") || !takes_text(r, &ignored) ||
        !TAKES(r, ",\"endpoint\":") || !takes_text(r, &line->endpoint))
        return 0;
    if (!TAKES(r, "}},\"alsoKnownAs\":") || !takes_texts(r, &line->handle))
        return 0;
    if (!TAKES(r, ",\"rotationKeys\":") || !takes_texts(r, NULL))
        return 0;
    if (!TAKES(r, ",\"verificationMethods\":{\"atproto\":") || !takes_text(r, &line->signing_key) || !TAKES(r, "}}"))
        return 0;
    line->operation = (span){start, (size_t)(r->at - start)};
    return 1;
}

static int takes_seq(reader *r, uint64_t *seq)
{
    const uint8_t *start = r->at;
    uint64_t number = 0;
    while (r->at < r->end && (uint8_t)(*r->at - '0') < 10) {
        if (number > INT64_MAX / 10 || *start == '0')
            return 0;
        number = number * 10 + (uint64_t)(*r->at++ - '0');
        if (number > INT64_MAX)
            return 0;
    }
    *seq = number;
    return number > 0;
}

static int is_cid(span s)
{
    if (s.len < 8 || s.len > 256 || memcmp(s.at, "Qmb", 3) == 0)
        return 0;
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = s.at[i];
        if ((uint8_t)((c | 0x20) - 'a') >= 26 && (uint8_t)(c - '0') >= 10 && c != '+' && c != '=')
            return 0;
    }
    return 1;
}

/* A number of two digits and what stands behind it; -1 for anything else. */
static int pair(const uint8_t *s, char behind)
{
    unsigned tens = (unsigned)s[0] - '0', ones = (unsigned)s[1] - '0';
    return tens < 10 && ones < 10 && s[2] == (uint8_t)behind ? (int)(tens * 10 + ones) : -1;
}

static int days_of(int year, int month)
{
    static const uint8_t DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return DAYS[month - 1] + (month == 2 && year % 4 == 0);
}

/* Days since 1970 of a date between 1970 and 2099, in which every fourth year is a leap year. */
static int day_number(int year, int month, int day)
{
    int days = (year - 1970) * 365 + (year - 1969) / 4 + day - 1;
    for (int m = 1; m < month; m++)
        days += days_of(year, m);
    return days;
}

/* `2023-11-06T21:42:21.017Z`, which is how the directory spells instants. */
static int reads_instant(span s, int64_t *time_us)
{
    const uint8_t *t = s.at;
    if (s.len != 24 || (uint8_t)(t[0] - '0') > 9 || (uint8_t)(t[1] - '0') > 9 || (uint8_t)(t[20] - '0') > 9)
        return 0;
    int year = pair(t + 2, '-'), month = pair(t + 5, '-'), day = pair(t + 8, 'T');
    int hour = pair(t + 11, ':'), minute = pair(t + 14, ':'), second = pair(t + 17, '.'), rest = pair(t + 21, 'Z');
    if (year < 0 || month < 1 || month > 12 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
        second > 59 || rest < 0)
        return 0;
    year += (t[0] - '0') * 1000 + (t[1] - '0') * 100;
    if (year < 1970 || year > 2099 || day < 1 || day > days_of(year, month))
        return 0;
    int64_t seconds = day_number(year, month, day) * INT64_C(86400) + hour * 3600 + minute * 60 + second;
    *time_us = (seconds * 1000 + (t[20] - '0') * 100 + rest) * 1000;
    return 1;
}

enum { TYPE = 1, SEQ = 2, DID = 4, OPERATION = 8, CID = 16, CREATED_AT = 32, ALL = 63 };

/* Takes one field in; which one, or 0. */
static int takes_field(reader *r, plc_line *line)
{
    span name, value;
    if (!takes_text(r, &name) || !TAKES(r, ":"))
        return 0;
    if (EQUALS(name, "operation"))
        return takes_operation(r, line) && line->operation.len <= LONGEST_OPERATION ? OPERATION : 0;
    if (EQUALS(name, "seq"))
        return takes_seq(r, &line->seq) ? SEQ : 0;
    if (!takes_text(r, &value))
        return 0;
    if (EQUALS(name, "did")) {
        line->did = value;
        return is_did(value.at, value.len) ? DID : 0;
    }
    if (EQUALS(name, "cid")) {
        line->cid = value;
        return is_cid(value) ? CID : 0;
    }
    if (EQUALS(name, "createdAt"))
        return reads_instant(value, &line->time_us) ? CREATED_AT : 0;
    return EQUALS(name, "type") && EQUALS(value, "sequenced_op") ? TYPE : 0;
}

int read_plc_line(plc_line *line, const uint8_t *text, size_t len)
{
    reader r = {text, text + len};
    int seen = 0;
    *line = (plc_line){0};
    if (!TAKES(&r, "{"))
        return 0;
    do {
        int field = takes_field(&r, line);
        if (!field || seen & field) /* of a field that is told twice the last one counts, for the long way */
            return 0;
        seen |= field;
    } while (TAKES(&r, ","));
    return TAKES(&r, "}") && r.at == r.end && seen == ALL && line->endpoint.len <= LONGEST_ENDPOINT &&
           (!line->prev.len || is_cid(line->prev));
}
