/* Well-formed UTF-8, as Unicode tables it: nothing overlong, no surrogates, nothing beyond U+10FFFF. */
#ifndef TRAWLNET_UTF8_H
#define TRAWLNET_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length of the well-formed sequence of two to four bytes at `s`, or 0. */
static inline size_t utf8_sequence(const uint8_t *s, size_t left)
{
    uint8_t lead = s[0];
    uint8_t low = 0x80, high = 0xbf;
    size_t len;
    if (lead >= 0xc2 && lead <= 0xdf) {
        len = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        len = 3;
        if (lead == 0xe0)
            low = 0xa0;
        else if (lead == 0xed)
            high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        len = 4;
        if (lead == 0xf0)
            low = 0x90;
        else if (lead == 0xf4)
            high = 0x8f;
    } else {
        return 0;
    }
    if (left < len || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

#endif
