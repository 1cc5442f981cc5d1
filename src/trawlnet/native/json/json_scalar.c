/* Values that are neither text nor container: numbers, bytes, links, and the three words. */
#include "transcode.h"

#include <math.h>

static place put_literal(transcoder *t, place p, const char *literal, size_t len)
{
    p = room(t, p, len);
    if (p.to)
        p.to = put(p.to, literal, len);
    return p;
}

place put_integer(transcoder *t, place p, uint64_t magnitude, int negative)
{
    char digits[24];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + magnitude % 10);
    while (magnitude /= 10);
    if (negative)
        digits[--at] = '-';
    return put_literal(t, p, digits + at, sizeof digits - at);
}

place put_bytes(transcoder *t, place p, uint64_t len)
{
    if (len > (size_t)(t->end - p.at))
        return give_up(t, DROP_BAD_CBOR);
    p = room(t, p, (size_t)len / 3 + 16);
    if (!p.to)
        return p;
    p.to = put(p.to, "{\"$bytes\":\"", 11);
    p.to = put_base64(p.to, p.at, (size_t)len);
    p.to = put(p.to, "\"}", 2);
    p.at += len;
    return p;
}

place put_link(transcoder *t, place p)
{
    cursor in = {p.at, t->end};
    const uint8_t *cid;
    size_t len;
    int is_sha256;
    if (!cbor_span(&in, 2, &cid, &len) || len == 0 || *cid != 0)
        return give_up(t, DROP_BAD_CBOR);
    if (cid_parse(cid + 1, len - 1, &is_sha256) != len - 1 || len == 1)
        return give_up(t, DROP_BAD_CID);
    t->odd |= (size_t)(cid - p.at) != head_bytes(len);
    p.at = in.at;
    p = room(t, p, 2 * MAX_CID);
    if (!p.to)
        return p;
    p.to = put(p.to, "{\"$link\":\"b", 11);
    p.to = put_base32(p.to, cid + 1, len - 1);
    p.to = put(p.to, "\"}", 2);
    return p;
}

static double half_to_double(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent ? ldexp(mantissa + 1024, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31)
        value = mantissa ? NAN : INFINITY;
    return bits & 0x8000 ? -value : value;
}

place put_simple(transcoder *t, place p, head h)
{
    char digits[32];
    double value;
    float narrow;
    uint32_t word = (uint32_t)h.arg;
    switch (h.info) {
    case 20: return put_literal(t, p, "false", 5);
    case 21: return put_literal(t, p, "true", 4);
    case 22: return put_literal(t, p, "null", 4);
    case 25: value = half_to_double((uint16_t)h.arg); break;
    case 26: memcpy(&narrow, &word, 4); value = narrow; break;
    case 27: memcpy(&value, &h.arg, 8); break;
    default: return give_up(t, DROP_BAD_CBOR);
    }
    t->odd = 1; /* the protocol knows no floats, and readers of JSON round them as they like */
    if (!isfinite(value))
        return put_literal(t, p, "null", 4);
    return put_literal(t, p, digits, json_double(value, digits));
}
