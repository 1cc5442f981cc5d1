/* Links and whole values of CBOR; each function returns 0 for bytes that are not DAG-CBOR. */
#include "repoblock.h"

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
    static const uint8_t USUAL[9] = {0xd8, 0x2a, 0x58, CID_SIZE + 1, 0, 0x01, 0x71, 0x12, 0x20};
    const uint8_t *cid;
    size_t len;
    if (c->end - c->at >= (ptrdiff_t)sizeof USUAL + DIGEST && memcmp(c->at, USUAL, sizeof USUAL) == 0) {
        *digest = c->at + sizeof USUAL;
        c->at += sizeof USUAL + DIGEST;
        return 1;
    }
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
