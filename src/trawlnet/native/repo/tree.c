/* The Merkle search tree from below: one open node in each layer. */
#include "tree.h"

#include <stdlib.h>

struct tree_layer {
    int open;
    size_t count;       /* entries */
    buffer entries;     /* without the links of the last one, whose subtree is still to come */
    uint8_t key[MAX_KEY];
    size_t key_len;
    uint8_t cid[255];
    size_t cid_len;
    int has_left, has_child;
    uint8_t left[DIGEST], child[DIGEST]; /* before the first entry; behind the last */
};

static int fail(tree *t, const char *what)
{
    t->wrong = what;
    return 0;
}

static int fail_memory(tree *t)
{
    t->no_memory = 1;
    return 0;
}

static uint8_t *put_head(uint8_t *to, unsigned major, size_t arg)
{
    if (arg > 0xffff) {
        *to++ = (uint8_t)(major << 5 | 26);
        *to++ = (uint8_t)(arg >> 24);
        *to++ = (uint8_t)(arg >> 16);
    } else if (arg > 0xff) {
        *to++ = (uint8_t)(major << 5 | 25);
    }
    if (arg > 0xff)
        *to++ = (uint8_t)(arg >> 8);
    else if (arg > 23)
        *to++ = (uint8_t)(major << 5 | 24);
    *to++ = (uint8_t)(arg > 23 ? arg : major << 5 | arg);
    return to;
}

static uint8_t *put_name(uint8_t *to, char name)
{
    *to++ = 0x61;
    *to++ = (uint8_t)name;
    return to;
}

static uint8_t *put_cid(uint8_t *to, const uint8_t *cid, size_t len)
{
    *to++ = 0xd8;
    *to++ = 42;
    to = put_head(to, 2, len + 1);
    *to++ = 0;
    memcpy(to, cid, len);
    return to + len;
}

static uint8_t *put_node(uint8_t *to, const uint8_t *digest)
{
    static const uint8_t LINK[9] = {0xd8, 0x2a, 0x58, CID_SIZE + 1, 0, 0x01, 0x71, 0x12, 0x20};
    if (!digest) {
        *to++ = 0xf6;
        return to;
    }
    memcpy(to, LINK, sizeof LINK);
    memcpy(to + sizeof LINK, digest, DIGEST);
    return to + sizeof LINK + DIGEST;
}

/* The links of the last entry, now that what lies behind it is known. */
static int end_entry(tree *t, tree_layer *l)
{
    if (!l->count)
        return 1;
    if (!buffer_reserve(&l->entries, 64 + sizeof l->cid))
        return fail_memory(t);
    uint8_t *to = l->entries.data + l->entries.len;
    to = put_node(put_name(to, 't'), l->has_child ? l->child : NULL);
    to = put_cid(put_name(to, 'v'), l->cid, l->cid_len);
    l->entries.len = (size_t)(to - l->entries.data);
    l->has_child = 0;
    return 1;
}

static tree_layer *open_layer(tree *t, int layer)
{
    tree_layer *l = t->layers[layer];
    if (!l)
        l = t->layers[layer] = calloc(1, sizeof *l);
    if (!l) {
        t->no_memory = 1;
        return NULL;
    }
    if (!l->open) {
        l->open = 1;
        l->count = l->entries.len = l->key_len = 0;
        l->has_left = l->has_child = 0;
    }
    return l;
}

static int close_node(tree *t, int layer, uint8_t digest[DIGEST])
{
    enum { AROUND = 64 };
    tree_layer *l = t->layers[layer];
    if (!end_entry(t, l))
        return 0;
    t->node.len = 0;
    if (!buffer_reserve(&t->node, l->entries.len + AROUND))
        return fail_memory(t);
    uint8_t *to = t->node.data;
    *to++ = 0xa2;
    to = put_head(put_name(to, 'e'), 4, l->count);
    if (l->entries.len)
        memcpy(to, l->entries.data, l->entries.len);
    to = put_node(put_name(to + l->entries.len, 'l'), l->has_left ? l->left : NULL);
    t->node.len = (size_t)(to - t->node.data);
    l->open = 0;
    sha256(t->node.data, t->node.len, digest);
    return !t->car || car_frame(t->car, digest, t->node.data, t->node.len) || fail_memory(t);
}

static int take_child(tree *t, int layer, const uint8_t digest[DIGEST])
{
    tree_layer *l = open_layer(t, layer);
    if (!l)
        return 0;
    if (l->has_child || (!l->count && l->has_left))
        return fail(t, "two subtrees side by side");
    memcpy(l->count ? l->child : l->left, digest, DIGEST);
    *(l->count ? &l->has_child : &l->has_left) = 1;
    return 1;
}

/* Closes all that lies below a layer; each node goes to the one above. */
static int settle(tree *t, int layer)
{
    uint8_t digest[DIGEST];
    for (int i = 0; i < layer; i++)
        if (t->layers[i] && t->layers[i]->open && (!close_node(t, i, digest) || !take_child(t, i + 1, digest)))
            return 0;
    return 1;
}

static size_t shared_prefix(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    size_t n = 0;
    while (n < a_len && n < b_len && a[n] == b[n])
        n++;
    return n;
}

int tree_add(tree *t, int layer, const uint8_t *key, size_t len, const uint8_t *cid, size_t cid_len)
{
    enum { AROUND = 32 };
    tree_layer *l = settle(t, layer) ? open_layer(t, layer) : NULL;
    if (!l || !end_entry(t, l))
        return 0;
    if (len > MAX_KEY || cid_len > sizeof l->cid)
        return fail(t, "a key or a CID that is too long");
    if (!buffer_reserve(&l->entries, len + AROUND))
        return fail_memory(t);
    size_t prefix = l->count ? shared_prefix(l->key, l->key_len, key, len) : 0;
    uint8_t *to = l->entries.data + l->entries.len;
    *to++ = 0xa4;
    to = put_head(put_name(to, 'k'), 2, len - prefix);
    memcpy(to, key + prefix, len - prefix);
    to = put_head(put_name(to + len - prefix, 'p'), 0, prefix);
    l->entries.len = (size_t)(to - l->entries.data);
    memcpy(l->key + prefix, key + prefix, len - prefix);
    l->key_len = len;
    memcpy(l->cid, cid, cid_len);
    l->cid_len = cid_len;
    l->count++;
    return 1;
}

int tree_add_subtree(tree *t, int layer, const uint8_t digest[DIGEST])
{
    if (layer < 0 || layer > MAX_LAYER)
        return fail(t, "a layer that no tree has");
    return settle(t, layer + 1) && take_child(t, layer + 1, digest);
}

int tree_finish(tree *t, uint8_t root[DIGEST])
{
    int top = MAX_LAYER + 1;
    while (top > 0 && !(t->layers[top] && t->layers[top]->open))
        top--;
    if (!settle(t, top) || !open_layer(t, top))
        return 0;
    tree_layer *l = t->layers[top];
    /* A root is never only a pointer: what it would point to is the root. */
    if (!l->count && l->has_left) {
        memcpy(root, l->left, DIGEST);
        l->open = 0;
        return 1;
    }
    return close_node(t, top, root);
}

void tree_reset(tree *t)
{
    for (int i = 0; i < MAX_LAYER + 2; i++)
        if (t->layers[i])
            t->layers[i]->open = 0;
    t->wrong = NULL;
    t->no_memory = 0;
}

size_t tree_size(const tree *t)
{
    size_t size = t->node.cap;
    for (int i = 0; i < MAX_LAYER + 2; i++)
        if (t->layers[i])
            size += sizeof *t->layers[i] + t->layers[i]->entries.cap;
    return size;
}

void tree_free(tree *t)
{
    for (int i = 0; i < MAX_LAYER + 2; i++)
        if (t->layers[i]) {
            free(t->layers[i]->entries.data);
            free(t->layers[i]);
        }
    free(t->node.data);
    memset(t, 0, sizeof *t);
}

int car_frame(buffer *car, const uint8_t digest[DIGEST], const uint8_t *data, size_t len)
{
    size_t left = CID_SIZE + len;
    if (!buffer_reserve(car, left + 10))
        return 0;
    uint8_t *to = car->data + car->len;
    for (; left > 0x7f; left >>= 7)
        *to++ = (uint8_t)(left | 0x80);
    *to++ = (uint8_t)left;
    memcpy(to, CID_PREFIX, 4);
    memcpy(to + 4, digest, DIGEST);
    if (len)
        memcpy(to + CID_SIZE, data, len);
    car->len = (size_t)(to + CID_SIZE + len - car->data);
    return 1;
}
