/* One node of a partial tree, opened with every check that it allows by itself. */
#include "live.h"

#include <stdlib.h>

int item_is_key(const item *one) { return one->key.at != NULL; }

int compare_texts(text a, text b)
{
    int order = memcmp(a.at, b.at, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

int items_push(items *list, const item *one)
{
    if (list->count == list->cap && !grow(&list->at, &list->cap, 64, sizeof *one))
        return 0;
    list->at[list->count++] = *one;
    return 1;
}

enum { CHUNK_SIZE = 64 << 10 };

/* Room for a key, or NULL. */
static uint8_t *key_room(live *l, size_t len)
{
    live_memory *mem = l->mem;
    if (!mem->keys || mem->keys->cap - mem->key_used < len) {
        chunk *fresh = malloc(sizeof *fresh + CHUNK_SIZE);
        if (!fresh)
            return NULL;
        *fresh = (chunk){.next = mem->keys, .cap = CHUNK_SIZE};
        mem->keys = fresh;
        mem->key_used = 0;
    }
    uint8_t *at = mem->keys->bytes + mem->key_used;
    mem->key_used += len;
    return at;
}

static int expect(cursor *c, const char *wanted, size_t len)
{
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, wanted, len) != 0)
        return 0;
    c->at += len;
    return 1;
}

/* A head in its shortest form. */
static int shortest(cursor *c, uint8_t major, uint64_t *arg)
{
    head h;
    if (!cbor_head(c, &h) || h.major != major)
        return 0;
    *arg = h.arg;
    return !is_overlong(h);
}

static int read_value(cursor *c, const uint8_t **cid, uint8_t *cid_len)
{
    uint64_t len;
    int is_sha256;
    if (!expect(c, "\xd8\x2a", 2) || !shortest(c, 2, &len) || len < 1 || len > MAX_CID + 1)
        return 0;
    if (len > (size_t)(c->end - c->at) || *c->at != 0)
        return 0;
    *cid = c->at + 1;
    *cid_len = (uint8_t)(len - 1);
    c->at += len;
    return cid_parse(*cid, *cid_len, &is_sha256) == *cid_len;
}

static int read_subtree(cursor *c, const uint8_t **digest)
{
    const uint8_t *cid;
    uint8_t len;
    if (c->at != c->end && *c->at == 0xf6) {
        c->at++;
        *digest = NULL;
        return 1;
    }
    if (!read_value(c, &cid, &len) || len != CID_SIZE || memcmp(cid, CID_PREFIX, 4) != 0)
        return 0;
    *digest = cid + 4;
    return 1;
}

/* Completes a key of which the first bytes are those of the one before it; `at` is NULL without memory for it. */
static int join_key(live *l, text before, uint64_t prefix, text suffix, text *key)
{
    if (prefix > before.len || prefix + suffix.len == 0 || prefix + suffix.len > MAX_KEY)
        return 0;
    /* The prefix must be all that the two share. */
    if (prefix < before.len && suffix.len && before.at[prefix] == suffix.at[0])
        return 0;
    l->key_bytes += prefix + suffix.len;
    if (l->key_bytes > MAX_KEYS)
        return 0;
    *key = suffix;
    if (prefix) {
        uint8_t *joined = key_room(l, prefix + suffix.len);
        *key = (text){joined, prefix + suffix.len};
        if (joined) {
            memcpy(joined, before.at, prefix);
            memcpy(joined + prefix, suffix.at, suffix.len);
        }
    }
    return 1;
}

/* A node under way. */
typedef struct {
    live *l;
    const item *tree;
    items *into;
    int layer;
    text before;  /* the key before, or the lower bound */
    text last;    /* the key before in this node */
} opening;

static int push_subtree(opening *o, const uint8_t *digest)
{
    item sub = {.low = o->before, .high = o->tree->high, .cid = digest, .layer = (int16_t)(o->layer - 1)};
    return items_push(o->into, &sub);
}

static refusal read_entry(opening *o, cursor *c)
{
    item found = {.layer = (int16_t)o->layer};
    uint64_t len, prefix;
    text suffix;
    const uint8_t *right;
    if (!expect(c, "\xa4\x61k", 3) || !shortest(c, 2, &len) || len > (size_t)(c->end - c->at))
        return LIVE_BAD_TREE;
    suffix = (text){c->at, (size_t)len};
    c->at += len;
    if (!expect(c, "\x61p", 2) || !shortest(c, 0, &prefix) || !join_key(o->l, o->last, prefix, suffix, &found.key))
        return LIVE_BAD_TREE;
    if (!found.key.at)
        return LIVE_NO_MEMORY;
    if (!expect(c, "\x61t", 2) || !read_subtree(c, &right) || !expect(c, "\x61v", 2)
        || !read_value(c, &found.cid, &found.cid_len))
        return LIVE_BAD_TREE;
    if ((o->before.at && compare_texts(o->before, found.key) >= 0)
        || (o->tree->high.at && compare_texts(found.key, o->tree->high) >= 0))
        return LIVE_BAD_TREE;
    o->before = o->last = found.key;
    if (!items_push(o->into, &found) || (right && !push_subtree(o, right)))
        return LIVE_NO_MEMORY;
    return LIVE_OK;
}

enum { HASHED_TOGETHER = 32 };

/* The layer of every key: a root's first key says it for the others. */
static refusal check_layers(opening *o, size_t first)
{
    hash_job jobs[HASHED_TOGETHER];
    for (size_t next = first; next < o->into->count;) {
        size_t count = 0;
        for (; next < o->into->count && count < HASHED_TOGETHER; next++)
            if (item_is_key(&o->into->at[next]))
                jobs[count++] = (hash_job){.data = o->into->at[next].key.at, .len = o->into->at[next].key.len};
        sha256_all(jobs, count);
        for (size_t i = 0; i < count; i++) {
            if (o->layer < 0)
                o->layer = digest_layer(jobs[i].digest);
            if (digest_layer(jobs[i].digest) != o->layer)
                return LIVE_BAD_TREE;
        }
    }
    return LIVE_OK;
}

/* What is known when all keys are: layers, and the upper bounds of subtrees. The left one was pushed first. */
static refusal complete(opening *o, size_t first, int has_left)
{
    items *found = o->into;
    int is_root = o->tree->layer < 0;
    size_t count = found->count - first;
    if (count == (size_t)has_left && has_left == is_root)
        return LIVE_BAD_TREE; /* without keys only an empty root and a step down to the next layer are in place */
    refusal why = check_layers(o, first);
    for (size_t i = first; !why && i < found->count; i++) {
        item *one = &found->at[i];
        one->layer = (int16_t)(item_is_key(one) ? o->layer : o->layer - 1);
        if (item_is_key(one))
            continue;
        if (o->layer == 0)
            why = LIVE_BAD_TREE;
        if (i + 1 < found->count)
            one->high = found->at[i + 1].key;
    }
    return why;
}

/* Reads a node, which must be written in the one way there is, or it could not be written back. */
refusal node_open(live *l, const item *tree, items *into)
{
    opening o = {.l = l, .tree = tree, .into = into, .layer = tree->layer, .before = tree->low};
    const block *b = car_find(&l->r, tree->cid);
    size_t first = into->count;
    const uint8_t *left;
    uint64_t count;
    refusal why = LIVE_OK;
    if (!b)
        return LIVE_PARTIAL_TREE;
    cursor c = {l->r.car + b->start, l->r.car + b->start + b->len};
    if (!expect(&c, "\xa2\x61" "e", 3) || !shortest(&c, 4, &count))
        return LIVE_BAD_TREE;
    /* The left subtree comes first in order and last in the bytes: a place is left for it. */
    item none = {.low = tree->low, .high = tree->high};
    if (!items_push(into, &none))
        return LIVE_NO_MEMORY;
    for (; !why && count; count--)
        why = read_entry(&o, &c);
    if (why)
        return why;
    if (!expect(&c, "\x61l", 2) || !read_subtree(&c, &left) || c.at != c.end)
        return LIVE_BAD_TREE;
    into->at[first].cid = left;
    if (!left) {
        into->count--;
        memmove(into->at + first, into->at + first + 1, (into->count - first) * sizeof *into->at);
    }
    return complete(&o, first, left != NULL);
}
