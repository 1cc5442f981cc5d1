/* DAG-CBOR to compact JSON, straight into the output buffer. */
#include "transcode.h"

#include <stdlib.h>

static place put_value(transcoder *t, place p, int depth);

static place open_container(transcoder *t, place p, uint64_t entries, int depth, char bracket)
{
    if (depth >= MAX_NESTING)
        return give_up(t, DROP_TOO_DEEP);
    if (entries > MAX_CONTAINER)
        return give_up(t, DROP_TOO_LARGE);
    *p.to++ = (uint8_t)bracket;
    return p;
}

/* Every entry has left a comma behind; the last one becomes the closing bracket. */
static inline place close_container(place p, uint64_t entries, uint8_t bracket)
{
    if (entries)
        p.to--;
    *p.to++ = bracket;
    return p;
}

static place put_array(transcoder *t, place p, uint64_t entries, int depth)
{
    p = open_container(t, p, entries, depth, '[');
    for (uint64_t left = entries; p.to && left; left--) {
        p = put_value(t, p, depth + 1);
        if (p.to)
            *p.to++ = ',';
    }
    return p.to ? close_container(p, entries, ']') : p;
}

/* In canonical order: the shorter key first, and of two as long the one with the lesser bytes. */
static inline int rises(text a, text b)
{
    if (a.len != b.len)
        return a.len < b.len;
    uint64_t x = first_bytes(a.at, a.len), y = first_bytes(b.at, b.len);
    if (x != y)
        return x < y;
    return a.len > sizeof x && memcmp(a.at + sizeof x, b.at + sizeof x, a.len - sizeof x) < 0;
}

static inline int same_text(text a, text b) { return a.len == b.len && memcmp(a.at, b.at, a.len) == 0; }

/* Keys lie in the record, so that eight bytes can be read wherever one begins. */
static uint64_t text_hash(const uint64_t seed[4], text key)
{
    uint64_t hash = seed[0] ^ key.len;
    for (size_t i = 0; i < key.len; i += sizeof hash)
        hash = fold(hash ^ first_bytes(key.at + i, key.len - i), seed[1]);
    return fold(hash ^ seed[2], seed[3]);
}

enum { FEW_KEYS = 12 }; /* up to here comparing each with each is quicker than hashing */
enum { UNIQUE, REPEATED, UNKNOWN };

static int has_repeated_hash(transcoder *t, const text *keys, size_t count)
{
    scratch *mem = t->mem;
    size_t size = 32;
    while (size < 2 * count)
        size *= 2;
    if (size > mem->mark_cap && !grow(&mem->marks, &mem->mark_cap, size, sizeof *mem->marks))
        return UNKNOWN;
    memset(mem->marks, 0, size * sizeof *mem->marks);
    for (size_t i = 0; i < count; i++) {
        size_t at = (size_t)text_hash(t->seed, keys[i]);
        for (; mem->marks[at & (size - 1)]; at++)
            if (same_text(keys[mem->marks[at & (size - 1)] - 1], keys[i]))
                return REPEATED;
        mem->marks[at & (size - 1)] = (uint32_t)i + 1;
    }
    return UNIQUE;
}

/* Only for maps out of canonical order: strictly rising keys cannot repeat. Time is in proportion to the keys' bytes,
 * whatever they are. */
static int has_repeated(transcoder *t, const text *keys, size_t count)
{
    if (count > FEW_KEYS)
        return has_repeated_hash(t, keys, count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++)
            if (same_text(keys[i], keys[k]))
                return REPEATED;
    return UNIQUE;
}

/* Follows one map for the pair of texts that makes a strong reference. */
typedef struct {
    size_t cid_start, cid_end; /* the written entry "cid":"...", as offsets in the output */
    int has_cid, has_uri;
} reference;

static inline int is_three(text key, const char *name) { return memcmp(key.at, name, 3) == 0; }

/* In canonical order "uri" comes right behind "cid", which then is simply written over. */
static place forget_cid(const transcoder *t, place p, reference *ref, text key)
{
    if (ref->has_cid && t->out->data + ref->cid_end == p.to && is_three(key, "uri")) {
        p.to = t->out->data + ref->cid_start;
        ref->has_cid = 0;
    }
    return p;
}

static void note_entry(reference *ref, text key, size_t start, size_t end)
{
    if (is_three(key, "uri")) {
        ref->has_uri = 1;
    } else if (is_three(key, "cid")) {
        ref->has_cid = 1;
        ref->cid_start = start;
        ref->cid_end = end;
    }
}

static place strip_cid(const transcoder *t, place p, const reference *ref)
{
    uint8_t *start = t->out->data + ref->cid_start, *end = t->out->data + ref->cid_end;
    memmove(start, end, (size_t)(p.to - end));
    p.to -= end - start;
    return p;
}

static ALWAYS_INLINE place put_text(transcoder *t, place p, uint64_t len)
{
    const uint8_t *s = p.at;
    if (len > (size_t)(t->end - s))
        return give_up(t, DROP_BAD_CBOR);
    p.at += len;
    return put_string(t, p, s, (size_t)len);
}

/* At the end of the record this looks at a byte behind it; reading a head there fails whatever it is. */
static inline int is_text(place p) { return *p.at >> 5 == 3; }

/* Four values in five are texts: those need not go through the general case. */
static ALWAYS_INLINE place put_member(transcoder *t, place p, int depth)
{
    head h;
    cursor in = {p.at, t->end};
    if (!is_text(p))
        return put_value(t, p, depth);
    if (!cbor_head(&in, &h))
        return give_up(t, DROP_BAD_CBOR);
    if (is_overlong(h))
        t->odd = 1;
    p.at = in.at;
    return put_text(t, p, h.arg);
}

static ALWAYS_INLINE place put_entry(transcoder *t, place p, text key, int depth, reference *ref)
{
    int may_refer = key.len == 3 && is_text(p);
    size_t start = 0;
    if (may_refer && !t->keep_cids)
        p = forget_cid(t, p, ref, key);
    if (may_refer)
        start = (size_t)(p.to - t->out->data);
    p = put_string(t, p, key.at, key.len);
    if (!p.to)
        return p;
    *p.to++ = ':';
    p = put_member(t, p, depth + 1);
    if (!p.to)
        return p;
    *p.to++ = ',';
    if (may_refer)
        note_entry(ref, key, start, (size_t)(p.to - t->out->data));
    return p;
}

static int read_long_key(transcoder *t, cursor *in, text *key)
{
    const uint8_t *start = in->at;
    if (!cbor_span(in, 3, &key->at, &key->len))
        return 0;
    t->odd |= (size_t)(key->at - start) != head_bytes(key->len);
    return 1;
}

/* Hardly a key is longer than its head has room for. */
static ALWAYS_INLINE int read_key(transcoder *t, cursor *in, text *key)
{
    size_t len = *in->at - 0x60u;
    if (len >= 24 || len >= (size_t)(in->end - in->at))
        return read_long_key(t, in, key);
    *key = (text){in->at + 1, len};
    in->at += 1 + len;
    return 1;
}

static int keep_key(transcoder *t, text key)
{
    scratch *mem = t->mem;
    if (t->key_count == mem->key_cap && !grow(&mem->keys, &mem->key_cap, 64, sizeof key))
        return 0;
    mem->keys[t->key_count++] = key;
    return 1;
}

/* A map that JSON would have for bytes or for a link. */
static int is_marked(text key)
{
    return (key.len == 5 && memcmp(key.at, "$link", 5) == 0) || (key.len == 6 && memcmp(key.at, "$bytes", 6) == 0);
}

/* Strictly rising keys cannot repeat: others are kept, and looked at when the map is read. */
static place begin_again(transcoder *t)
{
    t->out_of_order = 1;
    return give_up(t, DROP_NONE);
}

static place put_map(transcoder *t, place p, uint64_t entries, int depth)
{
    const size_t first = t->key_count;
    reference ref = {0};
    text key, before = {0};

    p = open_container(t, p, entries, depth, '{');
    for (uint64_t n = 0; p.to && n < entries; n++, before = key) {
        cursor in = {p.at, t->end};
        if (!read_key(t, &in, &key))
            return give_up(t, DROP_BAD_CBOR);
        p.at = in.at;
        if (t->keep_keys) {
            if (!keep_key(t, key))
                return give_up(t, DROP_NO_MEMORY);
        } else if (n && !rises(before, key)) {
            return begin_again(t);
        }
        p = put_entry(t, p, key, depth, &ref);
    }
    if (!p.to)
        return p;
    if (entries == 1 && is_marked(before))
        t->odd = 1;
    int repeated = t->keep_keys ? has_repeated(t, t->mem->keys + first, t->key_count - first) : UNIQUE;
    if (repeated != UNIQUE)
        return give_up(t, repeated == UNKNOWN ? DROP_NO_MEMORY : DROP_DUPLICATE_KEY);
    t->key_count = first;
    if (!t->keep_cids && ref.has_cid && ref.has_uri)
        p = strip_cid(t, p, &ref);
    return close_container(p, entries, '}');
}

static place put_value(transcoder *t, place p, int depth)
{
    head h;
    cursor in = {p.at, t->end};
    if (!cbor_head(&in, &h))
        return give_up(t, DROP_BAD_CBOR);
    if (is_overlong(h))
        t->odd = 1;
    p.at = in.at;
    switch (h.major) {
    case 0: return put_integer(t, p, h.arg, 0);
    case 1: return h.arg > INT64_MAX ? give_up(t, DROP_INT_RANGE) : put_integer(t, p, h.arg + 1, 1);
    case 2: return put_bytes(t, p, h.arg);
    case 3: return put_text(t, p, h.arg);
    case 4: return put_array(t, p, h.arg, depth);
    case 5: return put_map(t, p, h.arg, depth);
    case 6: return h.arg == 42 ? put_link(t, p) : give_up(t, DROP_BAD_CBOR);
    default: return put_simple(t, p, h);
    }
}

static drop_reason put_record(transcoder *t, const uint8_t *at)
{
    place p = room(t, (place){at, t->out->data + t->out->len}, 0);
    if (p.to)
        p = put_value(t, p, 0);
    if (!p.to)
        return t->why;
    if (p.at != t->end)
        return DROP_BAD_CBOR;
    t->out->len = (size_t)(p.to - t->out->data);
    return DROP_NONE;
}

static drop_reason transcode(const repo *r, const uint8_t *at, size_t len, buffer *out, uint8_t *odd)
{
    size_t start = out->len;
    transcoder t = {
        .end = at + len,
        .limit = out->data + out->cap,
        .out = out,
        .mem = r->mem,
        .seed = r->options.seed,
        .keep_cids = r->options.keep_cids,
    };
    drop_reason why = put_record(&t, at);
    *odd = t.odd | (uint8_t)t.out_of_order;
    if (!t.out_of_order)
        return why;
    out->len = start;
    t.keep_keys = 1;
    t.key_count = 0;
    return put_record(&t, at);
}

/* Where the CAR ends right behind the record, a wide load would pass its end: such a one is read from a copy. */
static drop_reason transcode_last(const repo *r, const uint8_t *at, size_t len, buffer *out, uint8_t *odd)
{
    uint8_t *copy = calloc(1, len + CHUNK);
    if (!copy)
        return DROP_NO_MEMORY;
    memcpy(copy, at, len);
    drop_reason why = transcode(r, copy, len, out, odd);
    free(copy);
    return why;
}

drop_reason json_from_cbor(const repo *r, const uint8_t *at, size_t len, buffer *out, uint8_t *odd)
{
    if (len && *at >> 5 != 5)
        return DROP_NOT_A_MAP;
    if (!out->data && !buffer_grow(out, SLACK))
        return DROP_NO_MEMORY;
    if (r->car + r->car_len - (at + len) < CHUNK)
        return transcode_last(r, at, len, out, odd);
    return transcode(r, at, len, out, odd);
}
