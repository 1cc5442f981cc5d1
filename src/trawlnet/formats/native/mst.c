/* The Merkle search tree: every key in order, every check, on a stack of our own. */
#include "repoblock.h"

#include <stdlib.h>

typedef struct {
    const uint8_t *suffix;
    const uint8_t *value;   /* digest of the record, or NULL for a CID we cannot follow */
    const uint8_t *subtree; /* digest, or NULL */
    uint32_t suffix_len;
    uint32_t prefix_len;
} entry;

typedef struct {
    const uint8_t *start;   /* for error places */
    const uint8_t *left;    /* subtree still to visit before the entries */
    size_t first, next, end; /* range of walk.entries */
    size_t key_len;
    int layer;
    uint8_t key[MAX_KEY];
} node;

typedef struct {
    repo *r;
    node *nodes;            /* the path from the root; layers only fall, so it is at most layer + 1 long */
    size_t depth;
    entry *entries;         /* of every node on the path, one after the other */
    size_t entry_count, entry_cap;
    const node *last;       /* whose key was visited last */
} walk;

static int key_layer(const uint8_t *key, size_t len)
{
    uint8_t digest[DIGEST];
    int layer = 0;
    sha256(key, len, digest);
    for (int i = 0; i < DIGEST; i++) {
        if (digest[i])
            return layer + __builtin_clz((unsigned)digest[i] << 24) / 2;
        layer += 4;
    }
    return layer;
}

static int read_key(cursor *c, char name)
{
    if (c->end - c->at < 2 || c->at[0] != 0x61 || c->at[1] != (uint8_t)name)
        return 0;
    c->at += 2;
    return 1;
}

static int read_subtree(cursor *c, const uint8_t **digest)
{
    if (c->at != c->end && *c->at == 0xf6) {
        c->at++;
        *digest = NULL;
        return 1;
    }
    return cbor_sha256_link(c, digest);
}

static int read_entry(cursor *c, entry *e)
{
    head h;
    const uint8_t *cid;
    size_t suffix, cid_len;
    if (!cbor_head(c, &h) || h.major != 5 || h.arg != 4)
        return 0;
    if (!read_key(c, 'k') || !cbor_span(c, 2, &e->suffix, &suffix) || suffix > MAX_KEY)
        return 0;
    if (!read_key(c, 'p') || !cbor_head(c, &h) || h.major != 0 || h.arg > MAX_KEY)
        return 0;
    if (!read_key(c, 't') || !read_subtree(c, &e->subtree))
        return 0;
    if (!read_key(c, 'v') || !cbor_link(c, &cid, &cid_len))
        return 0;
    e->suffix_len = (uint32_t)suffix;
    e->prefix_len = (uint32_t)h.arg;
    e->value = cid_len == CID_SIZE && memcmp(cid, CID_PREFIX, 4) == 0 ? cid + 4 : NULL;
    return 1;
}

static repo_error push_entry(walk *w, const entry *e)
{
    if (w->entry_count == w->entry_cap) {
        size_t cap = w->entry_cap ? w->entry_cap * 2 : 64;
        entry *grown = cap > SIZE_MAX / sizeof *grown ? NULL : realloc(w->entries, cap * sizeof *grown);
        if (!grown)
            return REPO_NO_MEMORY;
        w->entries = grown;
        w->entry_cap = cap;
    }
    w->entries[w->entry_count++] = *e;
    return REPO_OK;
}

/* Reads a node of exactly the canonical shape {e: [{k, p, t, v}...], l}. */
static repo_error parse_node(walk *w, const uint8_t digest[DIGEST], node *n)
{
    repo *r = w->r;
    const block *b = car_find(r, digest);
    head h;
    entry e;
    if (!b)
        return repo_fail(r, REPO_MISSING_BLOCK, "a tree node is not in the CAR", digest);
    n->start = r->car + b->start;
    n->key_len = 0;
    n->first = n->next = w->entry_count;
    cursor c = {n->start, n->start + b->len};
    if (!cbor_head(&c, &h) || h.major != 5 || h.arg != 2 || !read_key(&c, 'e') || !cbor_head(&c, &h) || h.major != 4)
        return repo_fail(r, REPO_BAD_TREE, "a tree node is malformed", c.at);
    for (uint64_t left = h.arg; left; left--) {
        if (!read_entry(&c, &e))
            return repo_fail(r, REPO_BAD_TREE, "a tree entry is malformed", c.at);
        if (e.value)
            car_prefetch(r, e.value);
        repo_error error = push_entry(w, &e);
        if (error)
            return error;
    }
    n->end = w->entry_count;
    if (!read_key(&c, 'l') || !read_subtree(&c, &n->left) || c.at != c.end)
        return repo_fail(r, REPO_BAD_TREE, "a tree node's left link is malformed", c.at);
    if (n->first != n->end && w->entries[n->first].prefix_len != 0)
        return repo_fail(r, REPO_BAD_TREE, "a node's first key has a prefix", n->start);
    return REPO_OK;
}

static repo_error push_root(walk *w)
{
    repo *r = w->r;
    node root = {0};
    repo_error error = parse_node(w, r->data_root, &root);
    if (error)
        return error;
    if (root.first == root.end && root.left)
        return repo_fail(r, REPO_BAD_TREE, "the root node is only a pointer", root.start);
    if (root.first != root.end)
        root.layer = key_layer(w->entries[0].suffix, w->entries[0].suffix_len);
    w->nodes = malloc(((size_t)root.layer + 1) * sizeof *w->nodes);
    if (!w->nodes)
        return REPO_NO_MEMORY;
    w->nodes[w->depth++] = root;
    return REPO_OK;
}

static repo_error push_child(walk *w, const node *parent, const uint8_t digest[DIGEST])
{
    repo *r = w->r;
    if (parent->layer == 0)
        return repo_fail(r, REPO_BAD_TREE, "a node of layer 0 has a subtree", parent->start);
    node *n = &w->nodes[w->depth];
    repo_error error = parse_node(w, digest, n);
    if (error)
        return error;
    n->layer = parent->layer - 1;
    /* Also what ends a cycle at once: a node has its own layer only once on a path. */
    if (n->first != n->end) {
        const entry *e = &w->entries[n->first];
        if (key_layer(e->suffix, e->suffix_len) != n->layer)
            return repo_fail(r, REPO_BAD_TREE, "a key is in the wrong layer", n->start);
    } else if (!n->left) {
        return repo_fail(r, REPO_BAD_TREE, "a node below the root is empty", n->start);
    }
    w->depth++;
    return REPO_OK;
}

static int comes_after(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    size_t shared = a_len < b_len ? a_len : b_len;
    int order = shared ? memcmp(a, b, shared) : 0;
    return order ? order > 0 : a_len > b_len;
}

/* Completes the entry's key in place of the node's previous one. */
static repo_error next_key(walk *w, node *n, const entry *e)
{
    repo *r = w->r;
    size_t prefix = e->prefix_len, len = prefix + e->suffix_len;
    if (prefix > n->key_len)
        return repo_fail(r, REPO_BAD_TREE, "a prefix is longer than the key before", n->start);
    if (len > MAX_KEY || len == 0)
        return repo_fail(r, REPO_BAD_TREE, "a key is empty or too long", n->start);
    int ordered = w->last != n || comes_after(e->suffix, e->suffix_len, n->key + prefix, n->key_len - prefix);
    memcpy(n->key + prefix, e->suffix, e->suffix_len);
    n->key_len = len;
    if (w->last && w->last != n)
        ordered = comes_after(n->key, len, w->last->key, w->last->key_len);
    if (!ordered)
        return repo_fail(r, REPO_BAD_TREE, "keys are out of order", n->start);
    w->last = n;
    return REPO_OK;
}

static repo_error visit_entry(walk *w, node *n, const entry *e)
{
    repo *r = w->r;
    block *record = NULL;
    repo_error error = next_key(w, n, e);
    if (error)
        return error;
    if (key_layer(n->key, n->key_len) != n->layer)
        return repo_fail(r, REPO_BAD_TREE, "a key is in the wrong layer", n->start);
    if (e->value) {
        record = car_find(r, e->value);
        if (!record)
            return repo_fail(r, REPO_MISSING_BLOCK, "a record is not in the CAR", e->value);
    }
    return record_add(r, n->key, n->key_len, record);
}

static repo_error walk_nodes(walk *w)
{
    repo_error error = push_root(w);
    while (!error && w->depth) {
        node *n = &w->nodes[w->depth - 1];
        if (n->left) {
            const uint8_t *left = n->left;
            n->left = NULL;
            error = push_child(w, n, left);
        } else if (n->next == n->end) {
            w->entry_count = n->first;
            w->depth--;
        } else {
            const entry *e = &w->entries[n->next++];
            const uint8_t *subtree = e->subtree;
            error = visit_entry(w, n, e);
            if (!error && subtree)
                error = push_child(w, n, subtree);
        }
    }
    return error;
}

repo_error mst_walk(repo *r)
{
    walk w = {.r = r};
    repo_error error = walk_nodes(&w);
    free(w.nodes);
    free(w.entries);
    return error;
}
