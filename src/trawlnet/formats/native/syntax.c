/* The identifier grammars of atproto, over bytes. */
#include "repoblock.h"

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

/* May the byte stand in a record key? */
static const uint8_t IN_RKEY[256] = {
    ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1, ['0' ... '9'] = 1, ['.'] = 1, ['-'] = 1, ['_'] = 1, [':'] = 1, ['~'] = 1,
};

int is_rkey(const uint8_t *s, size_t len)
{
    uint8_t all = 1;
    if (len == 0 || len > 512)
        return 0;
    for (size_t i = 0; i < len; i++)
        all &= IN_RKEY[s[i]];
    return all && !(s[0] == '.' && (len == 1 || (len == 2 && s[1] == '.')));
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
