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

place put_odd_string(transcoder *t, place p, const uint8_t *s, size_t len)
{
    const uint8_t *end = s + len;
    while (s != end) {
        if (*s < 0x80) {
            p = room(t, p, (size_t)(end - s) + 8);
            if (!p.to)
                return p;
            p.to = escape(p.to, *s++);
        }
        while (s != end && *s >= 0x80) {
            size_t n = utf8_sequence(s, (size_t)(end - s));
            if (!n)
                return give_up(t, DROP_BAD_UTF8);
            memcpy(p.to, s, n);
            p.to += n;
            s += n;
        }
        size_t plain = copy_plain(p.to, s, (size_t)(end - s));
        s += plain;
        p.to += plain;
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
