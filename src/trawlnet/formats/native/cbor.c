/* Reading CBOR heads and skipping values; each function returns 0 for bytes that are not DAG-CBOR. */
#include "repoblock.h"

int cbor_head(cursor *c, head *h)
{
    if (c->at == c->end)
        return 0;
    uint8_t first = *c->at++;
    h->major = first >> 5;
    h->info = first & 31;
    if (h->info < 24) {
        h->arg = h->info;
        return 1;
    }
    /* 28 to 31 are reserved or of indefinite length. */
    if (h->info > 27)
        return 0;
    size_t width = (size_t)1 << (h->info - 24);
    if ((size_t)(c->end - c->at) < width)
        return 0;
    h->arg = 0;
    for (size_t i = 0; i < width; i++)
        h->arg = h->arg << 8 | *c->at++;
    return 1;
}

int cbor_span(cursor *c, uint8_t major, const uint8_t **at, size_t *len)
{
    head h;
    if (!cbor_head(c, &h) || h.major != major || h.arg > (size_t)(c->end - c->at))
        return 0;
    *at = c->at;
    *len = (size_t)h.arg;
    c->at += h.arg;
    return 1;
}

int cbor_link(cursor *c, const uint8_t **cid, size_t *len)
{
    head h;
    if (!cbor_head(c, &h) || h.major != 6 || h.arg != 42)
        return 0;
    if (!cbor_span(c, 2, cid, len) || *len < 1 || (*cid)[0] != 0)
        return 0;
    *cid += 1;
    *len -= 1;
    return 1;
}

int cbor_sha256_link(cursor *c, const uint8_t **digest)
{
    const uint8_t *cid;
    size_t len;
    if (!cbor_link(c, &cid, &len) || len != CID_SIZE || memcmp(cid, CID_PREFIX, 4) != 0)
        return 0;
    *digest = cid + 4;
    return 1;
}

int cbor_skip(cursor *c, int depth)
{
    head h;
    const uint8_t *at;
    size_t len;
    if (!cbor_head(c, &h))
        return 0;
    switch (h.major) {
    case 0:
    case 1:
        return 1;
    case 2:
    case 3:
        if (h.arg > (size_t)(c->end - c->at))
            return 0;
        c->at += h.arg;
        return 1;
    case 4:
    case 5:
        if (depth >= MAX_NESTING || h.arg > MAX_CONTAINER)
            return 0;
        for (uint64_t n = h.arg * (h.major - 3u); n; n--)
            if (!cbor_skip(c, depth + 1))
                return 0;
        return 1;
    case 6:
        return h.arg == 42 && cbor_span(c, 2, &at, &len);
    default:
        return (h.info >= 20 && h.info <= 22) || (h.info >= 25 && h.info <= 27);
    }
}
